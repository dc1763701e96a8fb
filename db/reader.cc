#include "db/reader.h"

#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "db/job_rows.h"
#include "db/question_rows.h"
#include "db/reader_state.h"
#include "db/rows.h"
#include "db/schema.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

namespace {

constexpr char kSelectMetrics[] =
    "SELECT task, metric, metric_index, is_binary, worst_value, best_value FROM task_metrics WHERE job_id = ?"
    " ORDER BY task, metric_index";
// $counts: see CellCounts.
constexpr char kSelectExecutions[] =
    "SELECT executions.execution_id, executions.code_version, executions.backend, executions.instruction_set,"
    " executions.device, executions.host, executions.thread_count, executions.command_line, executions.start_us, "
    "sum(counts.answered_count + counts.failed_count) FROM $counts AS counts"
    " JOIN cells ON cells.cell_id = counts.cell_id JOIN variants ON variants.variant_id = cells.variant_id"
    " JOIN executions ON executions.execution_id = counts.execution_id"
    " WHERE variants.job_id = ? GROUP BY executions.execution_id ORDER BY executions.execution_id";

constexpr char kSelectScoreImports[] =
    "SELECT variant, metric, source, source_sha256, value_count, import_us FROM score_imports WHERE job_id = ?"
    " ORDER BY score_import_id";

constexpr char kSelectSampleRows[] =
    "SELECT task, metric, context_length, sample_index, question_id, cluster, value, error_code FROM v_samples"
    " WHERE job_id = ? AND variant = ?"
    " ORDER BY task, metric, context_length, sample_index";
constexpr char kSelectPairs[] =
    "SELECT job_id, task, metric, context_length, question_id, cluster, baseline_variant, candidate_variant,"
    " baseline_value, candidate_value, difference, baseline_error, candidate_error FROM v_pairs"
    " WHERE job_id = ? AND baseline_variant = ? AND candidate_variant = ?"
    " ORDER BY task, metric, context_length, question_id";

constexpr char kSelectAnswers[] =
    "SELECT generations.generation_id, samples.task, samples.context_length, samples.sample_index,"
    " samples.prompt_token_count, samples.evidence_json, generations.cached_token_count, generations.new_token_count,"
    " generations.prefill_us, generations.decode_us, generations.error_code, scores.value, samples.token_ids_sha256";

constexpr char kSelectAttentionHeads[] =
    "SELECT layer, head, scale, entropy, largest_weight, first_mass, evidence_mass, distractor_mass, question_mass,"
    " strip FROM attention_heads WHERE generation_id = ? ORDER BY layer, head";

// In this order of loops (CROSS JOIN), so that a page begins at its first row: otherwise every page reads and sorts the whole job.
// The indices of a cell run through the seeds (eval_tasks/grid.h). A task of a user's rows has the digest of its data.
constexpr char kSelectDataSeeds[] =
    "SELECT DISTINCT samples.task, samples.question_id,"
    " jobs.data_seed + samples.sample_index / (cells.planned_count / (jobs.spec_json ->> '$.suite.seeds'))"
    " FROM jobs JOIN samples ON samples.job_id = jobs.job_id"
    " JOIN variants ON variants.job_id = jobs.job_id AND variants.variant_index = 0"
    " JOIN cells ON cells.variant_id = variants.variant_id AND cells.task = samples.task"
    " AND cells.context_length = samples.context_length"
    " JOIN json_each(jobs.spec_json, '$.suite.tasks') AS tasks ON tasks.value ->> '$.name' = samples.task"
    " WHERE jobs.job_id = ? AND jobs.spec_json ->> '$.suite.seeds' > 1"
    " AND cells.planned_count >= jobs.spec_json ->> '$.suite.seeds'"
    " AND tasks.value -> '$.parameters.sha256' IS NULL";
constexpr char kSelectDetails[] =
    "SELECT generations.generation_id, samples.job_id, variants.name, samples.task, samples.context_length,"
    " samples.sample_index, samples.tokenizer_sha256, samples.question_id, samples.cluster, samples.row_id,"
    " samples.token_ids_sha256, samples.prompt_token_count, samples.new_token_count_max, samples.gold_json,"
    " samples.continuations_json, samples.evidence_json, samples.truncation_json, samples.excerpt, samples.prompt,"
    " generations.finish_reason, generations.answer_raw, generations.answer, generations.log_likelihoods_json,"
    " generations.new_token_count, generations.cached_token_count, generations.queue_us, generations.prefill_us,"
    " generations.decode_us, generations.tau_low_share, generations.tau_high_share, generations.is_extrapolated,"
    " generations.error_code, generations.error_message, generations.execution_id, generations.attempt_count,"
    " generations.record_us"
    " FROM generations CROSS JOIN cells ON cells.cell_id = generations.cell_id"
    " CROSS JOIN variants ON variants.variant_id = cells.variant_id"
    " CROSS JOIN samples ON samples.sample_id = generations.sample_id"
    " WHERE generations.generation_id > ? AND variants.job_id = ?"
    " AND (?3 IS NULL OR variants.name = ?3) AND (?4 IS NULL OR samples.task = ?4)"
    " AND (?5 IS NULL OR samples.context_length = ?5) AND (?6 IS NULL OR samples.sample_index = ?6)"
    " AND (NOT ?7 OR generations.error_code IS NOT NULL)"
    " ORDER BY generations.generation_id LIMIT ?8";
constexpr char kSelectScores[] =
    "SELECT scores.metric, scores.value FROM scores"
    " JOIN generations ON generations.generation_id = scores.generation_id"
    " JOIN samples ON samples.sample_id = generations.sample_id"
    " JOIN task_metrics ON task_metrics.job_id = samples.job_id AND task_metrics.task = samples.task"
    " AND task_metrics.metric = scores.metric"
    " WHERE scores.generation_id = ? ORDER BY task_metrics.metric_index";

SampleDetail ToDetail(const Statement& row) {
  SampleDetail detail;
  detail.generation_id = row.Int(0);
  detail.job_id = row.Int(1);
  detail.variant = row.Text(2);
  SampleRecord& sample = detail.sample;
  sample.task = row.Text(3);
  sample.context_length = row.Int(4);
  sample.sample_index = row.Int(5);
  sample.tokenizer_sha256 = row.Text(6);
  sample.question_id = row.Text(7);
  sample.cluster = row.Text(8);
  sample.row_id = row.Text(9);
  sample.token_ids_sha256 = row.OptionalText(10);
  sample.prompt_token_count = row.OptionalInt(11);
  sample.new_token_count_max = row.Int(12);
  sample.gold_json = row.Text(13);
  sample.continuations_json = row.OptionalText(14);
  sample.evidence_json = row.OptionalText(15);
  sample.truncation_json = row.OptionalText(16);
  sample.excerpt = row.OptionalText(17);
  sample.prompt = row.OptionalText(18);
  GenerationRecord& generation = detail.generation;
  generation.finish_reason = row.Text(19);
  generation.answer_raw = row.OptionalText(20);
  generation.answer = row.OptionalText(21);
  generation.log_likelihoods_json = row.OptionalText(22);
  generation.new_token_count = row.Int(23);
  generation.cached_token_count = row.Int(24);
  generation.queue_us = row.Int(25);
  generation.prefill_us = row.Int(26);
  generation.decode_us = row.Int(27);
  generation.tau_low_share = row.OptionalReal(28);
  generation.tau_high_share = row.OptionalReal(29);
  generation.is_extrapolated = row.Int(30) != 0;
  generation.error_code = row.Text(31);
  generation.error_message = row.Text(32);
  detail.execution_id = row.Int(33);
  detail.attempt_count = row.Int(34);
  detail.record_us = row.Int(35);
  return detail;
}

}  // namespace

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::~Reader() = default;

absl::StatusOr<std::unique_ptr<Reader>> Reader::Open(const std::string& path) {
  RETURN_IF_ERROR(CheckFile(path, /*may_create=*/false));
  auto state = std::make_unique<State>();
  ASSIGN_OR_RETURN(state->database, Database::Open(path, {.read_only = true}));
  {
    MutexLock hold(state->mutex);
    RETURN_IF_ERROR(CheckSchema(*state->database));
  }
  return std::unique_ptr<Reader>(new Reader(std::move(state)));
}

absl::Status Reader::HoldSnapshot() {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(std::optional<Transaction> begun, state_->Snapshot());
  if (!begun.has_value()) return absl::OkStatus();
  state_->held.emplace(*std::move(begun));
  // SQLite takes the snapshot at the first read.
  return state_->database->QueryInt("SELECT count(*) FROM schema_version").status();
}

absl::Status Reader::SetPrimaryMetric(const std::string& metric) {
  MutexLock hold(state_->mutex);
  Database& database = *state_->database;
  ASSIGN_OR_RETURN(const std::optional<int64_t> found,
                   database.QueryInt("SELECT count(*) FROM task_metrics WHERE metric = ?", metric));
  if (found.value_or(0) == 0) {
    ASSIGN_OR_RETURN(Statement names, database.Prepare("SELECT DISTINCT metric FROM task_metrics ORDER BY metric"));
    std::string known;
    while (true) {
      ASSIGN_OR_RETURN(const bool is_there, names.Step());
      if (!is_there) break;
      absl::StrAppend(&known, known.empty() ? "" : ", ", names.Text(0));
    }
    return absl::NotFoundError(absl::StrCat("no job has a metric \"", metric, "\"; the database has ", known));
  }
  // A table of this connection, whose name is found before the file's. The file itself is opened read-only.
  RETURN_IF_ERROR(database.Execute("PRAGMA query_only = 0"));
  const absl::Status made = database.Run(
      "CREATE TEMP TABLE task_metrics AS SELECT job_id, task, metric, iif(metric = ?, 0, metric_index + 1) AS"
      " metric_index, is_binary, worst_value, best_value FROM main.task_metrics",
      metric);
  RETURN_IF_ERROR(database.Execute("PRAGMA query_only = 1"));
  return made;
}

void Reader::SetEpochStatistic(const EpochStatistic& statistic) {
  MutexLock hold(state_->mutex);
  state_->epoch_statistic = statistic;
}

absl::StatusOr<JobEpochs> Reader::Epochs(int64_t job_id) {
  MutexLock hold(state_->mutex);
  return state_->Epochs(job_id);
}

absl::StatusOr<std::vector<JobRow>> Reader::Jobs(int64_t before_id, int64_t limit) {
  MutexLock hold(state_->mutex);
  return ReadJobs(*state_->database, before_id, limit);
}

absl::StatusOr<JobRow> Reader::Job(int64_t job_id) {
  MutexLock hold(state_->mutex);
  return ReadJob(*state_->database, job_id);
}

absl::StatusOr<std::vector<JobStateCount>> Reader::CountJobs() {
  MutexLock hold(state_->mutex);
  return CountJobsByState(*state_->database);
}

absl::StatusOr<int64_t> Reader::CountQueued(int64_t at_most) {
  MutexLock hold(state_->mutex);
  return CountQueuedJobs(*state_->database, at_most);
}

absl::StatusOr<std::optional<UnfinishedJob>> Reader::UnfinishedJobOf(const std::string& model) {
  MutexLock hold(state_->mutex);
  return FindUnfinishedJob(*state_->database, model);
}

absl::StatusOr<JobRow> Reader::LatestJob(const std::vector<std::string>& variants) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::optional<Transaction> snapshot, state_->Snapshot());
  return FindLatestJob(*state_->database, variants);
}

absl::StatusOr<std::vector<VariantRecord>> Reader::Variants(int64_t job_id) {
  MutexLock hold(state_->mutex);
  return ReadVariants(*state_->database, job_id);
}

absl::StatusOr<std::vector<TaskMetricRecord>> Reader::Metrics(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Statement statement, state_->database->Prepare(kSelectMetrics));
  statement.BindAll(job_id);
  return ReadAll<TaskMetricRecord>(statement, [](const Statement& row) {
    return TaskMetricRecord{row.Text(0),     row.Text(1),         row.Int(2),
                            row.Int(3) != 0, row.OptionalReal(4), row.OptionalReal(5)};
  });
}

absl::StatusOr<std::vector<CellRow>> Reader::Cells(int64_t job_id) {
  MutexLock hold(state_->mutex);
  return ReadCells(*state_->database, job_id);
}

absl::StatusOr<std::vector<CellRow>> Reader::QuestionCells(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(std::vector<CellRow> cells, ReadCells(*state_->database, job_id));
  if (cells.empty()) return cells;
  ASSIGN_OR_RETURN(const int64_t epochs, ReadEpochCount(*state_->database, job_id));
  for (CellRow& cell : cells) cell.cell.planned_count /= epochs;
  return cells;
}

absl::StatusOr<std::vector<FailureGroup>> Reader::Failures(int64_t job_id) {
  MutexLock hold(state_->mutex);
  return ReadFailures(*state_->database, job_id);
}

absl::StatusOr<std::vector<ScoreImportRow>> Reader::ScoreImports(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::optional<int64_t> table_count,
                   state_->database->QueryInt("SELECT count(*) FROM sqlite_schema WHERE name = 'score_imports'"));
  if (*table_count == 0) return std::vector<ScoreImportRow>();  // a file of schema version 1
  ASSIGN_OR_RETURN(Statement statement, state_->database->Prepare(kSelectScoreImports));
  statement.BindAll(job_id);
  return ReadAll<ScoreImportRow>(statement, [](const Statement& row) {
    return ScoreImportRow{row.Text(0), row.Text(1), row.Text(2), row.Text(3), row.Int(4), row.Int(5)};
  });
}

absl::StatusOr<std::vector<AttentionHeadRecord>> Reader::AttentionHeads(int64_t generation_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::optional<int64_t> table_count, state_->database->QueryInt(kCountAttentionHeads));
  if (*table_count == 0) return std::vector<AttentionHeadRecord>();
  ASSIGN_OR_RETURN(Statement statement, state_->database->Prepare(kSelectAttentionHeads));
  statement.BindAll(generation_id);
  return ReadAll<AttentionHeadRecord>(statement, [](const Statement& row) {
    return AttentionHeadRecord{row.Int(0),  row.Int(1),          row.Real(2),         row.Real(3),         row.Real(4),
                               row.Real(5), row.OptionalReal(6), row.OptionalReal(7), row.OptionalReal(8), row.Text(9)};
  });
}

absl::StatusOr<std::vector<ExecutionRow>> Reader::Executions(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::string counts, CellCounts(*state_->database));
  ASSIGN_OR_RETURN(Statement statement,
                   state_->database->Prepare(absl::StrReplaceAll(kSelectExecutions, {{"$counts", counts}})));
  statement.BindAll(job_id);
  return ReadAll<ExecutionRow>(statement, [](const Statement& row) {
    return ExecutionRow{row.Int(0),
                        {row.Text(1), row.Text(2), row.Text(3), row.Text(4), row.Text(5), row.Int(6), row.Text(7)},
                        row.Int(8),
                        row.Int(9)};
  });
}

absl::Status Reader::EachSampleRow(int64_t job_id, const std::string& variant,
                                   const std::function<absl::Status(SampleRow)>& use) {
  {
    MutexLock hold(state_->mutex);
    ASSIGN_OR_RETURN(const JobEpochs epochs, state_->Epochs(job_id));
    if (epochs.count > 1) return EachQuestionRow(*state_->database, job_id, variant, epochs, use);
  }
  return EachAnswerScore(job_id, variant, use);
}

absl::Status Reader::EachAnswerScore(int64_t job_id, const std::string& variant,
                                     const std::function<absl::Status(SampleRow)>& use) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Statement row, state_->database->Prepare(kSelectSampleRows));
  row.BindAll(job_id, variant);
  return ForEach(row, [&] {
    return use({row.Text(0), row.Text(1), row.Int(2), row.Int(3), row.Text(4), row.Text(5), row.OptionalReal(6),
                row.OptionalText(7)});
  });
}

absl::Status Reader::EachPair(int64_t job_id, const std::string& baseline, const std::string& candidate,
                              const std::function<absl::Status(PairRow)>& use) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const JobEpochs epochs, state_->Epochs(job_id));
  if (epochs.count > 1) return EachQuestionPair(*state_->database, job_id, baseline, candidate, epochs, use);
  ASSIGN_OR_RETURN(Statement row, state_->database->Prepare(kSelectPairs));
  row.BindAll(job_id, baseline, candidate);
  return ForEach(row, [&] {
    return use({row.Int(0), row.Text(1), row.Text(2), row.Int(3), row.Text(4), row.Text(5), row.Text(6), row.Text(7),
                row.OptionalReal(8), row.OptionalReal(9), row.OptionalReal(10), row.OptionalText(11),
                row.OptionalText(12)});
  });
}

absl::Status Reader::EachAnswer(int64_t job_id, const std::string& variant,
                                const std::function<absl::Status(AnswerRow)>& use) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Statement row, state_->database->Prepare(absl::StrCat(
                                      kSelectAnswers, kFromAnswers,
                                      " AND variants.name = ? ORDER BY cells.cell_id, generations.sample_id")));
  row.BindAll(job_id, variant);
  return ForEach(row, [&] {
    AnswerRow answer;
    answer.generation_id = row.Int(0);
    answer.sample.task = row.Text(1);
    answer.sample.context_length = row.Int(2);
    answer.sample.sample_index = row.Int(3);
    answer.sample.prompt_token_count = row.OptionalInt(4);
    answer.sample.evidence_json = row.OptionalText(5);
    answer.generation.cached_token_count = row.Int(6);
    answer.generation.new_token_count = row.Int(7);
    answer.generation.prefill_us = row.Int(8);
    answer.generation.decode_us = row.Int(9);
    answer.generation.error_code = row.Text(10);
    answer.value = row.OptionalReal(11);
    answer.sample.token_ids_sha256 = row.OptionalText(12);
    return use(std::move(answer));
  });
}

absl::StatusOr<std::map<std::pair<std::string, std::string>, int64_t>> Reader::DataSeeds(int64_t job_id) {
  std::map<std::pair<std::string, std::string>, int64_t> seeds;
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Statement row, state_->database->Prepare(kSelectDataSeeds));
  row.BindAll(job_id);
  RETURN_IF_ERROR(ForEach(row, [&] {
    seeds[{row.Text(0), row.Text(1)}] = row.Int(2);
    return absl::OkStatus();
  }));
  return seeds;
}

absl::StatusOr<std::vector<SampleDetail>> Reader::Samples(const SampleQuery& query) {
  MutexLock hold(state_->mutex);
  Database& database = *state_->database;
  ASSIGN_OR_RETURN(const std::optional<Transaction> snapshot, state_->Snapshot());
  ASSIGN_OR_RETURN(Statement statement, database.Prepare(kSelectDetails));
  statement.BindAll(query.after_id, query.job_id, query.variant, query.task, query.context_length, query.sample_index,
                    query.only_failed, query.limit);
  ASSIGN_OR_RETURN(std::vector<SampleDetail> details, ReadAll<SampleDetail>(statement, ToDetail));
  if (details.empty()) return details;
  // The file may be of a version without the column.
  ASSIGN_OR_RETURN(const int64_t epochs, ReadEpochCount(database, query.job_id));
  for (SampleDetail& detail : details) detail.sample.epoch = detail.sample.sample_index % epochs;
  ASSIGN_OR_RETURN(Statement scores, database.Prepare(kSelectScores));
  for (SampleDetail& detail : details) {
    scores.Reset();
    scores.BindAll(detail.generation_id);
    ASSIGN_OR_RETURN(detail.scores, ReadAll<ScoreRecord>(scores, [](const Statement& row) {
                       return ScoreRecord{row.Text(0), row.Real(1)};
                     }));
  }
  return details;
}

absl::StatusOr<bool> Reader::TokenizersDiffer(int64_t job_id, const std::string& baseline,
                                              const std::string& candidate) {
  ASSIGN_OR_RETURN(std::vector<VariantRecord> variants, Variants(job_id));
  std::string found[2];
  for (const VariantRecord& variant : variants) {
    if (variant.name == baseline) found[0] = variant.model.tokenizer_sha256;
    if (variant.name == candidate) found[1] = variant.model.tokenizer_sha256;
  }
  return found[0] != found[1];
}

}  // namespace varifocal::db
