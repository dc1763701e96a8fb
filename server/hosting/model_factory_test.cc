// The factory of real models: checks before weights are read, and the other files of a checkpoint directory. Method: a
// tiny golden checkpoint, copied and edited.
#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/reason.h"
#include "server/engine/memory_ledger.h"
#include "server/hosting/model_host.h"
#include "tests/support/assign_or_fail.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

constexpr char kGolden[] = "tests/testdata/goldens/llama/tied-d16-f32";

class ModelFactoryTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kError);
    std::filesystem::remove_all(directory_);
    std::filesystem::copy(kGolden, directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(absl::StrCat(directory_, "/", name)) << text;
  }
  absl::StatusOr<std::unique_ptr<HostedModel>> Load(const std::string& suffix = "",
                                                    const std::string& name = "it") const {
    ModelOptions options;
    options.device = "cpu";
    options.cache_directory = testing::TempDir();
    return MakeModelFactory(options, {.kv_cache_bytes = 1 << 20})(name, directory_ + suffix);
  }

  const std::string directory_ = absl::StrCat(testing::TempDir(), "/model_factory_", getpid());
};

TEST_F(ModelFactoryTest, WeightsThatDoNotFitAreRefusedBeforeTheyArePacked) {
  const auto reserved =
      MemoryLedger::Get().Add({.what = "other model", .weight_bytes = 5, .cache_bytes = int64_t{1} << 60});
  const auto model = Load();
  EXPECT_TRUE(absl::IsResourceExhausted(model.status())) << model.status();
  EXPECT_EQ(ReasonOf(model.status()).name, "NOT_ENOUGH_MEMORY");
  const std::string message(model.status().message());
  EXPECT_THAT(message, HasSubstr(absl::StrCat(directory_, " needs ")));
  EXPECT_THAT(message, HasSubstr("other model: 5 bytes"));
}

TEST_F(ModelFactoryTest, ADirectoryMayNameItsNumberFormat) {
  for (const std::string dtype : {"f32", "bf16"}) {
    ASSIGN_OR_FAIL(const auto model, Load("@" + dtype));
    EXPECT_EQ(model->provenance.dtype, dtype);
  }
  EXPECT_THAT(std::string(Load("@f16").status().message()), HasSubstr("@f16"));
}

// A baseline and a focal checkpoint with the same matrices: the second needs no memory for them, the memory message
// names the first, and the two are different models.
TEST_F(ModelFactoryTest, EqualWeightsAreNeededOnce) {
  ASSIGN_OR_FAIL(auto baseline, Load("", "baseline"));
  EXPECT_EQ(baseline->engine->Describe().shared_weight_bytes, 0);
  std::string config(std::istreambuf_iterator<char>(std::ifstream(absl::StrCat(directory_, "/config.json")).rdbuf()),
                     {});
  config.insert(config.rfind('}'), R"(, "focal_attention": {"mode": "constant", "temperature": 0.5})");
  Write("config.json", config);
  absl::StatusOr<std::unique_ptr<HostedModel>> focal = absl::CancelledError();
  {
    // No free memory, and none needed.
    const auto reserved = MemoryLedger::Get().Add({.what = "other model", .cache_bytes = int64_t{1} << 60});
    focal = Load("", "focal");
    ASSERT_TRUE(focal.ok()) << focal.status();
  }
  const int64_t bytes = (*focal)->provenance.weight_bytes;
  EXPECT_EQ((*focal)->engine->Describe().shared_weight_bytes, bytes);
  const std::string resident = MemoryLedger::Get().ToString();
  for (const char* name : {"baseline", "focal"})
    EXPECT_THAT(resident, HasSubstr(absl::StrCat(name, ": ", bytes, " bytes of weights (", bytes, " shared)")));
  const EngineRequest text{.token_ids = {5, 9, 33, 70, 12, 8}, .work = ScoreTextWork{}};
  EXPECT_NE(baseline->engine->Run(text)->log_likelihood, (*focal)->engine->Run(text)->log_likelihood);
  const double before = (*focal)->engine->Run(text)->log_likelihood;
  baseline = nullptr;
  EXPECT_EQ((*focal)->engine->Describe().shared_weight_bytes, 0);
  EXPECT_EQ((*focal)->engine->Run(text)->log_likelihood, before);
}

TEST_F(ModelFactoryTest, TheEnginesReasonsArriveWhole) {
  ASSIGN_OR_FAIL(const auto model, Load());
  EXPECT_EQ(ReasonOf(model->engine->Run({.work = ScoreTextWork{}}).status()).name, "EMPTY_PROMPT");
}

TEST_F(ModelFactoryTest, SamplingDefaultsAreToldAndNothingElseIsMissing) {
  std::filesystem::remove(absl::StrCat(directory_, "/generation_config.json"));
  auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->sampling_defaults, "");
  EXPECT_EQ((*model)->chat_format, nullptr);
  Write("generation_config.json",
        R"({"eos_token_id": [1, 5], "bos_token_id": 0, "pad_token_id": 3, "top_p": 0.95, "do_sample": true, "top_k": 64,
            "cache_implementation": "hybrid", "temperature": null})");
  model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->sampling_defaults, "do_sample=true top_k=64 top_p=0.95");
}

TEST_F(ModelFactoryTest, WhatStandsBesideAModelIsChecked) {
  struct Bad {
    const char* file;
    const char* text;
    const char* message;
  };
  for (const Bad& bad :
       {Bad{"generation_config.json", R"({"pad_token_id": 120})", "\"pad_token_id\" is 120; a token id"},
        Bad{"generation_config.json", R"({"bos_token_id": -1})", "\"bos_token_id\" is -1"},
        Bad{"generation_config.json", R"({"bos_token_id": "<s>"})", "\"<s>\""},
        Bad{"chat_format.json", R"({"template_sha256": ""})", "chat_format.json: "}}) {
    SetUp();
    Write(bad.file, bad.text);
    const auto model = Load();
    EXPECT_TRUE(absl::IsInvalidArgument(model.status())) << bad.text << ": " << model.status();
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(bad.message));
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(bad.file));
  }
}

}  // namespace
}  // namespace varifocal
