#include "db/fakes/fake_results.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/sha256.h"

namespace varifocal::db {

NewJob FakeJob(const FakeJobOptions& options) {
  NewJob job;
  job.suite = "fake";
  job.spec_json = "{}";
  job.data_seed = 7;
  for (size_t i = 0; i < options.variants.size(); ++i) {
    const std::string& name = options.variants[i];
    const std::string& tokenizer = options.tokenizers[std::min(i, options.tokenizers.size() - 1)];
    VariantRecord variant;
    variant.name = name;
    variant.model = {name, "llama", Sha256Hex(name), Sha256Hex(tokenizer), "f32", "{}", 4096, 2048};
    variant.model.function_json = options.function_json;
    job.variants.push_back(variant);
    for (const std::string& task : options.tasks) {
      for (int64_t length : options.lengths) job.cells.push_back({name, task, length, options.planned_count});
    }
  }
  for (const std::string& task : options.tasks) {
    job.metrics.push_back({task, options.metric, 0, true, 0.0, 1.0});
    job.metrics.push_back({task, "token_f1", 1, false, 0.0, 1.0});
  }
  return job;
}

ExecutionRecord FakeExecution() { return {"0.1.0+test", "cpu", "avx2", "a processor", "here", 2, "varifocald"}; }

namespace {

SampleRecord FakeSample(const CellRow& row, const NewJob& job, int64_t sample_index) {
  auto variant = std::find_if(job.variants.begin(), job.variants.end(),
                              [&](const VariantRecord& v) { return v.name == row.cell.variant; });
  VF_CHECK(variant != job.variants.end());
  SampleRecord sample;
  sample.task = row.cell.task;
  sample.context_length = row.cell.context_length;
  sample.sample_index = sample_index;
  sample.tokenizer_sha256 = variant->model.tokenizer_sha256;
  sample.question_id = absl::StrCat(sample.task, "-q", sample_index);
  sample.cluster = absl::StrCat(sample.task, "-c", sample_index / 4);
  sample.token_ids_sha256 =
      Sha256Hex(absl::StrCat(sample.question_id, " ", sample.context_length, " ", sample.tokenizer_sha256));
  sample.prompt_token_count = sample.context_length - 10;
  sample.new_token_count_max = 8;
  sample.gold_json = "[\"amber\"]";
  return sample;
}

}  // namespace

Outcome FakeOutcome(const CellRow& row, const NewJob& job, int64_t execution_id, int64_t sample_index) {
  Outcome outcome;
  outcome.cell_id = row.cell_id;
  outcome.execution_id = execution_id;
  outcome.sample = FakeSample(row, job, sample_index);
  Random random(absl::StrCat(row.cell.variant, row.cell.task, row.cell.context_length, ":", sample_index));
  outcome.generation.finish_reason = "stop";
  outcome.generation.answer_raw = absl::StrCat(" word", random.Below(1000), ".");
  outcome.generation.answer = absl::StrCat("word", random.Below(1000));
  outcome.generation.new_token_count = 3;
  outcome.generation.prefill_us = 1000;
  outcome.scores = {{job.metrics.front().metric, random.Coin() ? 1.0 : 0.0}, {"token_f1", random.Uniform()}};
  return outcome;
}

Outcome FakeFailure(const CellRow& row, const NewJob& job, int64_t execution_id, int64_t sample_index) {
  Outcome outcome = FakeOutcome(row, job, execution_id, sample_index);
  Fail(outcome);
  return outcome;
}

void Fail(Outcome& outcome) {
  outcome.scores.clear();
  outcome.generation = {};
  outcome.generation.error_code = "RESOURCE_EXHAUSTED";
  outcome.generation.error_message = "the prompt needs 9 pages, the cache has 4";
}

int64_t AddFakeJob(Writer& writer, const NewJob& job, const ChangeOutcome& change) {
  const int64_t execution_id = writer.AddExecution(FakeExecution()).value();
  const int64_t job_id = writer.AddJob(job).value().job_id;
  const std::vector<CellRow> cells = writer.Cells(job_id).value();
  std::vector<Outcome> outcomes;
  for (const CellRow& cell : cells) {
    for (int64_t i = 0; i < cell.cell.planned_count; ++i) {
      Outcome outcome = FakeOutcome(cell, job, execution_id, i);
      if (change(cell, i, outcome)) outcomes.push_back(std::move(outcome));
    }
  }
  const absl::Status recorded = writer.RecordSamples(outcomes).status();
  VF_CHECK(recorded.ok(), "the outcomes are those of the job");
  return job_id;
}

}  // namespace varifocal::db
