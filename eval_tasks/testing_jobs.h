// Jobs of the tests in this directory.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "eval_tasks/fakes.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/runner.h"

namespace varifocal {

// A task with all that a suite of this context length gives it.
inline absl::StatusOr<TaskSpec> Completed(TaskSpec task, int length = 1024) {
  SuiteSpec suite;
  suite.name = "test";
  suite.lengths = {length};
  suite.tasks = {std::move(task)};
  ASSIGN_OR_RETURN(const SuiteSpec valid, ValidateSuiteSpec(suite));
  return valid.tasks[0];
}

inline SuiteSpec SmallSuite() {
  SuiteSpec suite;
  suite.name = "small";
  suite.lengths = {2048, 1024};
  suite.samples = 6;
  suite.tasks = {{"", "recall_kv", {}, {}, 0}, {"story", "longqa_story", {{"format", "multiple_choice"}}, {}, 2}};
  return suite;
}

inline JobSpec SmallJob() {
  JobSpec spec;
  spec.suite = SmallSuite();
  spec.variants = {{"baseline"}, {"focal", {{"t", {0.70}}}}};
  return spec;
}

// What the tests of the runner run: two tasks, two lengths, two variants.
inline JobSpec RunnerJob(int samples = 6, int in_flight = 3) {
  JobSpec spec;
  spec.suite.name = "small";
  spec.suite.lengths = {512, 1024};
  spec.suite.samples = samples;
  spec.suite.tasks = {{"", "recall_kv", {}, {}, 0}, {"", "longqa_story", {{"format", "multiple_choice"}}, {}, 0}};
  spec.variants = {{"baseline"}, {"focal", {{"t", {0.5}}}}};
  spec.in_flight = in_flight;
  return ValidateJobSpec(spec).value();
}
inline constexpr int kRunnerCells = 8;

inline std::vector<RunVariant> BothVariants(Generator* generator) {
  static const auto tokenizer = std::make_shared<const FakeTokenizer>(FakeTokenizer::Words());
  return {{generator, tokenizer}, {generator, tokenizer}};
}

// The records of a run as text, in the order of their keys.
inline std::string Describe(const FakeSink& sink) {
  std::string text;
  for (const auto& [key, record] : sink.records) {
    absl::StrAppend(&text, key.first.variant, " ", key.first.task, " ", key.first.context_length, " ", key.second, " ",
                    record.sample->question_id, " ", record.sample->TokenIdsSha256().substr(0, 8), " ", record.answer,
                    " ", record.error.ToString());
    for (const MetricValue& score : record.scores) absl::StrAppend(&text, " ", score.metric, "=", score.value);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace varifocal
