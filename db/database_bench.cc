// Benchmarks one durable sample (sample, generation, two scores, one fsync) and reading a job of 3 tasks x 3 lengths x
// 500 samples for the report.
#include <string>

#include "base/check.h"
#include "benchmark/benchmark.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "db/stats/compare.h"
#include "db/writer.h"
#include "tests/support/process.h"

namespace varifocal::db {
namespace {

void BM_RecordSample(benchmark::State& state) {
  testing_support::TemporaryDirectory directory;
  auto writer = *Writer::Open(directory.File("r.db"));
  const NewJob job = FakeJob({.planned_count = 10'000'000});
  const int64_t execution_id = *writer->AddExecution(FakeExecution());
  const CellRow cell = writer->Cells(writer->AddJob(job)->job_id)->front();
  int64_t index = 0;
  for (auto _ : state) VF_CHECK(writer->RecordSample(FakeOutcome(cell, job, execution_id, index++)).ok());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_RecordSample)->UseRealTime()->Unit(benchmark::kMillisecond);

// Made once: 2 variants x 3 tasks x 3 lengths x 500 samples, 9,000 generations, 18,000 scores.
const std::string& BigDatabase() {
  static testing_support::TemporaryDirectory directory;
  static const std::string path = [] {
    const std::string path = directory.File("big.db");
    auto writer = *Writer::Open(path);
    const NewJob job =
        FakeJob({.tasks = {"icl", "rag", "recall"}, .lengths = {8192, 16384, 32768}, .planned_count = 500});
    AddFakeJob(*writer, job);
    return path;
  }();
  return path;
}

void BM_ReadPairs(benchmark::State& state) {
  auto reader = *Reader::Open(BigDatabase());
  for (auto _ : state) {
    int count = 0;
    VF_CHECK(reader
                 ->EachPair(1, "baseline", "focal",
                            [&](const PairRow&) {
                              ++count;
                              return absl::OkStatus();
                            })
                 .ok());
    VF_CHECK(count == 9000);
  }
}
BENCHMARK(BM_ReadPairs)->Unit(benchmark::kMillisecond);

void BM_ScoresByLength(benchmark::State& state) {
  auto database = *sqlite::Database::Open(BigDatabase(), {.read_only = true});
  for (auto _ : state) VF_CHECK(*database->QueryInt("SELECT count(mean) FROM v_scores_by_length") == 36);
}
BENCHMARK(BM_ScoresByLength)->Unit(benchmark::kMillisecond);

void BM_CompareVariants(benchmark::State& state) {
  auto reader = *Reader::Open(BigDatabase());
  for (auto _ : state) VF_CHECK(stats::CompareVariants(*reader, 1, "baseline", "focal")->comparisons.size() == 18);
}
BENCHMARK(BM_CompareVariants)->Unit(benchmark::kMillisecond);

void BM_PageOfSamples(benchmark::State& state) {
  auto reader = *Reader::Open(BigDatabase());
  int64_t after = 0;
  for (auto _ : state) {
    auto page = *reader->Samples({.job_id = 1, .after_id = after, .limit = 100});
    after = page.empty() ? 0 : page.back().generation_id;
  }
}
BENCHMARK(BM_PageOfSamples)->Unit(benchmark::kMillisecond);

// Made once: two jobs of 450,000 answers, copies of one row.
const std::string& LongJobs() {
  static testing_support::TemporaryDirectory directory;
  static const std::string path = [] {
    const std::string path = directory.File("long.db");
    const NewJob job = FakeJob({.variants = {"baseline"}, .planned_count = 10'000'000});
    {
      auto writer = *Writer::Open(path);
      const int64_t execution_id = *writer->AddExecution(FakeExecution());
      for (int i = 0; i < 2; ++i) {
        const CellRow cell = writer->Cells(writer->AddJob(job)->job_id)->front();
        VF_CHECK(writer->RecordSample(FakeOutcome(cell, job, execution_id, 0)).ok());
      }
    }
    auto database = *sqlite::Database::Open(path, {});
    VF_CHECK(
        database
            ->Execute("BEGIN; CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
                      " WHERE i < 449999) SELECT i FROM n;"
                      "INSERT INTO samples (sample_id, job_id, task, context_length, sample_index, tokenizer_sha256,"
                      " question_id, cluster, row_id, new_token_count_max, gold_json)"
                      " SELECT 1000000 * job_id + i, job_id, task, context_length, i, tokenizer_sha256, question_id,"
                      " cluster, row_id, new_token_count_max, gold_json FROM samples, n;"
                      "INSERT INTO generations (cell_id, sample_id, execution_id, attempt_count, record_us,"
                      " finish_reason, answer_raw, answer, new_token_count, cached_token_count, queue_us, prefill_us,"
                      " decode_us, is_extrapolated) SELECT generations.cell_id, 1000000 * samples.job_id + i,"
                      " execution_id, attempt_count, record_us, finish_reason, answer_raw, answer, new_token_count,"
                      " cached_token_count, queue_us, prefill_us, decode_us, is_extrapolated FROM generations"
                      " JOIN samples USING (sample_id), n; COMMIT")
            .ok());
    return path;
  }();
  return path;
}

void BM_ListLongJobs(benchmark::State& state) {
  auto reader = *Reader::Open(LongJobs());
  VF_CHECK(reader->Jobs()->front().answered_count == 450'000);
  for (auto _ : state) VF_CHECK(reader->Jobs()->size() == 2);
}
BENCHMARK(BM_ListLongJobs)->Unit(benchmark::kMillisecond);

// The same numbers from the rows, as before schema version 10.
void BM_CountLongJobs(benchmark::State& state) {
  auto database = *sqlite::Database::Open(LongJobs(), {.read_only = true});
  for (auto _ : state) {
    VF_CHECK(database
                 ->QueryInt("SELECT count(*) FROM generations JOIN cells USING (cell_id)"
                            " JOIN variants USING (variant_id) WHERE error_code IS NULL")
                 ->value_or(0) == 900'000);
  }
}
BENCHMARK(BM_CountLongJobs)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace varifocal::db
