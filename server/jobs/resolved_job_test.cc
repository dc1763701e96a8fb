// What a submitted specification must be, against the models: refusals with their reasons, estimates, chat formats and
// system messages. Method: a JobManager with models of a fake engine.
#include "server/jobs/resolved_job.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "base/reason.h"
#include "base/sha256.h"
#include "eval_tasks/helmet/rows.h"
#include "eval_tasks/job_spec.h"
#include "tests/fakes/job_manager_fixture.h"
#include "tests/support/assign_or_fail.h"

namespace varifocal {
namespace {

using ResolvedJobTest = JobManagerTest;

TEST_F(ResolvedJobTest, EstimateCountsWithoutStoring) {
  ASSIGN_OR_FAIL(const auto estimate, manager_->Estimate(SmallSpec()));
  EXPECT_EQ(estimate.cell_count, 4);
  EXPECT_EQ(estimate.sample_count, 32);
  EXPECT_LE(estimate.prompt_token_count, 16 * 256 + 16 * 512);
  EXPECT_GT(estimate.prompt_token_count, 16 * 200 + 16 * 450);
  EXPECT_LT(estimate.computed_prompt_token_count, estimate.prompt_token_count);
  EXPECT_EQ(estimate.weights_bytes, 1000) << "both variants share one model";
  EXPECT_GT(estimate.memory_bytes_max, estimate.weights_bytes) << "and the cache of one model";
  EXPECT_GT(estimate.duration_seconds, 0);
  EXPECT_TRUE(manager_->List(0, 10)->empty());
}

// Four answers to each question have four times the new tokens, and the prompt's pages once.
TEST_F(ResolvedJobTest, EstimateCountsEpochs) {
  JobSpec spec = SmallSpec();
  const auto once = manager_->Estimate(spec);
  spec.suite.epochs = 4;
  spec.decode.sampling_temperature = 0.7;
  ASSIGN_OR_FAIL(const auto estimate, manager_->Estimate(spec));
  EXPECT_EQ(estimate.sample_count, 4 * once->sample_count);
  EXPECT_EQ(estimate.prompt_token_count, 4 * once->prompt_token_count);
  EXPECT_EQ(estimate.new_token_count, 4 * once->new_token_count);
  EXPECT_GT(estimate.computed_prompt_token_count, once->computed_prompt_token_count);
  EXPECT_LE(estimate.computed_prompt_token_count, once->computed_prompt_token_count + 3 * once->sample_count * 128);
  EXPECT_GT(estimate.duration_seconds, once->duration_seconds);
}

TEST_F(ResolvedJobTest, RefusesBadSpecsAndStoresNothing) {
  struct Case {
    const char* name;
    std::function<void(JobSpec&)> spoil;
    const char* reason;
  };
  const Case cases[] = {
      {"unknown model",
       [](JobSpec& s) {
         s.variants = {{"nobody", {}}};
       },
       "MODEL_NOT_FOUND"},
      {"model without tokenizer",
       [](JobSpec& s) {
         s.variants = {{"bare", {}}};
       },
       "MODEL_WITHOUT_TOKENIZER"},
      {"temperature on learned",
       [](JobSpec& s) {
         s.variants = {{"learned", {{"t", {0.5}}}}};
       },
       "BAD_FOCAL_TEMPERATURE"},
      {"three temperatures for two layers",
       [](JobSpec& s) {
         s.variants = {{"a", {{"t", {0.5, 0.6, 0.7}}}}};
       },
       "BAD_FOCAL_TEMPERATURE"},
      {"unknown task", [](JobSpec& s) { s.suite.tasks[0].kind = "recal_kv"; }, "BAD_JOB_SPEC"},
      {"longer than the model", [](JobSpec& s) { s.suite.lengths = {8192}; }, "CONTEXT_TOO_LONG"},
      {"no variant", [](JobSpec& s) { s.variants.clear(); }, "BAD_JOB_SPEC"},
      {"negative limit", [](JobSpec& s) { s.limit = -1; }, "BAD_JOB_SPEC"},
      {"epochs of greedy answers", [](JobSpec& s) { s.suite.epochs = 4; }, "BAD_JOB_SPEC"},
  };
  for (const Case& c : cases) {
    JobSpec spec = SmallSpec();
    c.spoil(spec);
    const auto view = manager_->Submit(spec, {});
    ASSERT_FALSE(view.ok()) << c.name;
    EXPECT_EQ(ReasonOf(view.status()).name, c.reason) << c.name << ": " << view.status();
    EXPECT_EQ(ReasonOf(manager_->Estimate(spec).status()).name, c.reason) << c.name;
  }
  EXPECT_TRUE(manager_->List(0, 10)->empty());
  EXPECT_EQ(ReasonOf(manager_->Get(77, false).status()).name, "JOB_NOT_FOUND");
}

TEST_F(ResolvedJobTest, ALengthThatCanNeverFitTheCacheIsRefused) {
  control_->SetPageCount(3);  // 384 tokens
  const auto view = manager_->Submit(SmallSpec(), {});
  EXPECT_EQ(ReasonOf(view.status()).name, "KV_CACHE_TOO_SMALL");
  EXPECT_TRUE(absl::IsResourceExhausted(view.status()));
  control_->SetPageCount(4);  // exactly 512
  EXPECT_TRUE(manager_->Submit(SmallSpec(), {}).ok());
}

TEST_F(ResolvedJobTest, ChatTasksNeedAFormatAndRecordItsTemplate) {
  JobSpec spec = SmallSpec();
  spec.suite.tasks.push_back({.name = "plain", .kind = "recall_kv"});
  spec.suite.tasks[0].chat = true;
  EXPECT_EQ(ReasonOf(manager_->Submit(spec, {}).status()).name, "MODEL_WITHOUT_CHAT_FORMAT");
  ASSERT_TRUE(host_.Load("chat", "fake-chat").ok());
  ASSERT_TRUE(host_.Load("twin", "more/fake-chat").ok());
  ASSERT_TRUE(host_.Load("other", "fake-other-chat").ok());
  spec.variants = {{"chat", {}}, {"other", {}}};
  const auto differ = manager_->Submit(spec, {});
  EXPECT_EQ(ReasonOf(differ.status()).name, "CHAT_FORMATS_DIFFER") << "they would share samples";
  spec.variants = {{"chat", {}}, {"twin", {}}};
  const int64_t job_id = Submit(spec);
  const JobView view = WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(view.row.failed_count, 0);
  ASSIGN_OR_FAIL(const auto stored, FromCanonicalJson(view.row.spec_json));
  EXPECT_TRUE(stored.suite.tasks[0].chat);
  EXPECT_FALSE(stored.suite.tasks[1].chat);
  EXPECT_EQ(stored.chat_templates.at("chat"), Sha256Hex("fake-chat"));
  EXPECT_EQ(stored.chat_templates.at("twin"), Sha256Hex("more/fake-chat"));
  // The wrapped prompt is counted: the same question has other ids than in the plain task.
  EXPECT_EQ(view.row.spec_json.find("\"chat\":false"), std::string::npos) << "written only when true";
}

TEST_F(ResolvedJobTest, ASystemMessageNeedsOneFormatWithItForATokenizer) {
  helmet::ImportedRow row;
  row.id = row.question = row.cluster = row.context = "0";
  row.gold = {"0"};
  row.reference = row.gold;
  const std::string rows = helmet::ToJson(row).dump() + "\n";
  WriteFile(directory_.File("rows"), rows);
  helmet::TaskIndex index;
  index.kind = "default";
  index.user_template = "{context}";
  index.settings = {{"seed", 42}};
  index.lengths[256] = {"rows", Sha256Hex(rows), 1, 8, "d", "t", "d", ""};
  WriteFile(directory_.File("plain"), helmet::DumpTaskIndex(index));
  index.system_message = "Be brief.";
  WriteFile(directory_.File("with_system"), helmet::DumpTaskIndex(index));
  JobSpec spec = SmallSpec();
  spec.suite.lengths = {256};
  spec.suite.samples = 1;
  spec.variants = {{"chat", {}}, {"other", {}}};
  ASSERT_TRUE(host_.Load("chat", "fake-chat").ok());
  ASSERT_TRUE(host_.Load("other", "fake-other-system-chat").ok());
  const auto ask = [&](const std::string& file, bool chat) {
    spec.suite.tasks = {{.name = "t", .kind = "helmet", .parameters = {{"path", directory_.File(file)}}, .chat = chat}};
    return manager_->Submit(spec, {});
  };
  EXPECT_EQ(ReasonOf(ask("with_system", true).status()).name, "CHAT_FORMATS_DIFFER") << "they would share samples";
  for (const auto& [file, chat] : {std::pair{"plain", true}, std::pair{"with_system", false}}) {
    const auto job = ask(file, chat);
    ASSERT_TRUE(job.ok()) << file << ": " << job.status();
  }
}

}  // namespace
}  // namespace varifocal
