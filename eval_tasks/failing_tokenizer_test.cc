// A tokenizer whose N-th call fails, N = 1, 2, 3, .., until a task needs no more calls: each sample is an error with the
// tokenizer's status, or equals that of a tokenizer that does not fail.

#include "absl/strings/match.h"
#include "eval_tasks/tasks/context_gain.h"
#include "eval_tasks/tasks/jsonl.h"
#include "eval_tasks/testing_samples.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

void ExpectErrorsArePassedOn(const Task& task, int length, const TokenCounter& under) {
  SCOPED_TRACE(task.name());
  const SampleRequest request = {kSeed, length, 0};
  const std::vector<absl::StatusOr<Sample>> expected = task.MakeGroup(request, under);
  for (const auto& sample : expected) ASSERT_TRUE(sample.ok()) << sample.status();
  FailingTokenizer tokenizer(under);
  int error_count =
      0;  // not one for each call: the first search of a length estimates, and falls back to whole encodings
  // The first calls one by one, later ones, of searches, with growing steps.
  for (int64_t at = 1;; at += 1 + at / 16) {
    tokenizer.FailAt(at);
    const std::vector<absl::StatusOr<Sample>> group = task.MakeGroup(request, tokenizer);
    ASSERT_EQ(group.size(), expected.size());
    for (size_t i = 0; i < group.size(); ++i) {
      if (group[i].ok()) {
        EXPECT_EQ(group[i]->prompt, expected[i]->prompt) << "call " << at;
        EXPECT_EQ(group[i]->token_ids, expected[i]->token_ids) << "call " << at;
      } else {
        ++error_count;
        EXPECT_EQ(group[i].status().code(), absl::StatusCode::kAborted) << group[i].status();
        EXPECT_TRUE(absl::StrContains(group[i].status().message(), "tokenizer failed")) << group[i].status();
      }
    }
    if (!tokenizer.HasFailed()) break;
  }
  EXPECT_GE(error_count, 1);
}

TEST(FailingTokenizerTest, NativeTasksPassErrorsOn) {
  const struct {
    const char* kind;
    std::map<std::string, std::string> parameters;
    int length;
  } tasks[] = {
      {"recall_kv", {}, 1024},
      {"icl_labels", {}, 1024},
      {"rag_facts", {}, 1024},
      {"longqa_story", {}, 1024},
      {"longqa_story", {{"format", "multiple_choice"}}, 1024},
      {"niah", {{"haystack", "story"}}, 1024},
      {"niah", {{"haystack", "needles"}}, 1024},
      {"variable_tracking", {{"haystack", "story"}}, 1024},
      {"common_words", {{"common_repeats", "6"}, {"other_repeats", "2"}}, 2048},
      {"frequent_words", {}, 4096},
      {"fact_tracking", {{"ask", "where_person"}}, 4096},
      {"longqa_novel", {}, 1024},
      {"rag_novel", {}, 2048},
  };
  for (const auto& task : tasks) ExpectErrorsArePassedOn(*Make(task.kind, task.parameters), task.length, Shipped());
}

TaskSpec SpecOf(const std::string& kind, std::map<std::string, std::string> parameters, int length) {
  return Completed({.name = "mine", .kind = kind, .parameters = std::move(parameters)}, length).value();
}

TEST(FailingTokenizerTest, TasksOfFilesPassErrorsOn) {
  std::string context;
  for (int i = 0; i < 400; ++i) absl::StrAppend(&context, "word", i, " and ");
  const std::string rows = absl::StrCat(R"({"c":")", context, R"(","q":"1","a":"x"})", "\n");
  const TaskSpec jsonl =
      SpecOf("jsonl", {{"path", "p"}, {"prompt", "{c} | {q}"}, {"gold", "a"}, {"context", "c"}}, 4096);
  ExpectErrorsArePassedOn(*MakeJsonlTask(jsonl, "p", rows).value(), 4096, Shipped());
  const TaskSpec spec = SpecOf(
      "context_gain", {{"path", "p"}, {"short_context", "64"}, {"scored_tokens", "16"}, {"longest", "256"}}, 256);
  ExpectErrorsArePassedOn(*MakeContextGain(spec, "p", context + context + context).value(), 256, Shipped());
}

}  // namespace
}  // namespace varifocal
