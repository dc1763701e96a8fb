// Applies a step's results to its sequences; part of Scheduler.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/engine/scheduler.h"
#include "server/engine/thinking.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

using kernels::HeadResult;
using kernels::kPageTokens;

absl::Status CheckFinite(std::span<const HeadResult> head, int64_t position) {
  for (const HeadResult& result : head) {
    if (!result.finite) {
      return WithReason(
          DataLoss("NUMERIC_ERROR: logits at or after position ", position, " contain a value that is not finite"),
          ErrorReason::kNumericError);
    }
  }
  return absl::OkStatus();
}

}  // namespace

void Scheduler::Apply(const StepPlan& plan, const ForwardOutput& output) {
  const Sequence* ended = nullptr;  // entries of one sequence are adjacent
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const StepEntry& entry = plan.entries[i];
    if (entry.sequence == ended) continue;
    Sequence& sequence = *entry.sequence;
    // A generation's shares are of its own rows, with and without scored continuations.
    const bool is_aside =
        sequence.generate() != nullptr && !sequence.prompt_finished && sequence.rows_done == sequence.prompt_length();
    if (!is_aside) {
      sequence.tau_at_min_count += output.tau_bound_counts[2 * i];
      sequence.tau_at_max_count += output.tau_bound_counts[2 * i + 1];
      sequence.tau_row_count += entry.row_count * AttentionLayerCount(model_.config());
    }

    const auto head = std::span(output.head).subspan(entry.logits_begin, entry.logits_count);
    absl::Status status = CheckFinite(head, plan.forward_sequences[i].first_position);
    if (status.ok() && !sequence.prompt_finished) {
      status = ApplyPrefill(entry, head);
    } else if (status.ok()) {
      status = ApplyDecode(entry, head);
    }
    if (!status.ok() || IsFinished(sequence)) {
      ended = &sequence;
      Finish(&sequence, std::move(status));
    } else {
      store_.ReleaseOutsideWindow(sequence.rows_done, sequence.pages);
    }
  }
  if (is_timing_) return;
  ++totals_.step_count;
  totals_.step_us += clock_.MonotonicMicros() - step_begin_us_;
}

absl::Status Scheduler::ApplyPrefill(const StepEntry& entry, std::span<const HeadResult> head) {
  Sequence& sequence = *entry.sequence;
  const int64_t length = sequence.prompt_length();
  if (sequence.rows_done < length) {
    RETURN_IF_ERROR(ApplyPrompt(entry, head));
  } else {
    ApplyContinuation(entry, head);
  }
  if (sequence.rows_done < length || !AllScored(sequence)) return absl::OkStatus();
  if (sequence.generate() != nullptr) sequence.prompt_finished = true;
  if (sequence.prompt_done_us < 0) sequence.prompt_done_us = clock_.MonotonicMicros();
  return absl::OkStatus();
}

absl::Status Scheduler::ApplyPrompt(const StepEntry& entry, std::span<const HeadResult> head) {
  Sequence& sequence = *entry.sequence;
  const int64_t rows_before = sequence.rows_done;
  sequence.rows_done += entry.row_count;
  if (!sequence.timing_only) totals_.prompt_tokens_done += entry.row_count;
  SharePages(sequence, rows_before / kPageTokens, sequence.rows_done / kPageTokens);
  if (sequence.scores_text()) {
    if (sequence.result.token_log_probs.empty()) sequence.result.token_log_probs.push_back(std::nullopt);
    for (const HeadResult& result : head) sequence.result.token_log_probs.push_back(result.target_log_probability);
  } else if (sequence.rows_done == sequence.prompt_length()) {
    const auto continuations = sequence.continuations();
    VF_CHECK(head.size() >= continuations.size(), "the last row has one head row per continuation");
    for (size_t i = 0; i < continuations.size(); ++i) {
      sequence.result.continuations.push_back(
          {.is_greedy = head[i].argmax == continuations[i][0], .token_log_probs = {head[i].target_log_probability}});
    }
    if (head.size() > continuations.size()) RETURN_IF_ERROR(AddToken(sequence, head.back()));
  }
  if (sequence.callbacks.on_progress) {
    sequence.callbacks.on_progress({.prompt_token_count = sequence.prompt_length(),
                                    .prompt_tokens_done = sequence.rows_done,
                                    .new_token_count = std::ssize(sequence.result.new_token_ids)});
  }
  return absl::OkStatus();
}

void Scheduler::ApplyContinuation(const StepEntry& entry, std::span<const HeadResult> head) {
  Sequence& sequence = *entry.sequence;
  const std::vector<int32_t>& tokens = sequence.continuations()[entry.continuation];
  int64_t& done = sequence.continuation_done[entry.continuation];
  EngineContinuationScore& score = sequence.result.continuations[entry.continuation];
  for (size_t i = 0; i < head.size(); ++i) {
    score.token_log_probs.push_back(head[i].target_log_probability);
    score.is_greedy = score.is_greedy && head[i].argmax == tokens[done + i + 1];
  }
  done += entry.row_count;
}

absl::Status Scheduler::ApplyDecode(const StepEntry& entry, std::span<const HeadResult> head) {
  Sequence& sequence = *entry.sequence;
  ++sequence.rows_done;
  if (head.empty()) return absl::OkStatus();  // a replayed token
  return AddToken(sequence, head[0]);
}

absl::Status Scheduler::AddToken(Sequence& sequence, const HeadResult& head) {
  const GenerateWork& work = *sequence.generate();
  int32_t token = head.argmax;
  double log_prob = static_cast<double>(head.argmax_logit) - head.log_sum_exp;
  if (work.sampling.temperature > 0) {
    token = head.drawn.token;
    log_prob = static_cast<double>(head.drawn.logit) - head.log_sum_exp;
  }
  EngineResult& result = sequence.result;
  result.new_token_ids.push_back(token);
  result.new_token_log_probs.push_back(log_prob);
  if (!sequence.timing_only) ++totals_.new_tokens;
  if (sequence.callbacks.on_token) sequence.callbacks.on_token(token, log_prob);

  const std::vector<int32_t>& eos = model_.eos_token_ids();
  if (!work.ignore_eos && std::find(eos.begin(), eos.end(), token) != eos.end()) {
    result.finish_reason = EngineFinishReason::kEos;
  } else if (work.thinking.has_value()) {
    RETURN_IF_ERROR(FollowThinking(*model_.tokenizer(), work, sequence.thinking, result));
    for (size_t i = result.new_token_log_probs.size(); i < result.new_token_ids.size(); ++i) {
      result.new_token_log_probs.push_back(0);
      if (!sequence.timing_only) ++totals_.new_tokens;
      if (sequence.callbacks.on_token) sequence.callbacks.on_token(result.new_token_ids[i], 0);
    }
  } else if (!work.stop.empty()) {
    ASSIGN_OR_RETURN(result.text, model_.tokenizer()->Decode(result.new_token_ids, {.ignore_unknown_ids = true}));
    if (CutAtStop(work.stop, &result.text, &result.matched_stop)) result.finish_reason = EngineFinishReason::kStop;
  }
  if (result.finish_reason == EngineFinishReason::kNone && std::ssize(result.new_token_ids) >= work.max_new_tokens)
    result.finish_reason = EngineFinishReason::kLength;
  return absl::OkStatus();
}

// Whether a window group's page may be part of a reused prefix: at the end of the prompt, or where others wait.
bool Scheduler::KeepsPage(const Sequence& sequence, const PageGroupShape& group, int64_t page) const {
  const int64_t whole = sequence.page_hashes.size();
  if (page >= group.FirstPage(std::max<int64_t>(whole - kQuestionPages, 0) * kPageTokens)) return true;
  return std::any_of(sequence.shared_ends.begin(), sequence.shared_ends.end(),
                     [&](int64_t end) { return page < end && page >= group.FirstPage(end * kPageTokens); });
}

// Inserts whole pages of the prompt, computed and still held, into the cache.
void Scheduler::SharePages(Sequence& sequence, int64_t page_begin, int64_t page_end) {
  const absl::Span<const int32_t> ids = sequence.request.token_ids;
  page_end = std::min(page_end, std::ssize(sequence.page_hashes));
  for (int64_t page = page_begin; page < page_end; ++page) {
    const size_t at = page;
    for (size_t group = 0; group < store_.groups().size(); ++group) {
      const PageGroupShape& shape = store_.groups()[group];
      const int32_t held = sequence.pages.tables[group][at];
      if (held < 0 || !(shape.is_full() || KeepsPage(sequence, shape, page))) continue;
      store_.cache().Insert(sequence.page_hashes[at], page, ids.subspan(at * kPageTokens, kPageTokens), group, held);
    }
  }
}

bool Scheduler::IsFinished(Sequence& sequence) const {
  if (sequence.rows_done < sequence.prompt_length() || !AllScored(sequence)) return false;
  return sequence.generate() == nullptr || sequence.result.finish_reason != EngineFinishReason::kNone;
}

bool Scheduler::AllScored(Sequence& sequence) {
  // Continuations of one token were scored by the prompt's last row.
  const auto continuations = sequence.continuations();
  while (sequence.continuation_index < continuations.size() &&
         sequence.continuation_done[sequence.continuation_index] + 1 >=
             std::ssize(continuations[sequence.continuation_index])) {
    ++sequence.continuation_index;
  }
  return sequence.continuation_index == continuations.size();
}

// Fields of a result that are known only at the end.
void Scheduler::Complete(Sequence& sequence) {
  const int64_t now_us = clock_.MonotonicMicros();
  EngineResult& result = sequence.result;
  result.prompt_token_count = sequence.prompt_length();
  result.invalid_utf8_count = sequence.request.invalid_utf8_count;
  int64_t longest = sequence.prompt_length() + std::ssize(result.new_token_ids);
  if (sequence.generate() == nullptr) {
    for (const auto& tokens : sequence.continuations())
      longest = std::max(longest, sequence.prompt_length() + std::ssize(tokens));
  }
  const std::optional<int64_t>& trained = model_.config().trained_context_length;
  result.extrapolated = trained.has_value() && longest > *trained;
  for (EngineContinuationScore& score : result.continuations) {
    score.token_count = score.token_log_probs.size();
    score.log_likelihood = 0;
    for (const double log_prob : score.token_log_probs) score.log_likelihood += log_prob;
    result.log_likelihood += score.log_likelihood;
  }
  for (const std::optional<double>& log_prob : result.token_log_probs) result.log_likelihood += log_prob.value_or(0);
  if (sequence.generate() != nullptr && sequence.generate()->thinking.has_value()) {
    CompleteThinking(*model_.tokenizer(), model_.eos_token_ids(), *sequence.generate(), sequence.thinking, result);
  } else if (sequence.generate() != nullptr && sequence.generate()->stop.empty() && model_.tokenizer() != nullptr) {
    absl::StatusOr<std::string> text = model_.tokenizer()->Decode(result.new_token_ids, {.ignore_unknown_ids = true});
    if (text.ok()) result.text = *std::move(text);
  }
  result.notes = sequence.attention.WholePromptReason();
  if (sequence.tau_row_count > 0 && sequence.attention.CountsBounds()) {
    result.tau_at_min_share = static_cast<double>(sequence.tau_at_min_count) / sequence.tau_row_count;
    result.tau_at_max_share = static_cast<double>(sequence.tau_at_max_count) / sequence.tau_row_count;
  }
  const int64_t started_us = sequence.first_step_us < 0 ? now_us : sequence.first_step_us;
  const int64_t prompt_us =
      sequence.prompt_done_us < 0 || sequence.generate() == nullptr ? now_us : sequence.prompt_done_us;
  result.queue_us = started_us - sequence.arrival_us;
  result.prefill_us = prompt_us - started_us;
  result.decode_us = now_us - prompt_us;
}

bool CutAtStop(const std::vector<std::string>& stops, std::string* text, std::string* matched) {
  size_t first = std::string::npos;
  for (const std::string& stop : stops) {
    const size_t at = text->find(stop);
    if (at < first) {
      first = at;
      *matched = stop;
    }
  }
  if (first == std::string::npos) return false;
  text->resize(first);
  return true;
}

}  // namespace varifocal
