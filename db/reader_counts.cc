// What Reader counts and averages over answers.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "db/answer_kinds.h"
#include "db/reader.h"
#include "db/reader_state.h"
#include "db/refusal.h"
#include "db/rows.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

using sqlite::Database;
using sqlite::Statement;

namespace {

// With the prefix of answers that scored below the best value, for IsRefusal. Testing prefixes in SQL dominated the time of a
// report.
constexpr char kSelectForCounts[] =
    "SELECT variants.name, cells.task, cells.context_length, generations.error_code IS NULL,"
    " generations.error_code IS NULL AND generations.log_likelihoods_json IS NULL"
    " AND coalesce(generations.answer, '') = '',"  // answers are stored without white space at the ends
    " CASE WHEN generations.error_code IS NULL AND generations.log_likelihoods_json IS NULL"
    " AND coalesce(scores.value <> task_metrics.best_value, TRUE)"
    " THEN substr(generations.answer, 1, 40) END,"
    " generations.finish_reason IS 'length', generations.error_code IS NULL AND generations.is_extrapolated,"
    " generations.error_code IS NULL AND samples.truncation_json IS NOT NULL, cells.cell_id,"
    " samples.question_id, ";
// Of answers; a file of an earlier schema version has none. Whether a block was scored is read from the start of the text.
constexpr char kThinkingOfCounts[] =
    "generations.thinking_state, generations.is_thinking_forced,"
    " CASE WHEN generations.thinking_state IS NULL THEN "
    " substr(ltrim(generations.answer_raw, ' ' || char(9, 10, 13)), 1, 32) END";
constexpr char kNoThinkingOfCounts[] = "NULL, NULL, NULL";

// An answer's text with nothing after its last thinking block: it ends with the end marker, or with what was forced.
constexpr char kNoTextAfterThinking[] =
    " AND NOT (generations.thinking_state IN ('closed', 'empty', 'nested', 'repeated') AND EXISTS ("
    "SELECT 1 FROM (SELECT rtrim(generations.answer_raw, ' ' || char(9, 10, 11, 12, 13)) AS text,"
    " rtrim(json_extract(json_extract(jobs.spec_json, '$.thinking_markers.\"' || variants.name || '\"'), '$[1]') || CASE"
    " WHEN generations.is_thinking_forced THEN coalesce(jobs.spec_json ->> '$.suite.thinking.answer_prefix', '')"
    " ELSE '' END, ' ' || char(9, 10, 11, 12, 13)) AS ending FROM jobs WHERE jobs.job_id = variants.job_id)"
    " WHERE substr(text, -length(ending)) = ending))";

// Whether the filters of its task left nothing of an answer's text.
constexpr char kExtractionOfCounts[] =
    ", CASE WHEN generations.answer = '' AND generations.log_likelihoods_json IS NULL"
    " AND trim(generations.answer_raw, ' ' || char(9, 10, 11, 12, 13)) <> ''";
constexpr char kFiltersOfCounts[] =
    " THEN EXISTS ("
    "SELECT 1 FROM jobs, json_each(jobs.spec_json, '$.suite.tasks') AS tasks WHERE jobs.job_id = variants.job_id"
    " AND tasks.value ->> '$.name' = cells.task AND tasks.value -> '$.filters' IS NOT NULL) END, generations.generation_id";

constexpr char kSelectThinkingCosts[] =
    "SELECT variants.name, cells.task, cells.context_length, count(*), avg(generations.thinking_token_count),"
    " avg(generations.new_token_count - generations.thinking_token_count),"
    " coalesce(sum((scores.value - task_metrics.worst_value) / (task_metrics.best_value - task_metrics.worst_value)), 0),"
    " sum(generations.new_token_count)"
    " FROM variants JOIN cells ON cells.variant_id = variants.variant_id"
    " JOIN generations ON generations.cell_id = cells.cell_id"
    " JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task"
    " AND task_metrics.metric_index = 0"
    " LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric"
    " WHERE variants.job_id = ? AND generations.thinking_state IS NOT NULL"
    " GROUP BY cells.cell_id ORDER BY cells.cell_id";

// Not by v_scores_by_length, which aggregates all jobs of the file before one is chosen.
constexpr char kSelectMeansByLength[] =
    "SELECT variant, context_length, avg((mean - worst) / (best - worst)), sum(recorded), sum(planned) FROM ("
    "SELECT variants.variant_index AS variant_index, variants.name AS variant, cells.context_length AS context_length,"
    " cells.planned_count AS planned, metrics.worst_value AS worst, metrics.best_value AS best,"
    " avg(CASE WHEN generations.error_code IS NULL THEN scores.value ELSE metrics.worst_value END) AS mean,"
    " count(generations.generation_id) AS recorded"
    " FROM variants JOIN cells ON cells.variant_id = variants.variant_id"
    " JOIN task_metrics AS metrics ON metrics.job_id = variants.job_id AND metrics.task = cells.task"
    " AND metrics.metric_index = 0 AND metrics.worst_value <> metrics.best_value"
    " LEFT JOIN generations ON generations.cell_id = cells.cell_id"
    " LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = metrics.metric"
    " WHERE variants.job_id = ? GROUP BY cells.cell_id)"
    " GROUP BY variant_index, context_length ORDER BY variant_index, context_length";

constexpr char kSelectPromptCounts[] =
    "SELECT task, context_length, count(*), count(prompt_token_count), coalesce(min(prompt_token_count), 0),"
    " coalesce(max(prompt_token_count), 0), coalesce(max(prompt_token_count + new_token_count_max), 0),"
    " coalesce(sum(prompt_token_count + new_token_count_max >= ? * context_length), 0) FROM samples"
    " WHERE job_id = ? GROUP BY task, context_length ORDER BY task, context_length";
constexpr char kSelectPromptHashes[] =
    "SELECT DISTINCT token_ids_sha256 FROM samples WHERE job_id = ? AND task = ? AND context_length = ?"
    " AND token_ids_sha256 IS NOT NULL ORDER BY token_ids_sha256";

constexpr char kSelectGroupShares[] =
    "SELECT variants.name, cells.task, cells.context_length, count(*), avg(generations.pairs_visible_share),"
    " avg(generations.largest_group_share)"
    " FROM generations JOIN cells ON cells.cell_id = generations.cell_id"
    " JOIN variants ON variants.variant_id = cells.variant_id"
    " WHERE variants.job_id = ? AND generations.pairs_visible_share IS NOT NULL"
    " GROUP BY cells.cell_id ORDER BY cells.cell_id";

constexpr char kSelectAttentionMeans[] =
    "SELECT variants.name, cells.task, cells.context_length, a.layer, a.head, count(*), avg(a.scale), avg(a.entropy),"
    " avg(a.largest_weight), avg(a.first_mass), avg(a.evidence_mass), avg(a.distractor_mass), avg(a.question_mass),"
    " avg(CASE WHEN scores.value = task_metrics.best_value THEN a.evidence_mass END),"
    " avg(CASE WHEN scores.value <> task_metrics.best_value THEN a.evidence_mass END)"
    " FROM attention_heads AS a JOIN generations ON generations.generation_id = a.generation_id"
    " JOIN cells ON cells.cell_id = generations.cell_id"
    " JOIN variants ON variants.variant_id = cells.variant_id"
    " JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task"
    " AND task_metrics.metric_index = 0"
    " LEFT JOIN scores ON scores.generation_id = a.generation_id AND scores.metric = task_metrics.metric"
    " WHERE variants.job_id = ? GROUP BY cells.cell_id, a.layer, a.head ORDER BY cells.cell_id, a.layer, a.head";

// Of a row of kSelectForCounts.
uint32_t KindsOf(const Statement& row) {
  const bool is_unfinished = row.Text(11) == "unfinished";
  const bool is_unextracted = !row.IsNull(14) && row.Int(14) != 0 && !is_unfinished;
  return (row.Int(4) != 0 && !is_unfinished && !is_unextracted ? kEmptyAnswer : 0) |
         (is_unextracted ? kNothingExtracted : 0) | (!row.IsNull(5) && IsRefusal(row.Text(5)) ? kRefusedAnswer : 0) |
         (row.Int(6) != 0 && !is_unfinished ? kCutAnswer : 0) | (row.Int(8) != 0 ? kTruncatedPrompt : 0) |
         (is_unfinished ? kUnfinishedThinking : 0) | (BeginsWithThinking(row.Text(13)) ? kScoredThinking : 0);
}

absl::StatusOr<bool> HasThinking(Database& database) {
  ASSIGN_OR_RETURN(
      const std::optional<int64_t> column_count,
      database.QueryInt("SELECT count(*) FROM pragma_table_info('generations') WHERE name = 'thinking_state'"));
  return *column_count > 0;
}

absl::StatusOr<std::string> SelectForCounts(Database& database) {
  ASSIGN_OR_RETURN(const bool has_thinking, HasThinking(database));
  return absl::StrCat(kSelectForCounts, has_thinking ? kThinkingOfCounts : kNoThinkingOfCounts, kExtractionOfCounts,
                      has_thinking ? kNoTextAfterThinking : "", kFiltersOfCounts, kFromAnswers);
}

}  // namespace

absl::StatusOr<std::vector<GroupSharesRow>> Reader::GroupShares(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::optional<int64_t> column_count,
                   state_->database->QueryInt(
                       "SELECT count(*) FROM pragma_table_info('generations') WHERE name = 'pairs_visible_share'"));
  if (*column_count == 0) return std::vector<GroupSharesRow>();
  const auto convert = [](const Statement& row) {
    return GroupSharesRow{row.Text(0), row.Text(1), row.Int(2), row.Int(3), row.Real(4), row.OptionalReal(5)};
  };
  return AllRows(*state_->database, kSelectGroupShares, convert, job_id);
}

absl::StatusOr<std::vector<AttentionMeansRow>> Reader::AttentionMeans(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::optional<int64_t> table_count, state_->database->QueryInt(kCountAttentionHeads));
  if (*table_count == 0) return std::vector<AttentionMeansRow>();
  const auto convert = [](const Statement& row) {
    return AttentionMeansRow{row.Text(0),          row.Text(1),          row.Int(2),           row.Int(3),
                             row.Int(4),           row.Int(5),           row.Real(6),          row.Real(7),
                             row.Real(8),          row.Real(9),          row.OptionalReal(10), row.OptionalReal(11),
                             row.OptionalReal(12), row.OptionalReal(13), row.OptionalReal(14)};
  };
  return AllRows(*state_->database, kSelectAttentionMeans, convert, job_id);
}

absl::StatusOr<std::vector<LengthMeanRow>> Reader::MeansByLength(int64_t job_id) {
  MutexLock hold(state_->mutex);
  const auto convert = [](const Statement& row) {
    return LengthMeanRow{row.Text(0), row.Int(1), row.OptionalReal(2), row.Int(3), row.Int(4)};
  };
  return AllRows(*state_->database, kSelectMeansByLength, convert, job_id);
}

absl::StatusOr<std::vector<AnswerCounts>> Reader::CountAnswers(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::string select, SelectForCounts(*state_->database));
  std::vector<AnswerCounts> counts;
  int64_t cell_id = 0;
  const auto add = [&](const Statement& row) {
    if (counts.empty() || row.Int(9) != cell_id) {
      cell_id = row.Int(9);
      counts.push_back({row.Text(0), row.Text(1), row.Int(2)});
    }
    AnswerCounts& cell = counts.back();
    ++(row.Int(3) != 0 ? cell.answered_count : cell.failed_count);
    cell.extrapolated_count += row.Int(7);
    const std::string state = row.Text(11);
    cell.empty_block_count += state == "empty";
    cell.nested_count += state == "nested";
    cell.repeated_count += state == "repeated";
    cell.forced_count += row.Int(12) != 0;
    const uint32_t kinds = KindsOf(row);
    for (const AnswerKind& kind : kAnswerKinds) cell.*kind.count += (kinds & kind.mark) != 0;
  };
  RETURN_IF_ERROR(EachRow(*state_->database, absl::StrCat(select, " ORDER BY cells.cell_id"), add, job_id));
  return counts;
}

absl::StatusOr<std::vector<ThinkingCostRow>> Reader::ThinkingCosts(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const bool has_thinking, HasThinking(*state_->database));
  if (!has_thinking) return std::vector<ThinkingCostRow>();
  const auto convert = [](const Statement& row) {
    ThinkingCostRow cost{row.Text(0), row.Text(1), row.Int(2), row.Int(3), row.Real(4), row.Real(5), row.Real(6), {}};
    if (cost.right_count > 0) cost.tokens_per_right = row.Int(7) / cost.right_count;
    return cost;
  };
  return AllRows(*state_->database, kSelectThinkingCosts, convert, job_id);
}

absl::StatusOr<std::vector<PromptCountsRow>> Reader::CountPrompts(int64_t job_id, double reached_share) {
  MutexLock hold(state_->mutex);
  const auto convert = [](const Statement& row) {
    return PromptCountsRow{row.Text(0), row.Int(1), row.Int(2), row.Int(3),
                           row.Int(4),  row.Int(5), row.Int(6), row.Int(7)};
  };
  return AllRows(*state_->database, kSelectPromptCounts, convert, reached_share, job_id);
}

absl::StatusOr<std::vector<std::string>> Reader::PromptHashes(int64_t job_id, const std::string& task,
                                                              int64_t context_length) {
  MutexLock hold(state_->mutex);
  return AllRows(*state_->database, kSelectPromptHashes, FirstText, job_id, task, context_length);
}

absl::Status Reader::EachMarkedAnswer(int64_t job_id, const std::string& variant,
                                      const std::function<absl::Status(MarkedAnswerRow)>& use) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::string select, SelectForCounts(*state_->database));
  const auto use_marked = [&](const Statement& row) {
    const uint32_t kinds = KindsOf(row);
    return kinds == 0 ? absl::OkStatus() : use({row.Text(1), row.Int(2), row.Text(10), row.Int(15), kinds});
  };
  const std::string sql = absl::StrCat(select, " AND variants.name = ? ORDER BY cells.cell_id");
  return EachRow(*state_->database, sql, use_marked, job_id, variant);
}

}  // namespace varifocal::db
