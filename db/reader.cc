#include "db/reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/mutex.h"
#include "base/status_macros.h"
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
  SampleRecord& sample = detail.sample;
  GenerationRecord& generation = detail.generation;
  row.Read(detail.generation_id, detail.job_id, detail.variant, sample.task, sample.context_length, sample.sample_index,
           sample.tokenizer_sha256, sample.question_id, sample.cluster, sample.row_id, sample.token_ids_sha256,
           sample.prompt_token_count, sample.new_token_count_max, sample.gold_json, sample.continuations_json,
           sample.evidence_json, sample.truncation_json, sample.excerpt, sample.prompt, generation.finish_reason,
           generation.answer_raw, generation.answer, generation.log_likelihoods_json, generation.new_token_count,
           generation.cached_token_count, generation.queue_us, generation.prefill_us, generation.decode_us,
           generation.tau_low_share, generation.tau_high_share, generation.is_extrapolated, generation.error_code,
           generation.error_message, detail.execution_id, detail.attempt_count, detail.record_us);
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
    ASSIGN_OR_RETURN(const std::vector<std::string> known,
                     AllRows(database, "SELECT DISTINCT metric FROM task_metrics ORDER BY metric", FirstText));
    return NotFound("no job has a metric \"", metric, "\"; the database has ", absl::StrJoin(known, ", "));
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
  const auto convert = [](const Statement& row) {
    TaskMetricRecord metric;
    row.Read(metric.task, metric.metric, metric.metric_index, metric.is_binary, metric.worst_value, metric.best_value);
    return metric;
  };
  return AllRows(*state_->database, kSelectMetrics, convert, job_id);
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
  const auto convert = [](const Statement& row) {
    return ScoreImportRow{row.Text(0), row.Text(1), row.Text(2), row.Text(3), row.Int(4), row.Int(5)};
  };
  return AllRows(*state_->database, kSelectScoreImports, convert, job_id);
}

absl::StatusOr<std::vector<AttentionHeadRecord>> Reader::AttentionHeads(int64_t generation_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::optional<int64_t> table_count, state_->database->QueryInt(kCountAttentionHeads));
  if (*table_count == 0) return std::vector<AttentionHeadRecord>();
  const auto convert = [](const Statement& row) {
    return AttentionHeadRecord{row.Int(0),  row.Int(1),          row.Real(2),         row.Real(3),         row.Real(4),
                               row.Real(5), row.OptionalReal(6), row.OptionalReal(7), row.OptionalReal(8), row.Text(9)};
  };
  return AllRows(*state_->database, kSelectAttentionHeads, convert, generation_id);
}

absl::StatusOr<std::vector<ExecutionRow>> Reader::Executions(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::string counts, CellCounts(*state_->database));
  const auto convert = [](const Statement& row) {
    ExecutionRow found;
    ExecutionRecord& execution = found.execution;
    row.Read(found.execution_id, execution.code_version, execution.backend, execution.instruction_set, execution.device,
             execution.host, execution.thread_count, execution.command_line, found.start_us, found.generation_count);
    return found;
  };
  return AllRows(*state_->database, absl::StrReplaceAll(kSelectExecutions, {{"$counts", counts}}), convert, job_id);
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
  const auto convert = [&](const Statement& row) {
    return use({row.Text(0), row.Text(1), row.Int(2), row.Int(3), row.Text(4), row.Text(5), row.OptionalReal(6),
                row.OptionalText(7)});
  };
  return EachRow(*state_->database, kSelectSampleRows, convert, job_id, variant);
}

absl::Status Reader::EachPair(int64_t job_id, const std::string& baseline, const std::string& candidate,
                              const std::function<absl::Status(PairRow)>& use) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const JobEpochs epochs, state_->Epochs(job_id));
  if (epochs.count > 1) return EachQuestionPair(*state_->database, job_id, baseline, candidate, epochs, use);
  const auto convert = [&](const Statement& row) {
    PairRow pair;
    row.Read(pair.job_id, pair.task, pair.metric, pair.context_length, pair.question_id, pair.cluster,
             pair.baseline_variant, pair.candidate_variant, pair.baseline_value, pair.candidate_value, pair.difference,
             pair.baseline_error, pair.candidate_error);
    return use(std::move(pair));
  };
  return EachRow(*state_->database, kSelectPairs, convert, job_id, baseline, candidate);
}

absl::Status Reader::EachAnswer(int64_t job_id, const std::string& variant,
                                const std::function<absl::Status(AnswerRow)>& use) {
  MutexLock hold(state_->mutex);
  const auto convert = [&](const Statement& row) {
    AnswerRow answer;
    SampleRecord& sample = answer.sample;
    GenerationRecord& generation = answer.generation;
    row.Read(answer.generation_id, sample.task, sample.context_length, sample.sample_index, sample.prompt_token_count,
             sample.evidence_json, generation.cached_token_count, generation.new_token_count, generation.prefill_us,
             generation.decode_us, generation.error_code, answer.value, sample.token_ids_sha256);
    return use(std::move(answer));
  };
  const std::string sql = absl::StrCat(kSelectAnswers, kFromAnswers,
                                       " AND variants.name = ? ORDER BY cells.cell_id, generations.sample_id");
  return EachRow(*state_->database, sql, convert, job_id, variant);
}

absl::StatusOr<std::map<std::pair<std::string, std::string>, int64_t>> Reader::DataSeeds(int64_t job_id) {
  std::map<std::pair<std::string, std::string>, int64_t> seeds;
  MutexLock hold(state_->mutex);
  const auto add = [&](const Statement& row) { seeds[{row.Text(0), row.Text(1)}] = row.Int(2); };
  RETURN_IF_ERROR(EachRow(*state_->database, kSelectDataSeeds, add, job_id));
  return seeds;
}

absl::StatusOr<std::vector<SampleDetail>> Reader::Samples(const SampleQuery& query) {
  MutexLock hold(state_->mutex);
  Database& database = *state_->database;
  ASSIGN_OR_RETURN(const std::optional<Transaction> snapshot, state_->Snapshot());
  ASSIGN_OR_RETURN(std::vector<SampleDetail> details,
                   AllRows(database, kSelectDetails, ToDetail, query.after_id, query.job_id, query.variant, query.task,
                           query.context_length, query.sample_index, query.only_failed, query.limit));
  if (details.empty()) return details;
  // The file may be of a version without the column.
  ASSIGN_OR_RETURN(const int64_t epochs, ReadEpochCount(database, query.job_id));
  for (SampleDetail& detail : details) detail.sample.epoch = detail.sample.sample_index % epochs;
  ASSIGN_OR_RETURN(Statement scores, database.Prepare(kSelectScores));
  for (SampleDetail& detail : details) {
    const auto add = [&](const Statement& row) { detail.scores.push_back({row.Text(0), row.Real(1)}); };
    scores.Reset();
    RETURN_IF_ERROR(EachRow(scores.BindAll(detail.generation_id), add));
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
