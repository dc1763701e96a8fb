#include "server/jobs/database_sink.h"

#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/jobs/excerpt.h"

namespace varifocal {
namespace {

// Text of models and users: invalid UTF-8 is replaced, not refused.
std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string Strings(const std::vector<std::string>& values) { return Dump(Json(values)); }

db::SampleRecord ToSampleRecord(const SampleResult& record, bool keep_prompts) {
  const Sample& sample = *record.sample;
  db::SampleRecord row;
  row.task = record.cell.task;
  row.context_length = record.cell.context_length;
  row.sample_index = sample.index;
  row.epoch = sample.epoch;
  row.tokenizer_sha256 = sample.tokenizer_sha256;
  row.question_id = sample.question_id;
  row.cluster = sample.cluster;
  row.row_id = sample.row_id;
  row.new_token_count_max = sample.later_tokens_max();
  row.gold_json = Strings(sample.gold);
  if (sample.token_ids.empty()) return row;  // its prompt could not be built: identity only

  row.token_ids_sha256 = sample.TokenIdsSha256();
  row.prompt_token_count = sample.prompt_token_count();
  if (!sample.continuations.empty()) row.continuations_json = Strings(sample.continuations);
  Json spans = Json::array();
  for (const PromptSpan& span : sample.evidence) {
    spans.push_back({{"byte_begin", span.byte_begin},
                     {"byte_end", span.byte_end},
                     {"token_begin", span.token_begin},
                     {"token_end", span.token_end}});
  }
  row.evidence_json = Dump(spans);
  if (sample.truncation.cut_token_count > 0) {
    row.truncation_json = Dump(
        {{"cut_token_count", sample.truncation.cut_token_count}, {"gold_survived", sample.truncation.gold_survived}});
  }
  row.excerpt = MakeExcerpt(sample.prompt, sample.evidence);
  if (keep_prompts) row.prompt = sample.prompt;
  return row;
}

db::GenerationRecord ToGenerationRecord(const SampleResult& record) {
  db::GenerationRecord row;
  if (!record.error.ok()) {
    row.error_code = ReasonOf(record.error).name;
    row.error_message = std::string(record.error.message());
    return row;
  }
  VF_CHECK(record.generation.has_value());
  const Generation& generation = *record.generation;
  if (record.sample->continuations.empty()) {
    row.finish_reason = FinishReasonName(generation.finish_reason);
    row.answer_raw = generation.text;
    if (generation.thinking.has_value()) {
      row.thinking_state = ThinkingStateName(*generation.thinking);
      row.thinking_token_count = generation.thinking_token_count;
      row.is_thinking_forced = generation.is_thinking_forced;
    }
  } else {
    row.finish_reason = "scored";
    Json scores = Json::array();
    for (const ContinuationScore& score : generation.continuation_scores) {
      scores.push_back({{"is_greedy", score.is_greedy},
                        {"log_likelihood", score.log_likelihood},
                        {"token_count", score.token_count}});
    }
    row.log_likelihoods_json = Dump(scores);
  }
  row.answer = record.answer;
  row.new_token_count = generation.token_ids.empty() ? generation.new_token_count : std::ssize(generation.token_ids);
  row.cached_token_count = generation.cached_token_count;
  row.queue_us = generation.queue_us;
  row.prefill_us = generation.prefill_us;
  row.decode_us = generation.decode_us;
  row.tau_low_share = generation.tau_min_share;
  row.tau_high_share = generation.tau_max_share;
  row.pairs_visible_share = generation.pairs_visible_share;
  row.largest_group_share = generation.largest_group_share;
  row.is_extrapolated = generation.extrapolated;
  return row;
}

std::vector<db::AttentionHeadRecord> ToAttentionRecords(const std::vector<HeadInspection>& heads) {
  std::vector<db::AttentionHeadRecord> rows;
  for (const HeadInspection& head : heads) {
    rows.push_back({head.layer, head.head, head.scale, head.entropy, head.largest_weight, head.first_mass,
                    head.evidence_mass, head.distractor_mass, head.question_mass, head.strip});
  }
  return rows;
}

}  // namespace

db::Outcome ToOutcome(const SampleResult& record, int64_t cell_id, int64_t execution_id, bool keep_prompts) {
  db::Outcome outcome;
  outcome.cell_id = cell_id;
  outcome.execution_id = execution_id;
  outcome.sample = ToSampleRecord(record, keep_prompts);
  outcome.generation = ToGenerationRecord(record);
  outcome.attempt_count = record.attempt_count;
  for (const MetricValue& score : record.scores) outcome.scores.push_back({score.metric, score.value});
  if (record.error.ok() && record.generation.has_value())
    outcome.attention = ToAttentionRecords(record.generation->attention);
  return outcome;
}

absl::StatusOr<std::unique_ptr<DatabaseSink>> DatabaseSink::Create(db::Writer* writer, Options options) {
  auto sink = std::unique_ptr<DatabaseSink>(new DatabaseSink(writer, std::move(options)));
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> rows, writer->Cells(sink->options_.job_id));
  for (const db::CellRow& row : rows) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> pending, writer->ReadPendingSamples(row.cell_id));
    const CellKey key = {row.cell.variant, row.cell.task, static_cast<int>(row.cell.context_length)};
    Cell& cell = sink->cells_[key];
    cell.cell_id = row.cell_id;
    cell.is_pending.resize(row.cell.planned_count);
    for (const int64_t index : pending) cell.is_pending[index] = true;
  }
  return sink;
}

absl::StatusOr<bool> DatabaseSink::IsPending(const CellKey& cell, int index) {
  const auto found = cells_.find(cell);
  if (found == cells_.end()) {
    return FailedPrecondition("the job has no cell ", cell.variant, " x ", cell.task, " x ", cell.context_length,
                              " in the database: its grid has changed");
  }
  const std::vector<bool>& is_pending = found->second.is_pending;
  return index >= 0 && index < std::ssize(is_pending) && is_pending[index];
}

absl::StatusOr<db::Outcome> DatabaseSink::OutcomeOf(const SampleResult& record) const {
  const auto found = cells_.find(record.cell);
  VF_CHECK(found != cells_.end(), "IsPending comes first");
  const auto execution = options_.execution_ids.find(record.cell.variant);
  VF_CHECK(execution != options_.execution_ids.end(), "every variant has an execution");
  int64_t execution_id = execution->second;
  if (record.generation.has_value() && !record.generation->workers.empty()) {
    VF_CHECK(options_.execution_of_workers != nullptr, "a generation names workers");
    ASSIGN_OR_RETURN(execution_id, options_.execution_of_workers(record.cell.variant, record.generation->workers));
  }
  return ToOutcome(record, found->second.cell_id, execution_id, options_.keep_prompts);
}

absl::Status DatabaseSink::Write(absl::Span<const db::Outcome> outcomes) {
  for (int attempt_count = 1;; ++attempt_count) {
    const absl::Status written = writer_->RecordSamples(outcomes).status();
    const bool again = !written.ok() && db::IsBlocked(written) && options_.wait_to_retry &&
                       options_.wait_to_retry(written, attempt_count);
    if (!again) return written;
  }
}

absl::Status DatabaseSink::Record(absl::Span<const SampleResult> records) {
  std::vector<db::Outcome> outcomes;
  for (const SampleResult& record : records) {
    ASSIGN_OR_RETURN(db::Outcome outcome, OutcomeOf(record));
    outcomes.push_back(std::move(outcome));
  }
  const absl::Status written = Write(outcomes);
  if (!written.ok() && (db::IsBlocked(written) || records.size() == 1)) return written;
  for (size_t i = 0; i < records.size(); ++i) {
    // One of them cannot be stored; those before it are.
    if (!written.ok()) RETURN_IF_ERROR(Write(absl::MakeConstSpan(&outcomes[i], 1)));
    Recorded(records[i], outcomes[i]);
  }
  return absl::OkStatus();
}

void DatabaseSink::Recorded(const SampleResult& record, const db::Outcome& outcome) {
  cells_.at(record.cell).is_pending[record.sample->index] = false;
  if (options_.on_recorded) options_.on_recorded(record);
  const db::GenerationRecord& generation = outcome.generation;
  if (!record.error.ok()) {
    Log(LogLevel::kWarning, "sample_failed",
        {{"job", absl::StrCat("jobs/", options_.job_id)},
         {"variant", record.cell.variant},
         {"task", record.cell.task},
         {"length", record.cell.context_length},
         {"sample", record.sample->index},
         {"code", generation.error_code},
         {"message", generation.error_message}});
  } else {
    Log(LogLevel::kDebug, "sample_done",
        {{"job", absl::StrCat("jobs/", options_.job_id)},
         {"variant", record.cell.variant},
         {"task", record.cell.task},
         {"length", record.cell.context_length},
         {"sample", record.sample->index},
         {"prompt_tokens", outcome.sample.prompt_token_count.value_or(0)},
         {"cached_tokens", generation.cached_token_count},
         {"new_tokens", generation.new_token_count},
         {"prefill_us", generation.prefill_us},
         {"decode_us", generation.decode_us},
         {"score", record.scores.empty() ? 0.0 : record.scores[0].value}});
  }
}

}  // namespace varifocal
