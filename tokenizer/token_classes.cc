#include "tokenizer/token_classes.h"

#include <algorithm>

#include "absl/strings/strip.h"
#include "absl/types/span.h"

namespace varifocal {
namespace {

constexpr TokenizerClass kGeneric4 = {.name = "", .defaults = {}, .own_prefix_space = true};
constexpr TokenizerClass kClasses4[] = {
    {.name = "LlamaTokenizer",
     .defaults = {"<s>", "</s>", "<unk>"},
     .specials = TokenizerClass::kByFlags,
     .add_bos_default = true},
    {.name = "CodeLlamaTokenizer",
     .defaults = {"<s>", "</s>", "<unk>"},
     .specials = TokenizerClass::kByFlags,
     .add_bos_default = true,
     .own_prefix_space = true},
    {.name = "GemmaTokenizer",
     .defaults = {"<bos>", "<eos>", "<unk>", nullptr, "<pad>"},
     .specials = TokenizerClass::kByFlags,
     .add_bos_default = true,
     .own_prefix_space = true},
    {.name = "CohereTokenizer",
     .defaults = {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>"},
     .specials = TokenizerClass::kByFlags,
     .add_bos_default = true,
     .own_prefix_space = true},
    {.name = "GPTNeoXTokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
     .specials = TokenizerClass::kByFlags,
     .own_prefix_space = true},
    {.name = "GPT2Tokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
     .own_prefix_space = true},
    {.name = "CodeGenTokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
     .own_prefix_space = true},
    {.name = "Qwen2Tokenizer",
     .defaults = {nullptr, "<|endoftext|>", "<|endoftext|>", nullptr, "<|endoftext|>"},
     .own_prefix_space = true,
     .wraps_names = true},
    {.name = "BloomTokenizer", .defaults = {"<s>", "</s>", "<unk>", nullptr, "<pad>"}, .own_prefix_space = true},
};

constexpr TokenizerClass kGeneric5 = {.name = "", .defaults = {}};
constexpr TokenizerClass kClasses5[] = {
    {.name = "LlamaTokenizer", .defaults = {"<s>", "</s>", "<unk>"}, .rebuilt = true},
    {.name = "CodeLlamaTokenizer", .defaults = {"<s>", "</s>", "<unk>"}, .rebuilt = true},
    {.name = "GemmaTokenizer",
     .defaults = {"<bos>", "<eos>", "<unk>", nullptr, "<pad>", nullptr, "<mask>"},
     .rebuilt = true},
    {.name = "CohereTokenizer",
     .defaults = {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>"},
     .rebuilt = true},
    {.name = "GPTNeoXTokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", nullptr, "<|padding|>"},
     .specials = TokenizerClass::kEmpty,
     .rebuilt = true,
     .own_prefix_space = true},
    {.name = "GPT2Tokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
     .rebuilt = true,
     .own_prefix_space = true},
    {.name = "CodeGenTokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
     .rebuilt = true,
     .own_prefix_space = true},
    {.name = "Qwen2Tokenizer",
     .defaults = {nullptr, "<|endoftext|>", "<|endoftext|>", nullptr, "<|endoftext|>"},
     .rebuilt = true,
     .wraps_names = true},
    {.name = "Qwen3_5Tokenizer",
     .defaults = {nullptr, "<|endoftext|>", "<|endoftext|>", nullptr, "<|endoftext|>"},
     .rebuilt = true},
};

// The class of a model type, for directories that name none; null: the generic one.
struct ModelTypeRow {
  absl::string_view type;
  const char* class4;
  const char* class5;
  bool overrides5 = false;   // 5.24 takes its own class whatever the directory names
  bool needs_name4 = false;  // 4.57 has no class for this type that reads tokenizer.json: it refuses without a name
};
constexpr ModelTypeRow kModelTypes[] = {
    {"llama", "LlamaTokenizer", nullptr},
    {"mistral", "LlamaTokenizer", nullptr, true},
    {"mistral3", "LlamaTokenizer", nullptr, true},
    {"mixtral", "LlamaTokenizer", nullptr, true},
    {"ministral", "LlamaTokenizer", nullptr, true},
    {"ministral3", nullptr, nullptr, true, true},
    {"qwen2", "Qwen2Tokenizer", "Qwen2Tokenizer", true},
    {"qwen2_moe", "Qwen2Tokenizer", "Qwen2Tokenizer"},
    {"qwen2_5_vl", "Qwen2Tokenizer", "Qwen2Tokenizer"},
    {"qwen3", "Qwen2Tokenizer", "Qwen2Tokenizer"},
    {"qwen3_moe", "Qwen2Tokenizer", "Qwen2Tokenizer"},
    {"qwen3_vl", "Qwen2Tokenizer", "Qwen2Tokenizer"},
    {"qwen3_next", "Qwen2Tokenizer", "Qwen2Tokenizer"},
    {"qwen2_5_vl_text", nullptr, nullptr, false, true},
    {"qwen3_vl_text", nullptr, nullptr, false, true},
    {"qwen3_5", nullptr, "Qwen3_5Tokenizer", true, true},
    {"qwen3_5_text", nullptr, "Qwen3_5Tokenizer", false, true},
    {"gemma2", "GemmaTokenizer", "GemmaTokenizer"},
    {"gemma3", "GemmaTokenizer", "GemmaTokenizer"},
    {"gemma3_text", "GemmaTokenizer", "GemmaTokenizer"},
    {"gemma3n", "GemmaTokenizer", "GemmaTokenizer"},
    {"gemma3n_text", "GemmaTokenizer", "GemmaTokenizer"},
    {"gemma4", nullptr, nullptr, false, true},
    {"gemma4_text", nullptr, nullptr, false, true},
    {"olmo", "GPTNeoXTokenizer", "GPTNeoXTokenizer"},
    {"olmo2", "GPTNeoXTokenizer", nullptr, true},
    {"olmo3", "GPT2Tokenizer", nullptr, true},
    {"olmoe", "GPTNeoXTokenizer", "GPTNeoXTokenizer"},
    {"gpt2", "GPT2Tokenizer", "GPT2Tokenizer"},
    {"gpt_neox", "GPTNeoXTokenizer", "GPTNeoXTokenizer"},
    {"phi", "CodeGenTokenizer", "GPT2Tokenizer"},
    {"phi3", "LlamaTokenizer", nullptr, true},
    {"granite", nullptr, nullptr, true, true},
    {"granitemoe", nullptr, nullptr, true, true},
    {"granitemoehybrid", nullptr, nullptr, true, true},
    {"glm", nullptr, nullptr, true},
    {"glm4", nullptr, nullptr, true},
    {"cohere2", "CohereTokenizer", "CohereTokenizer"},
    {"exaone4", "GPT2Tokenizer", nullptr},
    {"nemotron", nullptr, nullptr, true},
    {"stablelm", "GPTNeoXTokenizer", nullptr, true},
    {"starcoder2", "GPT2Tokenizer", "GPT2Tokenizer"},
    {"arcee", "LlamaTokenizer", nullptr},
    {"smollm3", nullptr, nullptr},
    {"ernie4_5", "LlamaTokenizer", nullptr, true},
    {"gpt_oss", nullptr, nullptr},
    {"seed_oss", nullptr, nullptr, false, true},
    {"apertus", nullptr, nullptr, false, true},
    {"hunyuan_v1_dense", nullptr, nullptr, false, true},
    {"lfm2", nullptr, nullptr, false, true},
    {"falcon_h1", nullptr, nullptr, false, true},
    {"bamba", nullptr, nullptr, false, true},
    {"nemotron_h", nullptr, nullptr, false, true},
    {"deepseek_v2", "LlamaTokenizer", nullptr},
    {"deepseek_v3", "LlamaTokenizer", nullptr},
    {"minicpm3", nullptr, nullptr, true, true},
};

const ModelTypeRow* FindModelType(absl::string_view type) {
  const auto found = std::find_if(std::begin(kModelTypes), std::end(kModelTypes),
                                  [&](const ModelTypeRow& row) { return row.type == type; });
  return found == std::end(kModelTypes) ? nullptr : found;
}

const TokenizerClass& FindClass(absl::Span<const TokenizerClass> rows, absl::string_view name,
                                const TokenizerClass& generic) {
  for (const TokenizerClass& row : rows) {
    if (row.name == name) return row;
  }
  return generic;
}

absl::string_view OrEmpty(const char* name) { return name == nullptr ? "" : name; }

}  // namespace

const TokenizerClass* ClassOfTransformers4(const ClassHints& hints) {
  absl::string_view name = absl::StripSuffix(hints.class_name, "Fast");
  const ModelTypeRow* const model = FindModelType(hints.model_type);
  if (name.empty() && model != nullptr) {
    if (model->needs_name4) return nullptr;
    name = OrEmpty(model->class4);
  }
  return &FindClass(kClasses4, name, kGeneric4);
}

const TokenizerClass* ClassOfTransformers5(const ClassHints& hints) {
  absl::string_view name = absl::StripSuffix(hints.class_name, "Fast");
  const ModelTypeRow* const model = FindModelType(hints.model_type);
  const bool overrides = model != nullptr && model->overrides5;
  // A Llama class over a byte-level file is a mistake of the directory; 5.24 takes the file as it is.
  if (name == "LlamaTokenizer" && hints.pre_tokenizer_is_byte_level && !overrides) return &kGeneric5;
  if (name.empty() || overrides) name = model == nullptr ? "" : OrEmpty(model->class5);
  return &FindClass(kClasses5, name, kGeneric5);
}

bool HasTokenizerClassRow(absl::string_view model_type) { return FindModelType(model_type) != nullptr; }

}  // namespace varifocal
