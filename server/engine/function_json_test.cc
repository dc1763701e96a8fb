// A model's identity is its function. Method: every key that the reader of config.json looks up, of every golden architecture
// and attention variant, is edited, one at a time, to values of all types and to those that such keys have; the engine scores
// a text with each accepted configuration. Other bits demand another FunctionJson. Keys that the computation does not see
// (ends of text, the longest context, the chat format) are edited by name.
#include "server/model/function_json.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "server/engine/engine_testing.h"
#include "server/model/config.h"
#include "server/model/config_reader.h"
#include "tests/support/json_changes.h"

namespace varifocal {
namespace {

// One of each type and kind of positions, and the attention variants.
constexpr const char* kIdentityGoldens[] = {
    "architectures/llama-biases",
    "architectures/llama-yarn-mscale",
    "architectures/llama-longrope",
    "architectures/llama-dynamic",
    "architectures/mistral-window",
    "architectures/qwen2-window",
    "architectures/qwen3-layer-types",
    "architectures/gemma3-newer",
    "architectures/gemma3-older",
    "architectures/olmo2-llama3",
    "architectures/gpt2",
    "architectures/gpt-neox-parallel",
    "architectures/phi3-newer",
    "architectures/granite-newer",
    "architectures/gemma2-older",
    "architectures/gemma3n-shared",
    "architectures/gemma4-shared",
    "architectures/gemma4-experts",
    "architectures/olmo3-newer",
    "architectures/ministral-newer",
    "architectures/smollm3-newer",
    "architectures/seed-oss",
    "architectures/exaone4-hybrid",
    "architectures/glm4",
    "architectures/cohere2",
    "architectures/stablelm-parallel",
    "architectures/nemotron",
    "architectures/ministral3",
    "architectures/qwen3-moe-fused",
    "architectures/olmoe",
    "architectures/mixtral-window",
    "architectures/qwen2-moe-window",
    "architectures/granitemoehybrid",
    "architectures/falcon-h1",
    "architectures/bamba",
    "architectures/nemotron-h",
    "architectures/nemotron-h-older",
    "architectures/nemotron-h-groups",
    "architectures/deepseek-v2",
    "architectures/deepseek-v3",
    "architectures/minicpm3",
    "architectures/lfm2-newer",
    "architectures/gpt-oss",
    "architectures/gpt-oss-mxfp4",
    "architectures/phi",
    "architectures/apertus",
    "architectures/hunyuan",
    "architectures/gemma3-wrapped",
    "architectures/qwen2-5-vl",
    "attention/log-n-constant",
    "packed/gptq-order",
    "packed/fp8-blocks",
};

// Further values of keys: what the readers accept as names.
const Json kNames[] = {"gelu",     "relu", "silu",   "gelu_pytorch_tanh", "linear",           "dynamic", "default",
                       "constant", "yarn", "causal", "full_attention",    "sliding_attention"};

// The document with `value` at a key's place; its parents must be objects.
std::optional<Json> WithValue(const Json& document, const std::string& place, const Json& value) {
  const Json::json_pointer at("/" + absl::StrReplaceAll(place, {{".", "/"}}));
  const Json::json_pointer parent = at.parent_pointer();
  if (!document.contains(parent) || !document[parent].is_object()) return std::nullopt;
  Json edited = document;
  edited[at] = value;
  return edited;
}

std::vector<Json> EditsOf(const Json& document, const std::set<std::string>& keys) {
  std::set<Json> edits;
  ForEachChange(document, [&](const JsonChange& change) { edits.insert(change.changed); });
  for (const std::string& place : keys) {
    std::vector<Json> values(std::begin(kNames), std::end(kNames));
    for (const Json& value : {Json(true), Json(false), Json(0), Json(1), Json(2), Json(3), Json(4), Json(16), Json(64),
                              Json(0.25), Json(0.5), Json(2.0), Json(4.0), Json(20000.0), Json(Json::array({5, 6}))})
      values.push_back(value);
    const Json::json_pointer at("/" + absl::StrReplaceAll(place, {{".", "/"}}));
    if (document.contains(at) && document[at].is_number()) {
      const double number = document[at];
      for (const double factor : {0.5, 2.0, 4.0}) values.push_back(number * factor);
      if (document[at].is_number_integer()) {
        for (const int64_t added : {-1, 1}) values.push_back(document[at].get<int64_t>() + added);
        for (const int64_t factor : {2, 4}) values.push_back(document[at].get<int64_t>() * factor);
        values.push_back(document[at].get<int64_t>() / 2);
      }
    }
    for (const Json& value : values) {
      if (std::optional<Json> edited = WithValue(document, place, value)) edits.insert(*std::move(edited));
    }
  }
  edits.erase(document);
  return {edits.begin(), edits.end()};
}

class FunctionJsonTest : public testing::TestWithParam<const char*> {};

TEST_P(FunctionJsonTest, AnEditOfAnyKeyIsAnotherIdentityOrTheSameFunction) {
  const std::string name = absl::StrReplaceAll(GetParam(), {{"/", "_"}, {"-", "_"}});
  const TemporaryCheckpoint checkpoint(GetParam(), "function_" + name);
  const Json document = *ParseJson(checkpoint.Read("config.json"));
  std::set<std::string> keys;
  {
    const ReadKeys recorded;
    ASSERT_TRUE(ParseModelConfig(document.dump()).ok());
    keys = recorded.keys();
  }
  ASSERT_GT(keys.size(), 15u);
  struct Outcome {
    std::string bits, identity;
  };
  const auto run = [&](const Json& config) -> std::optional<Outcome> {
    checkpoint.Write("config.json", config.dump());
    ModelOptions options;
    options.threads = 1;
    options.cache_directory = testing::TempDir();
    const auto model = LoadModel(checkpoint.directory(), options);
    if (!model.ok()) return std::nullopt;
    if ((*model)->config().max_position < 100) return std::nullopt;
    const std::unique_ptr<Engine> engine = StartEngine(*model, {.kv_cache_bytes = 8 << 20});
    EngineRequest request;
    request.token_ids = RandomIds("function", 90, std::min<int64_t>(120, (*model)->config().vocabulary_size));
    request.work = GenerateWork{.max_new_tokens = 4, .ignore_eos = true};
    return Outcome{ComputedBits(engine->Run(std::move(request))), (*model)->provenance().function_json};
  };
  const std::optional<Outcome> base = run(document);
  ASSERT_TRUE(base.has_value());
  int accepted = 0, other_bits = 0;
  for (const Json& edited : EditsOf(document, keys)) {
    if (!ParseModelConfig(edited.dump()).ok()) continue;
    const std::optional<Outcome> outcome = run(edited);
    if (!outcome.has_value()) continue;
    ++accepted;
    if (outcome->bits == base->bits) continue;
    ++other_bits;
    EXPECT_NE(outcome->identity, base->identity) << edited.dump();
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(other_bits, 3) << "no edit changes anything: the test compares nothing";
}

INSTANTIATE_TEST_SUITE_P(Goldens, FunctionJsonTest, testing::ValuesIn(kIdentityGoldens), [](const auto& info) {
  return absl::StrReplaceAll(info.param, {{"/", "_"}, {"-", "_"}});
});

TEST(FunctionJson, WhatEndsAnAnswerOrWrapsAPromptIsPartOfIt) {
  const TemporaryCheckpoint checkpoint("architectures/llama-biases", "function_ends");
  const auto identity = [&] { return FunctionJson(*ReadModelConfig(checkpoint.directory()), "f32"); };
  const std::string first = identity();
  checkpoint.Write("generation_config.json", R"({"eos_token_id": [5, 7]})");
  const std::string ends = identity();
  EXPECT_NE(ends, first);
  checkpoint.Write("generation_config.json", R"({"eos_token_id": [7, 5, 7]})");
  EXPECT_EQ(identity(), ends) << "the same set";
  checkpoint.EditConfig("max_position_embeddings", 700);
  EXPECT_NE(identity(), ends) << "other prompts are refused";
  const ModelConfig config = *ReadModelConfig(checkpoint.directory());
  EXPECT_NE(FunctionJson(config, "bf16"), FunctionJson(config, "f32"));
  EXPECT_NE(FunctionJson(config, "f32", "of a chat format"), FunctionJson(config, "f32"));
  checkpoint.EditConfig("training", {{"arm", "a"}, {"seed", 3}});
  checkpoint.EditConfig("trained_context_length", 128);
  EXPECT_EQ(FunctionJson(*ReadModelConfig(checkpoint.directory()), "f32"), FunctionJson(config, "f32"))
      << "how it was trained is no part of the function";
}

}  // namespace
}  // namespace varifocal
