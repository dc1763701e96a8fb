// Pairing across jobs. Method: the same answers once in one job and once in two, whose comparisons must be equal in
// every number; then one aspect at a time is changed (prompts, golds, rows, settings, metrics, tokenizers), with the
// remaining pairs counted by hand.
#include "db/pairing.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "db/fakes/fake_results.h"
#include "db/stats/compare.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::db {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSpec[] =
    R"({"suite":{"tasks":[{"kind":"rows","name":"recall","parameters":{"path":"/a/rows.jsonl","sha256":"aa"}}]}})";
constexpr char kSameSpecElsewhere[] =
    R"({"limit":9,"suite":{"tasks":[{"kind":"rows","metrics":["f1"],"name":"recall","parameters":{"path":"/b/r","sha256":"aa"},"samples":9,"samples_at":{"1024":4}}]}})";
constexpr char kOtherData[] =
    R"({"suite":{"tasks":[{"kind":"rows","name":"recall","parameters":{"path":"/a/rows.jsonl","sha256":"bb"}}]}})";

using Change = std::function<void(Outcome&)>;

class PairingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    writer_ = *Writer::Open(directory_.File("a.db"));
    reader_ = *Reader::Open(directory_.File("a.db"));
  }

  // Baseline is right on even questions, every other variant on three of four; `change` may modify job and outcomes.
  int64_t Add(
      NewJob job, const std::string& spec = kSpec, const Change& change = [](Outcome&) {}) {
    job.spec_json = spec;
    return AddFakeJob(*writer_, job, [&](const CellRow& cell, int64_t i, Outcome& outcome) {
      const double score = cell.cell.variant == "baseline" ? i % 2 == 0 : i % 4 != 3;
      outcome.scores = {{"exact_match", score}, {"token_f1", score / 2}};
      change(outcome);
      return true;
    });
  }
  static NewJob Job(const std::string& variant, int64_t planned_count = 24, const std::string& tokenizer = "t") {
    return FakeJob({.variants = {variant}, .planned_count = planned_count, .tokenizers = {tokenizer}});
  }
  static void Fail(Outcome& outcome, const std::string& code) {
    outcome.generation = {};
    outcome.generation.error_code = code;
    outcome.generation.error_message = "it did not";
    outcome.scores.clear();
  }
  CrossPairs Pairs(int64_t a, int64_t b) {
    auto pairs = PairAcrossJobs(*reader_, {a, "baseline"}, {b, "other"});
    EXPECT_TRUE(pairs.ok()) << pairs.status();
    return pairs.ok() ? *pairs : CrossPairs();
  }

  testing_support::TemporaryDirectory directory_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Reader> reader_;
};

TEST_F(PairingTest, TwoJobsGiveTheNumbersOfOne) {
  const Change two_fail = [](Outcome& outcome) {
    if (outcome.sample.sample_index == 5) Fail(outcome, "RESOURCE_EXHAUSTED");
  };
  const std::vector<int64_t> lengths = {1024, 2048};
  const std::vector<std::string> tasks = {"recall", "icl"};
  const auto job = [&](std::vector<std::string> variants) {
    return FakeJob({.variants = variants, .tasks = tasks, .lengths = lengths, .planned_count = 24});
  };
  const int64_t both = Add(job({"baseline", "other"}), kSpec, two_fail);
  const int64_t first = Add(job({"baseline"}), kSpec, two_fail), second = Add(job({"other"}), kSpec, two_fail);
  const auto within = stats::CompareVariants(*reader_, both, "baseline", "other");
  const auto across = stats::CompareVariants(*reader_, {first, "baseline"}, {second, "other"});
  ASSERT_TRUE(within.ok() && across.ok()) << within.status() << across.status();
  EXPECT_FALSE(within->is_across_jobs);
  EXPECT_TRUE(across->is_across_jobs);
  EXPECT_EQ(across->paired_count, 2 * 2 * 24);
  EXPECT_EQ(across->baseline_left_out_count + across->candidate_left_out_count, 0);
  EXPECT_EQ(across->is_incomplete, within->is_incomplete);
  ASSERT_EQ(across->comparisons.size(), within->comparisons.size());
  for (size_t i = 0; i < within->comparisons.size(); ++i) {
    const stats::Comparison &a = within->comparisons[i], &b = across->comparisons[i];
    EXPECT_EQ(std::tie(a.task, a.metric, a.context_length, a.sample_count, a.cluster_count, a.failed_count),
              std::tie(b.task, b.metric, b.context_length, b.sample_count, b.cluster_count, b.failed_count));
    EXPECT_EQ(std::tie(a.baseline_mean, a.candidate_mean, a.difference, a.low, a.high, a.p_value, a.planned_count),
              std::tie(b.baseline_mean, b.candidate_mean, b.difference, b.low, b.high, b.p_value, b.planned_count));
    EXPECT_EQ(a.is_primary_metric, b.is_primary_metric);
    EXPECT_EQ(b.baseline, "baseline");
    EXPECT_EQ(b.candidate, absl::StrCat("jobs/", second, "/other"));
  }
  ASSERT_EQ(across->suite.size(), 2u);
  ASSERT_EQ(across->contrasts.size(), within->contrasts.size());
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(across->suite[i].p_adjusted, within->suite[i].p_adjusted);
}

TEST_F(PairingTest, OnlyEqualPromptsArePairedAndTheRestIsCounted) {
  const int64_t a = Add(Job("baseline"));
  const int64_t b = Add(Job("other", 20), kSpec, [](Outcome& outcome) {
    if (outcome.sample.sample_index < 3) outcome.sample.token_ids_sha256 = Sha256Hex("another prompt");
    if (outcome.sample.sample_index == 3) outcome.sample.gold_json = "[\"umber\"]";
    if (outcome.sample.sample_index == 4) outcome.sample.new_token_count_max = 9;
    if (outcome.sample.sample_index == 5) outcome.sample.question_id = "recall-q50";
  });
  const CrossPairs pairs = Pairs(a, b);
  EXPECT_EQ(pairs.pairs.size(), 2u * 14) << "two metrics of questions 6 to 19";
  ASSERT_EQ(pairs.cells.size(), 1u);
  EXPECT_EQ(pairs.cells[0].paired_count, 14);
  EXPECT_EQ(pairs.cells[0].baseline_left_out_count, 10);
  EXPECT_EQ(pairs.cells[0].candidate_left_out_count, 6);
  EXPECT_EQ(pairs.cells[0].planned_count, 14) << "the other 6 will never be";
  ASSIGN_OR_FAIL(const auto report, stats::CompareVariants(*reader_, {a, "baseline"}, {b, "other"}));
  EXPECT_FALSE(report.is_incomplete);
  EXPECT_EQ(report.comparisons[0].sample_count, 14);
  EXPECT_EQ(report.comparisons[0].baseline_mean, 0.5);
  EXPECT_EQ(report.comparisons[0].candidate_mean, 10.0 / 14);  // wrong at 7, 11, 15 and 19
  EXPECT_EQ(report.comparisons[0].baseline_left_out_count, 10);
}

TEST_F(PairingTest, NothingEqualIsOneSentence) {
  const int64_t a = Add(Job("baseline", 4));
  const int64_t b = Add(Job("other", 3), kSpec, [](Outcome& outcome) {
    outcome.sample.token_ids_sha256 = Sha256Hex(absl::StrCat("else ", outcome.sample.sample_index));
  });
  const absl::Status status = PairAcrossJobs(*reader_, {a, "baseline"}, {b, "other"}).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kNotFound, Message("jobs/1/baseline", "jobs/2/other", "4", "3")));
  EXPECT_EQ(PairAcrossJobs(*reader_, {a, "baseline"}, {b, "baseline"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(PairAcrossJobs(*reader_, {a, "baseline"}, {9, "other"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PairingTest, OtherTokenizersPairByRowOfTheSameData) {
  const int64_t a = Add(Job("baseline", 8));
  const int64_t same = Add(Job("other", 6, "u"), kSameSpecElsewhere);
  const CrossPairs pairs = Pairs(a, same);
  EXPECT_TRUE(pairs.tokenizers_differ);
  EXPECT_EQ(pairs.cells[0].paired_count, 6);
  EXPECT_EQ(pairs.cells[0].baseline_left_out_count, 2);
  const int64_t other_data = Add(Job("other", 6, "u"), kOtherData);
  EXPECT_THAT(PairAcrossJobs(*reader_, {a, "baseline"}, {other_data, "other"}).status().message(), Message());
  NewJob seeded = Job("other", 6, "u");
  seeded.data_seed = 8;
  EXPECT_FALSE(PairAcrossJobs(*reader_, {a, "baseline"}, {Add(seeded), "other"}).ok());
  EXPECT_FALSE(PairAcrossJobs(*reader_, {a, "baseline"}, {Add(Job("other", 6, "u"), "{}"), "other"}).ok());
}

TEST_F(PairingTest, OtherSettingsWithTheSamePromptsAreToldAndWithinTheSameSpecificationNot) {
  const int64_t a = Add(Job("baseline", 4));
  EXPECT_THAT(Pairs(a, Add(Job("other", 4), kOtherData)).tasks_with_other_settings, ElementsAre("recall"));
  EXPECT_THAT(Pairs(a, Add(Job("other", 4), kSameSpecElsewhere)).tasks_with_other_settings, ElementsAre());
}

// A prompt that could not be built has no hash. The sample failed, and a failure must not drop out of the comparison.
TEST_F(PairingTest, ASampleWithoutAPromptIsAFailedPair) {
  const Change too_long = [](Outcome& outcome) {
    if (outcome.sample.sample_index > 1) return;
    Fail(outcome, "PROMPT_TOO_LONG");
    outcome.sample.token_ids_sha256.reset();
    outcome.sample.prompt_token_count.reset();
  };
  const int64_t a = Add(Job("baseline", 8)), b = Add(Job("other", 8), kSpec, too_long);
  ASSIGN_OR_FAIL(const auto report, stats::CompareVariants(*reader_, {a, "baseline"}, {b, "other"}));
  EXPECT_EQ(report.comparisons[0].sample_count, 8);
  EXPECT_EQ(report.comparisons[0].failed_count, 2);
  EXPECT_EQ(report.comparisons[0].candidate_mean, 4.0 / 8);  // wrong at 0, 1 (failed), 3 and 7
  EXPECT_TRUE(report.is_incomplete);
  EXPECT_EQ(Pairs(a, Add(Job("other", 8), kOtherData, too_long)).cells[0].paired_count, 6)
      << "without a prompt only the specification identifies it";
}

TEST_F(PairingTest, MetricsMustMeanTheSame) {
  NewJob job = Job("other", 4);
  job.metrics[1].best_value = 2.0;
  const CrossPairs pairs = Pairs(Add(Job("baseline", 4)), Add(job));
  ASSERT_EQ(pairs.metrics.size(), 1u);
  EXPECT_EQ(pairs.metrics[0].metric, "exact_match");
}

TEST_F(PairingTest, EqualQuestionsAreMatchedInTurn) {
  const Change all_alike = [](Outcome& outcome) {
    outcome.sample.question_id = "q";
    outcome.sample.token_ids_sha256 = Sha256Hex("one prompt");
  };
  const CrossPairs pairs = Pairs(Add(Job("baseline", 5), kSpec, all_alike), Add(Job("other", 3), kSpec, all_alike));
  EXPECT_EQ(pairs.cells[0].paired_count, 3);
  EXPECT_EQ(pairs.cells[0].baseline_left_out_count, 2);
  EXPECT_EQ(pairs.baseline_index.at({"recall", 1024, 2}), 2);
}

TEST_F(PairingTest, NamesFindTheirJobs) {
  const auto find = [&](const std::string& a, const std::string& b, std::optional<int64_t> job = std::nullopt) {
    const auto found = FindJobVariants(*reader_, job, {ParseJobVariant(a), ParseJobVariant(b)});
    if (!found.ok()) return std::string(found.status().message());
    return absl::StrCat(JobVariantLabel((*found)[0], 0), " ", JobVariantLabel((*found)[1], 0));
  };
  EXPECT_THAT(find("baseline", "other"), HasSubstr("no jobs"));
  Add(Job("baseline", 4));                                                         // 1
  Add(FakeJob({.variants = {"baseline"}, .tasks = {"icl"}, .planned_count = 4}));  // 2: other questions
  Add(Job("other", 4));                                                            // 3
  EXPECT_EQ(find("baseline", "other"), "jobs/1/baseline jobs/3/other") << "job 2 has nothing in common with job 3";
  EXPECT_EQ(find("baseline", "3/other"), "jobs/1/baseline jobs/3/other");
  EXPECT_EQ(find("jobs/2/baseline", "jobs/3/other"), "jobs/2/baseline jobs/3/other") << "as asked; to see why not";
  EXPECT_EQ(find("baseline", "3/other", 1), "jobs/1/baseline jobs/3/other");
  EXPECT_THAT(find("2/baseline", "other"), Message("jobs/2/baseline", "3"));
  EXPECT_THAT(find("baseline", "fokal"), Message());
  Add(FakeJob({.variants = {"baseline", "other"}, .planned_count = 4}));  // 4
  EXPECT_EQ(find("baseline", "other"), "jobs/4/baseline jobs/4/other") << "one job before two";
  EXPECT_EQ(ParseJobVariant("a/b").name, "a/b");
  EXPECT_EQ(ParseJobVariant("0/b").job_id, 0);
}

}  // namespace
}  // namespace varifocal::db
