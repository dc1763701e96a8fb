// Run-time settings of the rotation (yarn, linear, dynamic, rope-theta). Method: each, and each with a temperature, has the bits of
// a checkpoint whose config.json states the same, also beside requests under other settings on one engine; the limit of the
// context grows with the factor; what cannot be applied is refused by name.
#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/engine/engine_testing.h"
#include "server/model/run_time_setting.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

struct Rotation {
  const char* name;
  AttentionOverrides overrides;
  std::vector<std::pair<std::string, Json>> config;  // the same as keys of config.json
};

// `limit` is max_position_embeddings.
std::vector<Rotation> Rotations(int64_t limit) {
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", limit}};
  const Json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  const Json dynamic = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  const Json focal = {{"mode", "constant"}, {"temperature", 0.5}};
  return {{"yarn", {{"yarn", 4}}, {{"rope_scaling", yarn}, {"max_position_embeddings", 4 * limit}}},
          {"linear", {{"linear", 2}}, {{"rope_scaling", linear}, {"max_position_embeddings", 2 * limit}}},
          {"dynamic", {{"dynamic", 2}}, {{"rope_scaling", dynamic}}},
          {"theta", {{"rope-theta", 2e5}}, {{"rope_theta", 2e5}}},
          {"theta_and_yarn",
           {{"yarn", 4}, {"rope-theta", 2e5}},
           {{"rope_theta", 2e5}, {"rope_scaling", yarn}, {"max_position_embeddings", 4 * limit}}},
          {"yarn_and_t",
           {{"t", Json{0.5}}, {"yarn", 4}},
           {{"rope_scaling", yarn}, {"max_position_embeddings", 4 * limit}, {"focal_attention", focal}}}};
}

EngineRequest RotatedPrompt(const std::string& name, size_t length, AttentionOverrides overrides = {}) {
  EngineRequest request;
  request.token_ids = RandomIds(name, length);
  request.work = GenerateWork{.max_new_tokens = 8, .ignore_eos = true};
  request.attention_overrides = std::move(overrides);
  return request;
}

class RotationTest : public testing::TestWithParam<const char*> {};

TEST_P(RotationTest, HasTheBitsOfAnEditedConfig) {
  const TemporaryCheckpoint checkpoint(GetParam(), "rotation");
  const Json original = *ParseJson(checkpoint.Read("config.json"));
  const auto model = LoadForTest(checkpoint.directory());
  const int64_t limit = model->config().max_position;
  const auto engine = StartEngine(model);
  const size_t lengths[] = {200, static_cast<size_t>(limit) + 200};
  const std::string plain = AnswerBits(engine->Run(RotatedPrompt("rotation", lengths[0])));
  for (const Rotation& rotation : Rotations(limit)) {
    SCOPED_TRACE(rotation.name);
    Json edited = original;
    edited.erase("rope_parameters");
    edited["rope_theta"] = model->config().ropes[0].theta;
    for (const auto& [key, value] : rotation.config) edited[key] = value;
    checkpoint.Write("config.json", edited.dump());
    const auto same = LoadForTest(checkpoint.directory());
    const auto expected_engine = StartEngine(same);
    const bool extends = same->config().max_position > limit;
    for (const size_t length : lengths) {
      if (length > static_cast<size_t>(limit) && !extends) continue;
      SCOPED_TRACE(length);
      const auto expected = expected_engine->Run(RotatedPrompt("rotation", length));
      ASSERT_TRUE(expected.ok()) << expected.status();
      const std::string bits = AnswerBits(expected);
      EXPECT_EQ(AnswerBits(engine->Run(RotatedPrompt("rotation", length, rotation.overrides))), bits);
      EXPECT_EQ(AnswerBits(engine->Run(RotatedPrompt("rotation", length, rotation.overrides))), bits)
          << "from cached pages";
      // A dynamic base changes with the sequence, beyond the model's own limit.
      if (length == lengths[0] && std::string(rotation.name) != "dynamic") {
        EXPECT_NE(bits, plain) << "the rotation changes nothing: the test compares nothing";
      }
    }
    // In one batch with a request under the model's own rotation.
    auto beside = std::async(std::launch::async, [&] { return engine->Run(RotatedPrompt("rotation", lengths[0])); });
    EXPECT_EQ(AnswerBits(engine->Run(RotatedPrompt("rotation", lengths[0], rotation.overrides))),
              AnswerBits(expected_engine->Run(RotatedPrompt("rotation", lengths[0]))));
    EXPECT_EQ(AnswerBits(beside.get()), plain);
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, RotationTest,
                         testing::Values("untied-d32-bf16", "architectures/qwen3-wide-heads",
                                         "architectures/mistral-full"),
                         [](const auto& info) { return absl::StrCat("model_", info.index); });

std::string RotationRefusal(const std::string& golden, const AttentionOverrides& overrides) {
  const auto config = ReadModelConfig(GoldenDirectory(golden));
  EXPECT_TRUE(config.ok()) << config.status();
  return std::string(WithOverrides(*config, overrides).status().message());
}

TEST(RotationLimits, AScaledRotationExtendsTheContext) {
  const ModelConfig config = *ReadModelConfig(GoldenDirectory("untied-d32-bf16"));
  const int64_t limit = config.max_position;
  const auto limit_under = [](const ModelConfig& of, const AttentionOverrides& overrides) {
    return WithOverrides(of, overrides)->max_position;
  };
  EXPECT_EQ(limit_under(config, {}), limit);
  EXPECT_EQ(limit_under(config, {{"yarn", 4}}), 4 * limit);
  EXPECT_EQ(limit_under(config, {{"linear", 0.5}}), limit) << "never below the model's own";
  EXPECT_EQ(limit_under(config, {{"rope-theta", 2e5}}), limit);
  // A window at least as long as the model's context has no effect there, but would beyond it.
  ModelConfig windows = config;
  for (LayerConfig& layer : windows.layers) layer.window = 2 * limit;
  GroupLayers(windows);
  EXPECT_EQ(limit_under(windows, {{"yarn", 4}}), 2 * limit);
}

TEST(RotationLimits, WhatCannotBeAppliedIsRefusedByName) {
  EXPECT_THAT(RotationRefusal("architectures/gpt2", {{"yarn", 4}}), Message());
  EXPECT_THAT(RotationRefusal("architectures/llama-linear", {{"yarn", 4}}), Message());
  EXPECT_THAT(RotationRefusal("architectures/phi3-newer", {{"yarn", 4}}), HasSubstr("longrope alone"));
  EXPECT_THAT(RotationRefusal("untied-d32-bf16", {{"yarn", 4}, {"linear", 2}}), Message());
  EXPECT_THAT(RotationRefusal("untied-d32-bf16", {{"yarn", 0}}), Message("\"yarn\"", "0"));
  EXPECT_THAT(RotationRefusal("untied-d32-bf16", {{"dynamic", 0.5}}), Message("1"));
  EXPECT_THAT(RotationRefusal("untied-d32-bf16", {{"rope-theta", -1}}), Message("\"rope-theta\"", "-1"));
  EXPECT_EQ(RotationRefusal("architectures/llama-linear", {{"rope-theta", 2e5}}), "")
      << "another base keeps the scaling";
}

}  // namespace
}  // namespace varifocal
