// Multimodal checkpoints whose text part is evaluated: what their config.json means, and which tensors are read.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "server/model/architectures.h"
#include "server/model/config.h"
#include "server/model/function_json.h"
#include "server/model/kernel_status.h"
#include "server/model/transformer.h"
#include "server/model/unread_tensors.h"
#include "server/model/weight_source.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

// The smallest file of each row.
Json SmallWrapper(const std::string& model_type) {
  Json text = *ParseJson(R"({"vocab_size":99,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,
      "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":512})");
  if (model_type == "gemma3n") text["num_kv_shared_layers"] = 0;
  return {{"model_type", model_type}, {"text_config", text}};
}

// `patch` is merged, nested objects too; null removes a key (RFC 7396).
absl::StatusOr<ModelConfig> ParsedWrapper(const std::string& model_type, const char* patch) {
  Json json = SmallWrapper(model_type);
  json.merge_patch(*ParseJson(patch));
  return ParseModelConfig(json.dump());
}

TEST(WrappersTest, EveryRowNamesRowsAndSizes) {
  for (const Wrapper& row : Wrappers()) {
    EXPECT_EQ(FindArchitecture(row.model_type), nullptr) << row.model_type;
    for (const Wrapper::TextPart& part : row.text) {
      if (part.model_type == nullptr) continue;
      EXPECT_NE(FindArchitecture(part.model_type), nullptr) << part.model_type;
      Json json = {{"model_type", row.model_type}, {"text_config", {{"model_type", part.model_type}}}};
      json["text_config"]["rope_parameters"] = *ParseJson(R"({"rope_type":"default"})");
      if (absl::StrContains(part.model_type, "gemma")) json["text_config"].erase("rope_parameters");
      const auto config = ParseModelConfig(json.dump());
      ASSERT_TRUE(config.ok()) << part.model_type << ": " << config.status();
      EXPECT_EQ(config->model_type, part.model_type);
      EXPECT_EQ(config->wrapper, row.model_type);
      EXPECT_EQ(config->architecture, row.class_name);
      EXPECT_GT(config->vocabulary_size, 30000);
    }
  }
}

TEST(WrappersTest, TheHeadIsTiedByTheWhole) {
  const auto is_tied = [](const std::string& model_type, const char* patch) {
    const auto config = ParsedWrapper(model_type, patch);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() && config->tied_embeddings;
  };
  for (const char* type : {"gemma3", "mistral3"}) {
    EXPECT_TRUE(is_tied(type, "{}"));
    EXPECT_TRUE(is_tied(type, R"({"text_config":{"tie_word_embeddings":false}})"));
    EXPECT_FALSE(is_tied(type, R"({"tie_word_embeddings":false,"text_config":{"tie_word_embeddings":true}})"));
  }
  for (const char* type : {"qwen2_5_vl", "qwen3_vl"}) {
    EXPECT_FALSE(is_tied(type, "{}"));
    EXPECT_TRUE(is_tied(type, R"({"tie_word_embeddings":true})"));
  }
  EXPECT_TRUE(is_tied("qwen2_5_vl", R"({"text_config":{"tie_word_embeddings":true}})"));
  EXPECT_FALSE(is_tied("qwen3_vl", R"({"text_config":{"tie_word_embeddings":true}})"));
}

TEST(WrappersTest, KeysOfTheTextMayStandAtTheTop) {
  const auto config = ParsedWrapper("gemma3", R"({"eos_token_id":[1,6],"bos_token_id":2,"trained_context_length":300,
      "focal_attention":{"mode":"constant","temperature":0.4}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->eos_token_ids, (std::vector<int32_t>{1, 6}));
  EXPECT_EQ(config->bos_token_id, 2);
  EXPECT_EQ(config->trained_context_length, 300);
  EXPECT_EQ(config->attention.Label(), "focal t=0.4");
  EXPECT_EQ(ParsedWrapper("gemma3", R"({"eos_token_id":1,"text_config":{"eos_token_id":5}})")->eos_token_ids,
            std::vector<int32_t>{1})
      << "of the whole, as in transformers";
  EXPECT_EQ(ParsedWrapper("gemma3", R"({"text_config":{"eos_token_id":5}})")->eos_token_ids, std::vector<int32_t>{5});
  EXPECT_TRUE(absl::IsInvalidArgument(
      ParsedWrapper("gemma3", R"({"trained_context_length":300,"text_config":{"trained_context_length":400}})")
          .status()));
}

TEST(WrappersTest, TokensOfImagesAreThoseOfTheVocabulary) {
  EXPECT_EQ(ParsedWrapper("qwen3_vl", R"({"image_token_id":98,"video_token_id":7})")->image_token_ids,
            (std::vector<int32_t>{7, 98}));
  EXPECT_TRUE(ParsedWrapper("gemma3", R"({"image_token_index":262144})")->image_token_ids.empty());
  EXPECT_TRUE(ParsedWrapper("gemma3", "{}")->image_token_ids.empty());
}

struct WrapperRefusal {
  const char* model_type;
  const char* patch;
  const char* message;
};
constexpr WrapperRefusal kWrapperRefusals[] = {
    {"gemma3", R"({"text_config":null})", "\"text_config\" is missing; it must be an object"},
    {"gemma3", R"({"text_config":[1]})", "\"text_config\" is array; it must be an object"},
    {"gemma3", R"({"text_config":{"model_type":"gemma2"}})",
     "\"text_config.model_type\" is \"gemma2\"; the text part of a gemma3 must be gemma3_text"},
    {"mistral3", R"({"text_config":{"model_type":"llama"}})",
     "\"text_config.model_type\" is \"llama\"; the text part of a mistral3 must be mistral or ministral3"},
    {"gemma3", R"({"architectures":["Gemma3ForCausalLM"]})", "must be [\"Gemma3ForConditionalGeneration\"]"},
    {"gemma3", R"({"text_config":{"a_new_setting":1}})", "\"text_config.a_new_setting\" is 1; this key is unknown"},
    {"gemma3", R"({"a_new_setting":1})", "\"a_new_setting\" is 1; this key is unknown"},
    {"gemma3", R"({"text_config":{"hidden_size":0}})", "\"text_config.hidden_size\" is 0"},
    {"gemma3", R"({"text_config":{"attn_logit_softcapping":50.0}})", "\"text_config.attn_logit_softcapping\" is 50.0"},
    {"gemma3", R"({"text_config":{"use_bidirectional_attention":true}})", "use_bidirectional_attention\" is true"},
    {"mistral3", R"({"quantization_config":{"bits":4}})", "quantization_config\" has no \"quant_method\""},
    {"mistral3", R"({"tie_word_embeddings":1})", "\"tie_word_embeddings\" is 1"},
    {"mistral3", R"({"image_token_index":-1})", "\"image_token_index\" is -1"},
    {"qwen2_5_vl", R"({"text_config":{"rope_scaling":{"type":"mrope","factor":2}}})",
     "\"text_config.rope_scaling.factor\" is 2"},
    {"qwen2_5_vl", R"({"text_config":{"sliding_window":100,"layer_types":["sliding_attention","full_attention",
                       "full_attention"]}})",
     "while no sliding_window is set"},
    {"qwen3_vl", R"({"text_config":{"sliding_window":100}})", "\"text_config.sliding_window\" is 100; a qwen3_vl_text"},
    {"qwen3_vl", R"({"text_config":{"num_experts":4}})", "\"text_config.num_experts\" is 4; this key is unknown"},
};

TEST(WrappersTest, ErrorsNameKeyAndValue) {
  for (const WrapperRefusal& refusal : kWrapperRefusals) {
    const auto config = ParsedWrapper(refusal.model_type, refusal.patch);
    ASSERT_FALSE(config.ok()) << refusal.patch;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(refusal.message)) << refusal.patch;
  }
}

TEST(WrappersTest, AKeyAtTheTopIsNotIgnoredInAFlatFile) {
  Json flat = SmallWrapper("qwen2_5_vl")["text_config"];
  flat["model_type"] = "qwen2_5_vl";
  flat["image_token_id"] = 5;
  ASSIGN_OR_FAIL(const auto config, ParseModelConfig(flat.dump()));
  EXPECT_EQ(config.image_token_ids, std::vector<int32_t>{5});
  flat["a_new_setting"] = 1;
  EXPECT_THAT(std::string(ParseModelConfig(flat.dump()).status().message()), Message("\"a_new_setting\"", "1"));
}

// As some releases wrote it: keys of the whole inside the text part, keys of the text again at the top.
TEST(WrappersTest, RepeatedKeysAgree) {
  const auto config = ParsedWrapper("qwen2_5_vl", R"({"image_token_id":5,"hidden_size":64,"vocab_size":99,
      "text_config":{"image_token_id":null,"vision_start_token_id":9}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->image_token_ids, std::vector<int32_t>{5});
  const auto other = ParsedWrapper("qwen2_5_vl", R"({"hidden_size":128})");
  EXPECT_THAT(std::string(other.status().message()), Message("\"hidden_size\"", "128"));
}

// ---- Tensors ----

using Tensors = std::map<std::string, TensorView, std::less<>>;

class WrappedTensorsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string directory = absl::StrCat("tests/testdata/goldens/architectures/", GetParam());
    ASSIGN_OR_FAIL(const auto text, ReadFile(directory + "/config.json", kConfigFile));
    ASSIGN_OR_FAIL(const auto config, ParseModelConfig(text));
    config_ = config;
    ASSIGN_OR_FAIL(source_, OpenWeights(directory));
    for (const auto& [name, tensor] : source_->tensors()) ASSERT_TRUE(source_->Load(tensor).ok());
    ASSIGN_OR_FAIL(backend_, ToStatusOr(kernels::CreateBackend({.device = "reference"})));
  }
  absl::Status Load(const Tensors& tensors) const {
    return Transformer::Load(*FindArchitecture(config_.model_type), config_, WeightSource(tensors, {}), backend_)
        .status();
  }
  std::string PrefixInUse() const {
    for (const char* prefix : FindWrapper(config_.wrapper)->prefixes) {
      if (prefix != nullptr && source_->tensors().contains(absl::StrCat(prefix, "norm.weight"))) return prefix;
    }
    return "";
  }

  ModelConfig config_;
  std::unique_ptr<WeightSource> source_;
  std::shared_ptr<kernels::Backend> backend_;
};

TEST_P(WrappedTensorsTest, ImagesAreSkippedAndTextIsExact) {
  const Tensors& tensors = source_->tensors();
  ASSERT_TRUE(Load(tensors).ok()) << Load(tensors);
  const Wrapper& wrapper = *FindWrapper(config_.wrapper);
  const auto is_image = [&](absl::string_view name) {
    for (const char* prefix : wrapper.skipped) {
      if (prefix != nullptr && absl::StartsWith(name, prefix)) return true;
    }
    return false;
  };
  int image_count = 0;
  for (const auto& [name, tensor] : tensors) {
    Tensors without = tensors;
    without.erase(name);
    image_count += is_image(name);
    EXPECT_EQ(Load(without).ok(), is_image(name) || IsUnread(config_, name)) << name;
  }
  EXPECT_GT(image_count, 0);
  const std::string norm = PrefixInUse() + "norm.weight";
  for (const std::string& name : {PrefixInUse() + "layers.0.self_attn.sinks", std::string("audio_tower.weight")}) {
    Tensors more = tensors;
    more[name] = tensors.at(norm);
    EXPECT_THAT(std::string(Load(more).message()), Message("not implied by the config: 1 tensor", name));
  }
}

TEST_P(WrappedTensorsTest, OneOfThePrefixesIsUsed) {
  const std::string prefix = PrefixInUse();
  Tensors none = source_->tensors(), both = source_->tensors();
  const TensorView embedding = none.at(prefix + "embed_tokens.weight");
  none.erase(prefix + "embed_tokens.weight");
  EXPECT_THAT(std::string(Load(none).message()), Message("has 0 embeddings", prefix));
  int spelling_count = 0;
  for (const char* other : FindWrapper(config_.wrapper)->prefixes) {
    if (other == nullptr) continue;
    both[absl::StrCat(other, "embed_tokens.weight")] = embedding;
    ++spelling_count;
  }
  if (spelling_count > 1) {
    EXPECT_THAT(std::string(Load(both).message()), Message("has 2 embeddings", prefix));
  }
  // The same tensors under the other spelling are the same model.
  for (const char* other : FindWrapper(config_.wrapper)->prefixes) {
    if (other == nullptr) continue;
    Tensors renamed;
    for (const auto& [name, tensor] : source_->tensors()) {
      const bool is_text = absl::StartsWith(name, prefix) && !absl::StartsWith(name, "model.visual.");
      renamed[is_text ? absl::StrCat(other, name.substr(prefix.size())) : name] = tensor;
    }
    EXPECT_TRUE(Load(renamed).ok()) << other << ": " << Load(renamed);
  }
}

TEST_P(WrappedTensorsTest, TokensOfImagesAreAnotherIdentity) {
  const std::string identity = FunctionJson(config_, "f32");
  config_.image_token_ids = {5};
  EXPECT_NE(FunctionJson(config_, "f32"), identity);
}

INSTANTIATE_TEST_SUITE_P(Goldens, WrappedTensorsTest,
                         testing::Values("gemma3-wrapped", "gemma3n-wrapped", "gemma4-wrapped", "mistral3-wrapped",
                                         "ministral3-wrapped", "qwen2-5-vl", "qwen3-vl"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace varifocal
