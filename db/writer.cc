#include "db/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "db/resume.h"
#include "db/rows.h"
#include "db/schema.h"
#include "db/sqlite/database.h"
#include "db/writer_state.h"

namespace varifocal::db {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

namespace {

constexpr char kInsertExecution[] =
    "INSERT INTO executions (code_version, backend, instruction_set, device, host, thread_count, command_line, "
    "start_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

constexpr char kFindModel[] =
    "SELECT model_id FROM models WHERE name IS ? AND architecture IS ? AND weights_sha256 IS ? AND tokenizer_sha256 IS "
    "? AND dtype IS ? AND attention_json IS ? AND context_length_max IS ? AND trained_context_length IS ?"
    " AND parameter_count IS ? AND training_arm IS ? AND training_seed IS ? AND training_tokens IS ?"
    " AND function_json IS ?";
constexpr char kInsertModel[] =
    "INSERT INTO models (name, architecture, weights_sha256, tokenizer_sha256, dtype, attention_json, "
    "context_length_max,"
    " trained_context_length, parameter_count, training_arm, training_seed, training_tokens, function_json,"
    " function_sha256, focal_temperature_json)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?6 -> '$.focal_attention.temperature')";

// The job beside which one of the given specification may not be: of the two one is a shard. A shard is the first job of its
// database, so that the others need not be read.
constexpr char kFindShard[] =
    "SELECT job_id FROM (SELECT job_id, spec_json FROM jobs ORDER BY job_id LIMIT 1)"
    " WHERE spec_json -> '$.shard' IS NOT NULL OR ? -> '$.shard' IS NOT NULL";
constexpr char kFindRequest[] = "SELECT job_id, body_sha256 FROM jobs WHERE request_id = ?";
constexpr char kFindBody[] = "SELECT job_id FROM jobs WHERE body_sha256 = ? ORDER BY job_id DESC";
constexpr char kInsertJob[] =
    "INSERT INTO jobs (job_id, suite, spec_json, spec_sha256, data_seed, request_id, body_sha256, state, error, "
    "create_us, start_us, end_us) SELECT max(coalesce((SELECT max(job_id) FROM jobs), 0),"
    " coalesce((SELECT max(job_id) FROM deleted_jobs), 0)) + 1, ?, ?, ?, ?, ?, ?, 'queued', NULL, ?, NULL, NULL";
constexpr char kInsertVariant[] =
    "INSERT INTO variants (job_id, variant_index, name, model_id, focal_temperature_json) VALUES (?, ?, ?, ?, ?)";
constexpr char kSetModel[] =
    "UPDATE variants SET model_id = ? WHERE job_id = ? AND name = ?"
    " AND model_id IN (SELECT model_id FROM models WHERE function_json IS NULL)";
constexpr char kInsertMetric[] =
    "INSERT INTO task_metrics (job_id, task, metric, metric_index, is_binary, worst_value, best_value)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)";
constexpr char kInsertCell[] =
    "INSERT INTO cells (variant_id, task, context_length, planned_count)"
    " SELECT variant_id, ?, ?, ? FROM variants WHERE job_id = ? AND name = ?";

constexpr char kCellPlace[] =
    "SELECT variants.job_id, cells.task, cells.context_length, cells.planned_count, models.tokenizer_sha256"
    " FROM cells JOIN variants ON variants.variant_id = cells.variant_id"
    " JOIN models ON models.model_id = variants.model_id WHERE cells.cell_id = ?";
constexpr char kMetricsOfTask[] =
    "SELECT metric FROM task_metrics WHERE job_id = ? AND task = ? AND metric NOT GLOB 'imported/*' ORDER BY "
    "metric_index";

constexpr char kAnsweredCell[] =
    "SELECT cells.task, cells.context_length FROM generations JOIN cells ON cells.cell_id = generations.cell_id"
    " JOIN variants ON variants.variant_id = cells.variant_id"
    " WHERE generations.generation_id = ? AND variants.job_id = ? AND variants.name = ? AND generations.error_code IS "
    "NULL";
constexpr char kInsertImportedMetric[] =
    "INSERT OR IGNORE INTO task_metrics (job_id, task, metric, metric_index, is_binary, worst_value, best_value)"
    " SELECT job_id, task, ?, max(metric_index) + 1, 0, 0.0, 1.0 FROM task_metrics WHERE job_id = ? AND task = ?"
    " GROUP BY job_id, task";
constexpr char kReplaceScore[] =
    "INSERT INTO scores (generation_id, metric, value) VALUES (?, ?, ?)"
    " ON CONFLICT (generation_id, metric) DO UPDATE SET value = excluded.value";
constexpr char kInsertScoreImport[] =
    "INSERT INTO score_imports (job_id, variant, metric, source, source_sha256, value_count, import_us, import_id,"
    " cells_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
constexpr char kLastImportOfCell[] =
    "SELECT import_id FROM score_imports WHERE job_id = ?1 AND variant = ?2 AND metric = ?3 AND (cells_json IS NULL OR"
    " EXISTS (SELECT 1 FROM json_each(cells_json) WHERE value = json_array(?4, ?5)))"
    " ORDER BY score_import_id DESC LIMIT 1";
constexpr char kRemoveScoresOfCell[] =
    "DELETE FROM scores WHERE metric = ?3 AND generation_id IN (SELECT generation_id FROM generations"
    " JOIN cells USING (cell_id) JOIN variants USING (variant_id)"
    " WHERE variants.job_id = ?1 AND variants.name = ?2 AND cells.task = ?4 AND cells.context_length = ?5)";

constexpr char kFindSample[] =
    "SELECT sample_id, token_ids_sha256, question_id FROM samples WHERE job_id = ? AND task = ? AND context_length = ?"
    " AND sample_index = ? AND tokenizer_sha256 = ?";
constexpr char kInsertSample[] =
    "INSERT INTO samples (job_id, task, context_length, sample_index, tokenizer_sha256, question_id, cluster, row_id,"
    " token_ids_sha256, prompt_token_count, new_token_count_max, gold_json, continuations_json, evidence_json,"
    " truncation_json, excerpt, prompt, epoch, depth) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
    " json_extract(?14, '$[0].token_begin') * 1.0 / ?10)";
constexpr char kUpdateSample[] =
    "UPDATE samples SET question_id = ?, cluster = ?, row_id = ?, token_ids_sha256 = ?, prompt_token_count = ?,"
    " new_token_count_max = ?, gold_json = ?, continuations_json = ?, evidence_json = ?, truncation_json = ?, excerpt "
    "= ?, prompt = ?, depth = json_extract(?9, '$[0].token_begin') * 1.0 / ?5 WHERE sample_id = ?";
constexpr char kFindGeneration[] =
    "SELECT generation_id, error_code, attempt_count FROM generations WHERE cell_id = ? AND sample_id = ?";
constexpr char kDeleteGeneration[] = "DELETE FROM generations WHERE generation_id = ?";
constexpr char kInsertGeneration[] =
    "INSERT INTO generations (cell_id, sample_id, execution_id, attempt_count, record_us, finish_reason, answer_raw,"
    " answer, log_likelihoods_json, new_token_count, cached_token_count, queue_us, prefill_us, decode_us, "
    "tau_low_share, tau_high_share, pairs_visible_share, largest_group_share, is_extrapolated, error_code, "
    "error_message, thinking_state, thinking_token_count, is_thinking_forced)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
constexpr char kInsertAttentionHead[] =
    "INSERT INTO attention_heads (generation_id, layer, head, scale, entropy, largest_weight, first_mass, "
    "evidence_mass, distractor_mass, question_mass, strip) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
constexpr char kInsertScore[] = "INSERT INTO scores (generation_id, metric, value) VALUES (?, ?, ?)";

absl::StatusOr<int64_t> ModelId(Database& database, const ModelRecord& model) {
  ASSIGN_OR_RETURN(
      std::optional<int64_t> found,
      database.QueryInt(kFindModel, model.name, model.architecture, model.weights_sha256, model.tokenizer_sha256,
                        model.dtype, model.attention_json, model.context_length_max, model.trained_context_length,
                        model.parameter_count, model.training_arm, model.training_seed, model.training_tokens,
                        model.function_json));
  if (found.has_value()) return *found;
  std::optional<std::string> function_sha256;
  if (model.function_json.has_value()) function_sha256 = Sha256Hex(*model.function_json);
  RETURN_IF_ERROR(database.Run(kInsertModel, model.name, model.architecture, model.weights_sha256,
                               model.tokenizer_sha256, model.dtype, model.attention_json, model.context_length_max,
                               model.trained_context_length, model.parameter_count, model.training_arm,
                               model.training_seed, model.training_tokens, model.function_json, function_sha256));
  return database.LastInsertId();
}

struct CellPlace {
  int64_t job_id = 0;
  std::string task;
  int64_t context_length = 0;
  int64_t planned_count = 0;
  std::string tokenizer_sha256;
};

absl::StatusOr<CellPlace> FindCell(Database& database, int64_t cell_id) {
  ASSIGN_OR_RETURN(Statement statement, database.Prepare(kCellPlace));
  ASSIGN_OR_RETURN(bool row, statement.BindAll(cell_id).Step());
  if (!row) return NotFound("no cell ", cell_id);
  return CellPlace{statement.Int(0), statement.Text(1), statement.Int(2), statement.Int(3), statement.Text(4)};
}

std::optional<std::string> NullIfEmpty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// The outcome must match its cell: same task, length and tokenizer, and one finite score per metric, or an error and no
// scores.
absl::Status CheckOutcome(Database& database, const CellPlace& cell, const Outcome& outcome) {
  const SampleRecord& sample = outcome.sample;
  const std::string name =
      absl::StrCat("sample ", sample.sample_index, " of task ", sample.task, " at ", sample.context_length, " tokens");
  if (sample.task != cell.task || sample.context_length != cell.context_length) {
    return InvalidArgument(name, " does not belong to cell ", outcome.cell_id, ", which is ", cell.task, " at ",
                           cell.context_length);
  }
  if (sample.sample_index < 0 || sample.sample_index >= cell.planned_count) {
    return InvalidArgument(name, " is beyond the ", cell.planned_count, " planned samples");
  }
  if (sample.tokenizer_sha256 != cell.tokenizer_sha256) {
    return InvalidArgument(name, " was made with tokenizer ", sample.tokenizer_sha256, ", but the variant's model has ",
                           cell.tokenizer_sha256);
  }
  std::set<std::string> wanted;
  if (outcome.generation.error_code.empty()) {
    const auto add = [&](const Statement& row) { wanted.insert(row.Text(0)); };
    RETURN_IF_ERROR(EachRow(database, kMetricsOfTask, add, cell.job_id, cell.task));
  }
  std::set<std::string> given;
  for (const ScoreRecord& score : outcome.scores) {
    if (!std::isfinite(score.value)) return InvalidArgument(name, ": the score ", score.metric, " is not finite");
    given.insert(score.metric);
  }
  // The gold answer is not scored where the answers were imported, or where it is longer than may be generated.
  std::erase_if(
      wanted, [&](const std::string& metric) { return absl::StartsWith(metric, "gold/") && !given.contains(metric); });
  if (given != wanted || given.size() != outcome.scores.size()) {
    return InvalidArgument(name, " has scores [", absl::StrJoin(given, ", "), "] and needs [",
                           absl::StrJoin(wanted, ", "), "]");
  }
  return absl::OkStatus();
}

// Finds the row of the question, completes it (an earlier attempt had no prompt) or inserts it.
absl::StatusOr<int64_t> SampleId(Database& database, int64_t job_id, const SampleRecord& sample) {
  ASSIGN_OR_RETURN(Statement find, database.Prepare(kFindSample));
  ASSIGN_OR_RETURN(
      bool is_known,
      find.BindAll(job_id, sample.task, sample.context_length, sample.sample_index, sample.tokenizer_sha256).Step());
  if (!is_known) {
    RETURN_IF_ERROR(database.Run(kInsertSample, job_id, sample.task, sample.context_length, sample.sample_index,
                                 sample.tokenizer_sha256, sample.question_id, sample.cluster, sample.row_id,
                                 sample.token_ids_sha256, sample.prompt_token_count, sample.new_token_count_max,
                                 sample.gold_json, sample.continuations_json, sample.evidence_json,
                                 sample.truncation_json, sample.excerpt, sample.prompt, sample.epoch));
    return database.LastInsertId();
  }
  const int64_t sample_id = find.Int(0);
  const std::optional<std::string> earlier = find.OptionalText(1);
  if (!sample.token_ids_sha256.has_value()) return sample_id;
  if (!earlier.has_value()) {
    RETURN_IF_ERROR(database.Run(kUpdateSample, sample.question_id, sample.cluster, sample.row_id,
                                 sample.token_ids_sha256, sample.prompt_token_count, sample.new_token_count_max,
                                 sample.gold_json, sample.continuations_json, sample.evidence_json,
                                 sample.truncation_json, sample.excerpt, sample.prompt, sample_id));
    return sample_id;
  }
  if (*earlier != *sample.token_ids_sha256 || find.Text(2) != sample.question_id) {
    return FailedPrecondition("sample ", sample.sample_index, " of task ", sample.task, " at ", sample.context_length,
                              " tokens has another prompt than before (ids hash ", *sample.token_ids_sha256,
                              ", recorded ", *earlier, "): the task changed since the job began");
  }
  return sample_id;
}

// Within the caller's transaction.
absl::StatusOr<RecordResult> InsertOutcome(Database& database, const Outcome& outcome, int64_t now_us) {
  ASSIGN_OR_RETURN(CellPlace cell, FindCell(database, outcome.cell_id));
  RETURN_IF_ERROR(CheckOutcome(database, cell, outcome));
  ASSIGN_OR_RETURN(int64_t sample_id, SampleId(database, cell.job_id, outcome.sample));

  RecordResult result = RecordResult::kRecorded;
  int64_t attempt_count = std::max<int64_t>(1, outcome.attempt_count);
  {
    ASSIGN_OR_RETURN(Statement find, database.Prepare(kFindGeneration));
    ASSIGN_OR_RETURN(bool is_known, find.BindAll(outcome.cell_id, sample_id).Step());
    if (is_known) {
      if (find.IsNull(1)) return RecordResult::kAlreadyAnswered;
      result = RecordResult::kReplacedFailure;
      attempt_count += find.Int(2);
      // A failed row has no scores that could refer to it.
      RETURN_IF_ERROR(database.Run(kDeleteGeneration, find.Int(0)));
    }
  }
  const GenerationRecord& generation = outcome.generation;
  const bool failed = !generation.error_code.empty();
  RETURN_IF_ERROR(database.Run(
      kInsertGeneration, outcome.cell_id, sample_id, outcome.execution_id, attempt_count, now_us,
      failed ? std::nullopt : std::optional(generation.finish_reason), failed ? std::nullopt : generation.answer_raw,
      failed ? std::nullopt : generation.answer, generation.log_likelihoods_json, generation.new_token_count,
      generation.cached_token_count, generation.queue_us, generation.prefill_us, generation.decode_us,
      generation.tau_low_share, generation.tau_high_share, generation.pairs_visible_share,
      generation.largest_group_share, generation.is_extrapolated, NullIfEmpty(generation.error_code),
      failed ? std::optional(generation.error_message) : std::nullopt, generation.thinking_state,
      generation.thinking_token_count, generation.is_thinking_forced));
  const int64_t generation_id = database.LastInsertId();
  for (const ScoreRecord& score : outcome.scores) {
    RETURN_IF_ERROR(database.Run(kInsertScore, generation_id, score.metric, score.value));
  }
  for (const AttentionHeadRecord& head : outcome.attention) {
    RETURN_IF_ERROR(database.Run(kInsertAttentionHead, generation_id, head.layer, head.head, head.scale, head.entropy,
                                 head.largest_weight, head.first_mass, head.evidence_mass, head.distractor_mass,
                                 head.question_mass, head.strip));
  }
  RETURN_IF_ERROR(database.Run(kForgetStarts, cell.job_id));
  return result;
}

// A new database is readable by its owner only: it contains prompts and answers. SQLite creates the files beside it
// with the same mode. Failures are reported when SQLite opens the file.
void MakePrivateFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
}

}  // namespace

Writer::Writer(std::unique_ptr<WriterState> state) : state_(std::move(state)) {}
Writer::~Writer() = default;

absl::StatusOr<std::unique_ptr<Writer>> Writer::Open(const std::string& path, const Clock& clock, int busy_timeout_ms) {
  RETURN_IF_ERROR(CheckFile(path, /*may_create=*/true));
  ASSIGN_OR_RETURN(WriterLock lock, WriterLock::Take(path));
  if (CheckFile(path, /*may_create=*/false).ok()) {
    // Check before modifying: a refused file is left unchanged. Only a rollback journal, left by a process that was
    // killed while creating the file, must be rolled back before anything can be read.
    const bool has_journal = access((path + "-journal").c_str(), F_OK) == 0;
    ASSIGN_OR_RETURN(std::unique_ptr<Database> look,
                     Database::Open(path, {.read_only = !has_journal, .keep_as_it_is = true}));
    absl::Status schema = CheckSchema(*look);
    ASSIGN_OR_RETURN(std::optional<int64_t> table_count, look->QueryInt("SELECT count(*) FROM sqlite_schema"));
    if (*table_count > 0) RETURN_IF_ERROR(schema);
    RETURN_IF_ERROR(look->QuickCheck());
  }
  MakePrivateFile(path);
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database, Database::Open(path, {.busy_timeout_ms = busy_timeout_ms}));
  RETURN_IF_ERROR(MigrateSchema(*database));
  return std::unique_ptr<Writer>(
      new Writer(std::make_unique<WriterState>(std::move(lock), std::move(database), clock)));
}

absl::StatusOr<int64_t> Writer::AddExecution(const ExecutionRecord& execution) {
  MutexLock hold(state_->mutex);
  Database& database = *state_->database;
  RETURN_IF_ERROR(state_->CheckFiles());
  RETURN_IF_ERROR(database.Run(kInsertExecution, execution.code_version, execution.backend, execution.instruction_set,
                               execution.device, execution.host, execution.thread_count, execution.command_line,
                               state_->clock.WallMicros()));
  return database.LastInsertId();
}

absl::StatusOr<AddedJob> Writer::AddJob(const NewJob& job) {
  MutexLock hold(state_->mutex);
  Database& database = *state_->database;
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  if (job.request_id.has_value()) {
    ASSIGN_OR_RETURN(Statement find, database.Prepare(kFindRequest));
    ASSIGN_OR_RETURN(bool is_known, find.BindAll(*job.request_id).Step());
    if (is_known && (find.Text(1) == job.body_sha256 || find.Text(1) == Sha256Hex(job.spec_json))) {
      return AddedJob{find.Int(0), true};
    }
    if (is_known) {
      return InvalidArgument("request_id ", *job.request_id, " was used for job ", find.Int(0),
                             " with another request");
    }
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> other, database.QueryInt(kFindShard, job.spec_json));
  if (other.has_value()) {
    return WithReason(FailedPrecondition(
                          "the database has job ", *other,
                          " already; a shard has a database of its own, which `varifocal merge` joins with the others"),
                      ErrorReason::kBadJobSpec, {{"field", "spec.shard"}});
  }
  std::optional<std::string> body;
  if (job.request_id.has_value()) body = job.body_sha256;
  RETURN_IF_ERROR(database.Run(kInsertJob, job.suite, job.spec_json, Sha256Hex(job.spec_json), job.data_seed,
                               job.request_id, body, state_->clock.WallMicros()));
  const int64_t job_id = database.LastInsertId();
  for (size_t i = 0; i < job.variants.size(); ++i) {
    const VariantRecord& variant = job.variants[i];
    ASSIGN_OR_RETURN(int64_t model_id, ModelId(database, variant.model));
    RETURN_IF_ERROR(database.Run(kInsertVariant, job_id, static_cast<int64_t>(i), variant.name, model_id,
                                 variant.focal_temperature_json));
  }
  for (const TaskMetricRecord& metric : job.metrics) {
    RETURN_IF_ERROR(database.Run(kInsertMetric, job_id, metric.task, metric.metric, metric.metric_index,
                                 metric.is_binary, metric.worst_value, metric.best_value));
  }
  for (const CellRecord& cell : job.cells) {
    RETURN_IF_ERROR(
        database.Run(kInsertCell, cell.task, cell.context_length, cell.planned_count, job_id, cell.variant));
    if (database.ChangeCount() != 1) {
      return InvalidArgument("a cell names the variant ", cell.variant, ", which the job lacks");
    }
  }
  RETURN_IF_ERROR(state_->Commit(transaction));
  return AddedJob{job_id, false};
}

absl::StatusOr<std::optional<int64_t>> Writer::FindRequest(const std::string& request_id,
                                                           const std::string& body_sha256) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Statement find, state_->database->Prepare(kFindRequest));
  ASSIGN_OR_RETURN(const bool is_known, find.BindAll(request_id).Step());
  if (!is_known || find.Text(1) != body_sha256) return std::nullopt;
  return find.Int(0);
}

absl::StatusOr<std::vector<int64_t>> Writer::FindBody(const std::string& body_sha256) {
  MutexLock hold(state_->mutex);
  return AllRows(*state_->database, kFindBody, FirstInt, body_sha256);
}

absl::Status Writer::CheckResume(int64_t job_id, int64_t execution_id, const std::vector<VariantRecord>& variants,
                                 bool allow_mixed) {
  MutexLock hold(state_->mutex);
  return CheckMayResume(*state_->database, job_id, execution_id, variants, allow_mixed);
}

absl::Status Writer::RecordFunctions(int64_t job_id, const std::vector<VariantRecord>& variants) {
  MutexLock hold(state_->mutex);
  Database& database = *state_->database;
  ASSIGN_OR_RETURN(const std::vector<VariantRecord> recorded, ReadVariants(database, job_id));
  const bool is_any_missing = std::any_of(recorded.begin(), recorded.end(), [](const VariantRecord& variant) {
    return !variant.model.function_json.has_value();
  });
  if (!is_any_missing) return absl::OkStatus();
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  for (const VariantRecord& variant : variants) {
    if (!variant.model.function_json.has_value()) continue;
    ASSIGN_OR_RETURN(const int64_t model_id, ModelId(database, variant.model));
    RETURN_IF_ERROR(database.Run(kSetModel, model_id, job_id, variant.name));
  }
  return state_->Commit(transaction);
}

absl::StatusOr<std::vector<CellRow>> Writer::Cells(int64_t job_id) {
  MutexLock hold(state_->mutex);
  return ReadCells(*state_->database, job_id);
}

absl::StatusOr<std::vector<int64_t>> Writer::ReadPendingSamples(int64_t cell_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(CellPlace cell, FindCell(*state_->database, cell_id));
  return db::ReadPendingSamples(*state_->database, cell_id, cell.planned_count);
}

absl::StatusOr<RecordResult> Writer::RecordSample(const Outcome& outcome) {
  ASSIGN_OR_RETURN(const std::vector<RecordResult> results, RecordSamples(absl::MakeConstSpan(&outcome, 1)));
  return results[0];
}

absl::StatusOr<std::vector<RecordResult>> Writer::RecordSamples(absl::Span<const Outcome> outcomes) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  std::vector<RecordResult> results;
  for (const Outcome& outcome : outcomes) {
    ASSIGN_OR_RETURN(const RecordResult result, InsertOutcome(*state_->database, outcome, state_->clock.WallMicros()));
    results.push_back(result);
  }
  RETURN_IF_ERROR(state_->Commit(transaction));
  return results;
}

absl::Status Writer::ImportScores(int64_t job_id, const std::vector<ScoreImport>& imports) {
  MutexLock hold(state_->mutex);
  Database& database = *state_->database;
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  for (const ScoreImport& import : imports) {
    if (!absl::StartsWith(import.metric, kImportedPrefix)) {
      return InvalidArgument("the metric ", import.metric, " must begin with ", kImportedPrefix);
    }
    std::set<std::pair<std::string, int64_t>> cells;  // task and context length
    for (const ScoreImport::Value& value : import.values) {
      if (!(value.value >= 0 && value.value <= 1)) {
        return InvalidArgument("a score of ", import.metric, " is ", value.value, "; it must be from 0 to 1");
      }
      ASSIGN_OR_RETURN(Statement find, database.Prepare(kAnsweredCell));
      ASSIGN_OR_RETURN(bool is_answered, find.BindAll(value.generation_id, job_id, import.variant).Step());
      if (!is_answered) {
        return InvalidArgument("generation ", value.generation_id, " is no answer of ", import.variant, " in job ",
                               job_id);
      }
      cells.emplace(find.Text(0), find.Int(1));
    }
    for (const auto& [task, length] : cells) {
      std::optional<std::string> last;
      {
        ASSIGN_OR_RETURN(Statement find, database.Prepare(kLastImportOfCell));
        ASSIGN_OR_RETURN(bool is_there, find.BindAll(job_id, import.variant, import.metric, task, length).Step());
        if (is_there) last = find.OptionalText(0);
      }
      if (last != import.import_id)
        RETURN_IF_ERROR(database.Run(kRemoveScoresOfCell, job_id, import.variant, import.metric, task, length));
      RETURN_IF_ERROR(database.Run(kInsertImportedMetric, import.metric, job_id, task));
    }
    for (const ScoreImport::Value& value : import.values)
      RETURN_IF_ERROR(database.Run(kReplaceScore, value.generation_id, import.metric, value.value));
    ASSIGN_OR_RETURN(const std::string cells_json, DumpJson(Json(cells)));
    RETURN_IF_ERROR(database.Run(kInsertScoreImport, job_id, import.variant, import.metric, import.source,
                                 import.source_sha256, std::ssize(import.values), state_->clock.WallMicros(),
                                 import.import_id, cells_json));
  }
  return state_->Commit(transaction);
}

absl::Status Writer::CheckFiles() const { return state_->CheckFiles(); }

absl::Status Writer::Checkpoint() {
  MutexLock hold(state_->mutex);
  return state_->database->Checkpoint();
}

}  // namespace varifocal::db
