// Loading, for every row of the table of architectures: each tensor of a golden checkpoint is removed, or given a wrong
// shape, another type or a NaN in turn, and the error must name it; checkpoints without optional and with ignored
// tensors load. The results of loaded weights are compared with transformers by the engine's golden test.
#include "server/model/transformer.h"

#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/model/config.h"
#include "server/model/kernel_status.h"
#include "server/model/rope_tables.h"
#include "server/model/unread_tensors.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using Tensors = std::map<std::string, TensorView, std::less<>>;

constexpr const char* kGoldens[] = {
    "llama-biases",
    "mistral-window",
    "qwen2-window",
    "qwen3-layer-types",
    "gemma3-older",
    "olmo2",
    "gpt2",
    "gpt-neox-sequential",
    "phi3-older",
    "granite",
    "gemma2-older",
    "gemma3n",
    "gemma3n-shared",
    "gemma4",
    "gemma4-shared",
    "gemma4-experts",
    "olmo3-older",
    "smollm3-older",
    "seed-oss-biases",
    "arcee-biases",
    "exaone4-hybrid",
    "ministral3",
    "phi3-newer",
    "gpt2-bare-names",
    "../attention/log-n-learned",
    "qwen3-moe",
    "qwen3-moe-fused",
    "mixtral",
    "mixtral-window",
    "qwen2-moe",
    "granitemoe",
    "granitemoehybrid",
    "granitemoehybrid-dense",
    "falcon-h1",
    "bamba",
    "nemotron-h",
    "nemotron-h-older",
    "nemotron-h-experts",
    "nemotron-h-groups",
    "deepseek-v2",
    "deepseek-v2-lite",
    "deepseek-v3",
    "deepseek-v3-plain",
    "deepseek-v3-wide",
    "minicpm3",
    "minicpm3-newer",
    "lfm2",
    "lfm2-newer",
    "gpt-oss",
    "phi",
    "apertus-newer",
    "hunyuan",
    "qwen3-next",
    "qwen3-5",
};

class TransformerTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string directory = absl::StrCat("tests/testdata/goldens/architectures/", GetParam());
    ASSIGN_OR_FAIL(const auto text, ReadFile(directory + "/config.json", kConfigFile));
    ASSIGN_OR_FAIL(config_, ParseModelConfig(text));
    ASSIGN_OR_FAIL(source_, OpenWeights(directory));
    for (const auto& [name, tensor] : source_->tensors()) ASSERT_TRUE(source_->Load(tensor).ok());
    ASSIGN_OR_FAIL(backend_, ToStatusOr(kernels::CreateBackend({.device = "reference"})));
  }

  absl::StatusOr<std::unique_ptr<Transformer>> Load(const Tensors& tensors) const {
    return Transformer::Load(*FindArchitecture(config_.model_type), config_, WeightSource(tensors, {}), backend_);
  }
  std::string Refusal(const Tensors& tensors) const {
    const auto loaded = Load(tensors);
    if (loaded.ok()) return "loaded";
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(loaded.status().message());
  }
  // The required ones.
  Tensors Needed() const {
    Tensors needed;
    for (const auto& [name, tensor] : source_->tensors()) {
      if (config_.tied_embeddings && name == "lm_head.weight") continue;
      if (IsUnread(config_, name)) continue;
      if (absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attention.bias")) continue;
      if (absl::EndsWith(name, "masked_bias") || absl::EndsWith(name, "inv_freq")) continue;
      // Of a layer that predicts further tokens.
      const std::string further = absl::StrCat("model.layers.", config_.layer_count, ".");
      if (config_.further_layers > 0 && absl::StartsWith(name, further)) continue;
      needed.emplace(name, tensor);
    }
    return needed;
  }

  ModelConfig config_;
  std::unique_ptr<WeightSource> source_;
  std::shared_ptr<kernels::Backend> backend_;
};

TEST_P(TransformerTest, LoadsExactlyTheRequiredTensors) {
  const Tensors needed = Needed();
  ASSIGN_OR_FAIL(const auto loaded, Load(needed));
  int64_t parameters = 0;
  for (const auto& [name, tensor] : needed) parameters += tensor.element_count();
  EXPECT_EQ(loaded->parameter_count(), parameters);
  ASSERT_TRUE(Load(source_->tensors()).ok());
  int64_t page_bytes = 0;
  for (size_t group = 0; group < config_.page_groups.size(); ++group) {
    EXPECT_EQ(loaded->KvShape(group).layer_count, config_.page_groups[group].layer_count);
    page_bytes += loaded->PageBytes(group);
  }
  EXPECT_EQ(loaded->PageBytes(), page_bytes);
}

// What is planned for the weights before they are packed is what they take, all experts included.
TEST_P(TransformerTest, PlansTheMemoryOfAllMatrices) {
  int64_t planned = 0;
  const auto loaded = Transformer::Load(*FindArchitecture(config_.model_type), config_, WeightSource(Needed(), {}),
                                        backend_, {}, [&](const kernels::Backend&, int64_t needed_bytes) {
                                          planned = needed_bytes;
                                          return absl::OkStatus();
                                        });
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(planned, (*loaded)->weight_bytes());
  const MixtureConfig& mixture = config_.mixture;
  for (const LayerWeights& layer : (*loaded)->layers()) {
    if (layer.router == nullptr) continue;
    EXPECT_EQ(layer.gate_up.weight->rows(), mixture.expert_count * (mixture.gated ? 2 : 1) * mixture.width);
    EXPECT_EQ(layer.down.weight->rows(), mixture.expert_count * config_.width);
  }
}

TEST_P(TransformerTest, EachMissingTensorIsReported) {
  for (const auto& [name, tensor] : Needed()) {
    Tensors without = source_->tensors();
    without.erase(name);
    // The head of gpt_neox has an older name, used in its files, and a newer one.
    const std::string missed = name == "embed_out.weight" ? "lm_head.weight" : name;
    EXPECT_THAT(Refusal(without), testing::StartsWith(absl::StrCat("missing 1 tensor: ", missed)));
  }
}

TEST_P(TransformerTest, EachShapeAndTypeIsChecked) {
  for (const auto& [name, tensor] : Needed()) {
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      Tensors wrong = source_->tensors();
      ++wrong[name].shape[axis];
      EXPECT_THAT(Refusal(wrong),
                  HasSubstr(absl::StrCat("tensor ", name, " has shape ", ShapeToString(wrong[name].shape),
                                         "; the config implies ", ShapeToString(tensor.shape))));
    }
    Tensors wrong = source_->tensors();
    wrong[name].other_type = "F8_E4M3";
    EXPECT_THAT(Refusal(wrong),
                HasSubstr(absl::StrCat("tensor ", name, " has dtype \"F8_E4M3\"; F32, F16 and BF16 are supported")));
  }
}

TEST_P(TransformerTest, EachValueIsChecked) {
  for (const auto& [name, tensor] : Needed()) {
    const int64_t last = tensor.element_count() - 1;
    const size_t size = kernels::DTypeBytes(tensor.type);
    std::string bytes(tensor.bytes);
    std::memset(&bytes[last * size], 0xff, size);  // a NaN in every format
    Tensors wrong = source_->tensors();
    wrong[name].bytes = bytes;
    EXPECT_THAT(Refusal(wrong),
                HasSubstr(absl::StrCat("tensor ", name, " has a value that is not finite, at element ", last)));
  }
}

// Values that an attention variant requires to be above 0.
TEST_P(TransformerTest, PositiveNumbersAreChecked) {
  for (const AttentionTensor& tensor : config_.attention.Tensors(AttentionModelOf(config_), 1)) {
    if (!tensor.positive) continue;
    const std::string name = absl::StrCat("model.layers.1.self_attn.", tensor.name);
    ASSERT_EQ(source_->tensors().find(name)->second.type, kernels::DType::kF32);
    std::string bytes(source_->tensors().find(name)->second.bytes);
    std::memset(bytes.data(), 0, sizeof(float));
    Tensors wrong = source_->tensors();
    wrong[name].bytes = bytes;
    EXPECT_THAT(Refusal(wrong), HasSubstr(absl::StrCat("tensor ", name, "[0] is 0; it must be above 0")));
  }
}

TEST_P(TransformerTest, UnusedTensorsAreListed) {
  Tensors more = source_->tensors();
  const TensorView any = more.begin()->second;
  more.emplace("model.layers.0.self_attn.tau_proj.weight", any);
  EXPECT_THAT(Refusal(more), Message("1", "model.layers.0.self_attn.tau_proj.weight"));
  for (int i = 0; i < 6; ++i) more.emplace(absl::StrCat("a.more.", i), any);
  EXPECT_THAT(Refusal(more), Message("7", "a.more.0", "a.more.1", "a.more.2", "a.more.3", "a.more.4"));
  EXPECT_THAT(Refusal({}), testing::ContainsRegex("missing [0-9]+ tensors: .*, \\.\\."));
}

// Masks and computed tables of old exports, in unsupported types.
TEST_P(TransformerTest, OldBuffersAreSkipped) {
  const TensorNames& names = FindArchitecture(config_.model_type)->names;
  const bool bare = !source_->tensors().contains(absl::StrCat(names.prefix, names.embedding, ".weight"));
  Tensors more = source_->tensors();
  TensorView mask = more.begin()->second;
  mask.other_type = "BOOL";
  for (const char* name : names.layer_skipped) {
    if (name == nullptr) continue;
    const std::string layer = names.layer[0] == 'h' ? "h.1." : "layers.1.";
    more.insert_or_assign(absl::StrCat(bare ? "" : names.prefix, layer, name), mask);
  }
  EXPECT_TRUE(Load(more).ok()) << Load(more).status();
}

// A head that is stored although the config, or its default, ties it to the embedding: a copy is skipped, another one is
// used, and is checked as any weight.
TEST_P(TransformerTest, StoredHeadOfATiedModel) {
  const TensorNames& names = FindArchitecture(config_.model_type)->names;
  const bool bare = !source_->tensors().contains(absl::StrCat(names.prefix, names.embedding, ".weight"));
  const TensorView embedding =
      source_->tensors().find(absl::StrCat(bare ? "" : names.prefix, names.embedding, ".weight"))->second;
  config_.tied_embeddings = true;
  std::vector<std::string> head_names = {absl::StrCat(names.head, ".weight")};
  if (names.older_head != nullptr) head_names.push_back(absl::StrCat(names.older_head, ".weight"));
  for (const std::string& head_name : head_names) {
    Tensors tensors = source_->tensors();
    for (const std::string& other : head_names) tensors.erase(other);
    ASSIGN_OR_FAIL(const auto without, Load(tensors));
    TensorView head = embedding;
    head.name = head_name;
    tensors[head_name] = head;
    ASSIGN_OR_FAIL(const auto copied, Load(tensors));
    EXPECT_TRUE(copied->config().tied_embeddings);
    EXPECT_EQ(&copied->head(), &copied->embedding());
    EXPECT_EQ(copied->parameter_count(), without->parameter_count());

    std::string bytes(embedding.bytes);
    bytes[0] ^= 1;  // the last bit of the first value
    tensors[head_name].bytes = bytes;
    ASSIGN_OR_FAIL(const auto other, Load(tensors));
    EXPECT_FALSE(other->config().tied_embeddings);
    EXPECT_NE(&other->head(), &other->embedding());
    EXPECT_EQ(other->parameter_count(), without->parameter_count() + embedding.element_count());

    // The same values in f32, and others.
    std::vector<float> wide(embedding.element_count());
    const kernels::HostMatrix rows = ToHostMatrix(embedding);
    for (int64_t row = 0; row < rows.rows; ++row) kernels::WidenRow(rows, row, &wide[row * rows.columns]);
    tensors[head_name].type = kernels::DType::kF32;
    tensors[head_name].bytes = {reinterpret_cast<const char*>(wide.data()), wide.size() * sizeof(float)};
    EXPECT_TRUE((*Load(tensors))->config().tied_embeddings);
    wide.back() += 1;
    EXPECT_FALSE((*Load(tensors))->config().tied_embeddings);
    wide.back() = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(Refusal(tensors), HasSubstr(absl::StrCat("tensor ", head_name, " has a value that is not finite")));
    ++tensors[head_name].shape[0];
    EXPECT_THAT(Refusal(tensors), HasSubstr(absl::StrCat("tensor ", head_name, " has shape ")));
  }
}

// Wrappers put a prefix before all names; the error shows it.
TEST_P(TransformerTest, PrefixesOfWrappersAreShown) {
  Tensors wrapped;
  for (const auto& [name, tensor] : source_->tensors()) wrapped.emplace("_orig_mod." + name, tensor);
  EXPECT_THAT(Refusal(wrapped), testing::ContainsRegex("missing [0-9]+ tensors: .*; the weights have instead [0-9]+ "
                                                       "tensors: _orig_mod\\.[^;]*; they have \"_orig_mod\\."));
}

// A checkpoint without the head: names have no prefix. Only valid for a tied model.
TEST_P(TransformerTest, BodyWithoutPrefix) {
  const std::string prefix = FindArchitecture(config_.model_type)->names.prefix;
  Tensors body;
  for (const auto& [name, tensor] : Needed())
    body.emplace(absl::StartsWith(name, prefix) ? name.substr(prefix.size()) : name, tensor);
  EXPECT_TRUE(Load(body).ok()) << Load(body).status();
}

INSTANTIATE_TEST_SUITE_P(Architectures, TransformerTest, testing::ValuesIn(kGoldens), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = absl::ascii_isalnum(c) ? c : '_';
  return name;
});

// ---- The cache of rotation tables ----

class RopeTableCacheTest : public TransformerTest {};

TEST_P(RopeTableCacheTest, TablesByRopeLength) {
  ASSIGN_OR_FAIL(const auto model, Load(source_->tensors()));
  RopeTableCache cache(*model, 2);
  const auto get = [&](int64_t rope_length) { return *cache.Get(config_.ropes, 400, rope_length); };
  const RopeTables* usual = get(RopeLength(config_.ropes, 100));
  EXPECT_EQ(usual->position_count(), 400);
  EXPECT_EQ(get(0), usual);
  const RopeTables* longer = get(RopeLength(config_.ropes, 300));
  EXPECT_NE(longer, usual);
  EXPECT_TRUE(longer->AreOf(config_.ropes, 300));
  EXPECT_EQ(longer->position_count(), 300);  // later positions are never used at that length
  EXPECT_EQ(get(300), longer);
  EXPECT_EQ(get(0), usual);
  EXPECT_TRUE(get(200)->AreOf(config_.ropes, 200));
  EXPECT_EQ(get(0), usual);  // the two last used are kept
  std::vector<RopeConfig> others = config_.ropes;
  others[0].theta *= 2;
  const RopeTables* other = *cache.Get(others, 400, 0);
  EXPECT_NE(other, usual) << "another rotation";
  EXPECT_EQ(*cache.Get(others, 300, 0), other) << "longer than needed";
  EXPECT_EQ((*cache.Get(others, 500, 0))->position_count(), 500);
}

INSTANTIATE_TEST_SUITE_P(Dynamic, RopeTableCacheTest, testing::Values("llama-dynamic"),
                         [](const auto&) { return "llama"; });

}  // namespace
}  // namespace varifocal
