#include "server/engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/exceptions.h"
#include "server/engine/sampler.h"

namespace varifocal {
namespace {

using kernels::kPageTokens;

// Queue entries considered for admission ahead of requests that wait for a prefix.
constexpr size_t kLookAhead = 64;

// Positions that scoring writes after the prompt:
// the longest continuation without its last token.
int64_t ScoredRowsMax(const Sequence& sequence) {
  int64_t rows = 0;
  for (const auto& continuation : sequence.continuations()) rows = std::max(rows, std::ssize(continuation) - 1);
  return rows;
}

// The common prefix of two prompts, in whole pages that `waiting` may take from the cache.
int64_t CommonPages(const Sequence& waiting, const Sequence& running) {
  const size_t limit = std::min<size_t>(waiting.reusable_page_count, running.page_hashes.size());
  // A page hash covers all pages before it: where one differs, all later ones do.
  const auto end = waiting.page_hashes.begin() + limit;
  const auto differs = std::partition_point(waiting.page_hashes.begin(), end, [&](const Sha256Digest& hash) {
    return hash == running.page_hashes[&hash - waiting.page_hashes.data()];
  });
  return differs - waiting.page_hashes.begin();
}

// The draw of the sequence's next token; none for greedy requests.
kernels::TokenDraw TokenDrawOf(const Sequence& sequence) {
  const GenerateWork& work = *sequence.generate();
  const int64_t position = sequence.prompt_length() + std::ssize(sequence.result.new_token_ids);
  return MakeDraw(work.sampling, work.seed, position);
}

}  // namespace

Scheduler::Scheduler(const LoadedModel& model, const EngineOptions& options, const std::vector<int64_t>& page_counts,
                     const Clock& clock)
    : model_(model),
      options_(options),
      clock_(clock),
      row_cost_(RowCost::Of(model.config(), model.provenance().parameter_count)),
      store_(PageGroupShapes(model.transformer()), page_counts) {}

void Scheduler::Enqueue(std::unique_ptr<Sequence>&& sequence) {
  finished_.reserve(HeldCount() + finished_.size() + 1);  // so that Finish does not allocate
  const size_t lane = LaneOf(*sequence);
  const bool is_idle = waiting_[lane].empty() && std::none_of(running_.begin(), running_.end(), [&](const auto& other) {
                         return LaneOf(*other) == lane;
                       });
  if (is_idle) lane_tokens_[lane] = *std::max_element(lane_tokens_.begin(), lane_tokens_.end());
  if (sequence->timing_only) {
    waiting_[lane].push_front(std::move(sequence));
  } else {
    waiting_[lane].push_back(std::move(sequence));
  }
}

// Ties go to the job lane.
size_t Scheduler::LaneWithFewerTokens() const { return lane_tokens_[0] <= lane_tokens_[1] ? 0 : 1; }

void Scheduler::CountTokens(const StepPlan& plan) {
  for (const StepEntry& entry : plan.entries) {
    if (entry.sequence->timing_only) continue;
    const size_t lane = LaneOf(*entry.sequence);
    lane_tokens_[lane] += entry.row_count;
    totals_.lane_tokens[lane] += entry.row_count;
    const int64_t begin = entry.sequence->rows_done;
    const int64_t end = std::min(begin + entry.row_count, entry.sequence->prompt_length());
    totals_.lane_prompt_operations[lane] += row_cost_.Operations(begin, end);
  }
}

// ---- Admission and pages ----

// The longest prefix of at most `page_count` pages that the sequence leaves in the cache for reuse.
int64_t Scheduler::CacheablePageCount(const Sequence& sequence, int64_t page_count) const {
  const int64_t whole = sequence.page_hashes.size();
  if (!store_.has_windows() || page_count >= whole - kQuestionPages) return std::min(page_count, whole);
  const auto after = sequence.shared_ends.upper_bound(page_count);
  return after == sequence.shared_ends.begin() ? 0 : *std::prev(after);
}

// True while a running sequence is still computing the longest prefix that this one can reuse. Marks the end of that
// prefix, so that the running sequence keeps its window pages there.
bool Scheduler::MustWaitForPrefix(const Sequence& sequence) {
  for (const std::unique_ptr<Sequence>& other : running_) {
    if (other->rows_done >= other->prompt_length()) continue;
    const int64_t common = CommonPages(sequence, *other);
    if (common == 0) continue;
    const std::vector<PageGroupShape>& groups = store_.groups();
    bool can_keep = store_.has_windows();
    for (size_t group = 0; group < groups.size(); ++group)
      can_keep = can_keep && other->pages.released_end[group] <= groups[group].FirstPage(common * kPageTokens);
    if (can_keep && other->shared_ends.insert(common).second)
      SharePages(*other, 0, std::min(other->rows_done / kPageTokens, common));
    const int64_t end = CacheablePageCount(*other, common);
    if (end * kPageTokens <= other->rows_done) continue;
    const auto hashes = absl::MakeConstSpan(sequence.page_hashes).subspan(0, end);
    if (end > store_.cache().ReusablePageCount(hashes, sequence.request.token_ids)) return true;
  }
  return false;
}

bool Scheduler::TryAdmit(Sequence& sequence) {
  // A preempted sequence needs pages for the tokens it will replay, which take the place of scored ones.
  const int64_t rows =
      sequence.prompt_length() + std::max(ScoredRowsMax(sequence), std::ssize(sequence.result.new_token_ids));
  const PageStore::AdmissionRequest request{
      .hashes = absl::MakeConstSpan(sequence.page_hashes).subspan(0, sequence.reusable_page_count),
      .token_ids = sequence.request.token_ids,
      .extent = sequence.extent,
      .rows_now = rows,
      // One spare page for each running sequence, so that admission does not immediately cause preemption.
      .spare_pages = std::ssize(running_)};
  if (!store_.Admit(request, &sequence.pages)) return false;
  sequence.rows_done = sequence.pages.page_count() * kPageTokens;
  sequence.result.cached_token_count = sequence.rows_done;
  totals_.cached_tokens += sequence.rows_done;
  totals_.prompt_tokens_done += sequence.rows_done;
  if (sequence.first_step_us < 0) sequence.first_step_us = clock_.MonotonicMicros();
  return true;
}

// Admits the first request of a lane that neither waits for a prefix, nor is behind one that waits for memory.
Scheduler::Admission Scheduler::AdmitFrom(Waiting& waiting) {
  for (size_t i = 0; i < std::min(waiting.size(), kLookAhead); ++i) {
    const bool is_full = std::ssize(running_) >= options_.batch_size_max;
    // Timed requests run in separate steps and need no batch slot.
    if (is_full && !waiting[i]->timing_only) return Admission::kBlocked;
    if (MustWaitForPrefix(*waiting[i])) continue;  // others may overtake: it waits for a prefix, not for memory
    if (!TryAdmit(*waiting[i])) return Admission::kBlocked;
    running_.push_back(std::move(waiting[i]));
    waiting.erase(waiting.begin() + i);
    return Admission::kAdmitted;
  }
  return Admission::kNoCandidate;
}

void Scheduler::Admit() {
  const auto is_timed = [](const Waiting& waiting) { return !waiting.empty() && waiting.front()->timing_only; };
  while (waiting_count() > 0) {
    size_t first = LaneWithFewerTokens();
    if (is_timed(waiting_[1 - first])) first = 1 - first;
    Admission admission = AdmitFrom(waiting_[first]);
    if (admission == Admission::kNoCandidate) admission = AdmitFrom(waiting_[1 - first]);
    // None overtakes a request that waits for memory, which would otherwise never be admitted.
    if (admission != Admission::kAdmitted) return;
  }
}

// Allocates pages for the rows up to position_end, evicting cached pages or preempting the most recently admitted sequences; false
// when this sequence itself was preempted.
bool Scheduler::Extend(Sequence& sequence, int64_t position_end) {
  const auto keeps = [&](const PageGroupShape& group, int64_t page) {
    return page < std::ssize(sequence.page_hashes) && KeepsPage(sequence, group, page);
  };
  while (!store_.Extend(position_end, sequence.pages, keeps)) {
    if (!Preempt(sequence)) return false;
  }
  return true;
}

// Preempts the most recently admitted running sequence; true when that was not `sequence` itself.
bool Scheduler::Preempt(Sequence& sequence) {
  VF_CHECK(running_.size() > 1, "a single sequence has all its reserved pages");
  Waiting& waiting = WaitingOf(*running_.back());
  waiting.push_front(nullptr);  // may throw: before the victim has left its list
  std::unique_ptr<Sequence>& victim = waiting.front();
  victim = std::move(running_.back());
  running_.pop_back();
  const bool other = victim.get() != &sequence;
  store_.Release(victim->pages);
  victim->rows_done = 0;
  victim->prompt_finished = false;
  victim->shared_ends.clear();
  ReleaseBranches(*victim);
  victim->continuation_index = 0;
  victim->continuation_done.assign(victim->continuation_done.size(), 0);
  victim->result.continuations.clear();
  victim->result.token_log_probs.clear();
  ++totals_.preemption_count;
  return other;
}

// ---- Planning ----

// A timed request runs in steps without others.
bool Scheduler::MayRun(const Sequence& sequence) const { return !is_timing_ || sequence.timing_only; }

StepPlan Scheduler::NextStep(const RowsMax& rows_max) {
  for (const auto& sequence : running_) ReleaseBranches(*sequence);  // of the step before
  Admit();
  is_timing_ =
      std::any_of(running_.begin(), running_.end(), [](const auto& sequence) { return sequence->timing_only; });
  StepPlan plan = prefill_next_ ? PlanPrefill(rows_max) : PlanDecode();
  if (plan.empty()) plan = prefill_next_ ? PlanDecode() : PlanPrefill(rows_max);
  prefill_next_ = plan.phase == kernels::Phase::kDecode;
  CountTokens(plan);
  if (options_.test_only_alter_plan != nullptr && !plan.empty()) options_.test_only_alter_plan(plan);
  step_begin_us_ = clock_.MonotonicMicros();
  return plan;
}

StepPlan Scheduler::PlanDecode() {
  StepPlan plan;
  plan.phase = kernels::Phase::kDecode;
  // First allocates the page of every decoding sequence: preemption may remove sequences.
  for (auto it = running_.begin(); it != running_.end();) {
    Sequence& sequence = **it;
    const bool decodes = sequence.prompt_finished && MayRun(sequence);
    if (decodes && !Extend(sequence, sequence.rows_done + 1)) break;  // preempted: it was the last of running_
    ++it;
  }
  // One attention setting a step: that of each ready sequence in turn.
  std::vector<Sequence*> ready;
  for (const auto& sequence : running_) {
    if (sequence->prompt_finished && MayRun(*sequence)) ready.push_back(sequence.get());
  }
  if (ready.empty()) return plan;
  const std::string& setting = ready[decode_turn_++ % ready.size()]->attention.json();
  for (Sequence* sequence : ready) {
    if (sequence->attention.json() != setting) continue;
    const size_t fed = sequence->fed_count();
    const std::vector<int32_t>& ids = sequence->result.new_token_ids;
    if (fed == 0) store_.Rewind(sequence->prompt_length(), false, sequence->pages, &plan.page_copies);
    plan.AddRows(sequence, std::span(ids).subspan(fed, 1), sequence->rows_done);
    if (fed + 1 == ids.size()) plan.RequestLogits(0, -1, TokenDrawOf(*sequence));
  }
  return plan;
}

bool Scheduler::IsInPrefill(const Sequence& sequence) const { return !sequence.prompt_finished && MayRun(sequence); }

// Rows of a prefill step, by the prompt that is farthest.
int64_t Scheduler::ChunkTokens(const RowsMax& rows_max) const {
  if (rows_max == nullptr) return options_.prefill_chunk_tokens;
  int64_t position = 0;
  for (const auto& sequence : running_) {
    if (IsInPrefill(*sequence)) position = std::max(position, sequence->rows_done);
  }
  return std::clamp<int64_t>(rows_max(position), 1, options_.prefill_chunk_tokens);
}

// Rows that each lane may have in a prefill step: as many as it can use for `first`, the rest for the other.
std::array<int64_t, kEngineLaneCount> Scheduler::PrefillBudgets(size_t first, int64_t chunk_tokens) const {
  int64_t rows = 0;
  for (const auto& sequence : running_) {
    if (LaneOf(*sequence) != first || !IsInPrefill(*sequence)) continue;
    const int64_t left = sequence->prompt_length() - sequence->rows_done;
    rows += left > 0 ? left : chunk_tokens;  // scores continuations, as many as fit
  }
  std::array<int64_t, kEngineLaneCount> budgets = {};
  budgets[first] = std::min(rows, chunk_tokens);
  budgets[1 - first] = chunk_tokens - budgets[first];
  return budgets;
}

StepPlan Scheduler::PlanPrefill(const RowsMax& rows_max) {
  StepPlan plan;
  const size_t first = LaneWithFewerTokens();
  std::array<int64_t, kEngineLaneCount> budgets = PrefillBudgets(first, ChunkTokens(rows_max));
  const size_t leading_lane = budgets[first] > 0 ? first : 1 - first;
  const auto leader = std::find_if(running_.begin(), running_.end(), [&](const auto& sequence) {
    return LaneOf(*sequence) == leading_lane && IsInPrefill(*sequence);
  });
  if (leader == running_.end()) return plan;
  const auto needs_whole = [](const Sequence& sequence) {
    return sequence.attention.NeedsWholePrompt() && sequence.rows_done == 0;
  };
  if (needs_whole(**leader)) {
    plan.whole_prompt = AddPrefillRows(**leader, (*leader)->prompt_length(), plan);
    return plan;
  }
  const std::string setting = (*leader)->attention.json();
  for (auto it = running_.begin(); it != running_.end();) {
    Sequence& sequence = **it;
    int64_t& left = budgets[LaneOf(sequence)];
    if (std::ssize(plan.entries) >= options_.batch_size_max) break;
    if (left <= 0 || !IsInPrefill(sequence) || sequence.attention.json() != setting || needs_whole(sequence)) {
      ++it;
      continue;
    }
    const size_t before = plan.tokens.size();
    if (!AddPrefillRows(sequence, left, plan)) break;  // preempted: it was the last of running_
    left -= plan.tokens.size() - before;
    ++it;
  }
  return plan;
}

// False when the sequence was preempted instead.
bool Scheduler::AddPrefillRows(Sequence& sequence, int64_t row_count_max, StepPlan& plan) {
  const std::span<const int32_t> prompt(sequence.request.token_ids);
  const int64_t length = sequence.prompt_length();
  if (sequence.rows_done < length) {
    const int64_t count = std::min(row_count_max, length - sequence.rows_done);
    if (!Extend(sequence, sequence.rows_done + count)) return false;
    plan.AddRows(&sequence, prompt.subspan(sequence.rows_done, count), sequence.rows_done);
    const bool last = sequence.rows_done + count == length;
    if (sequence.scores_text()) {
      for (int64_t row = 0; row < count; ++row) {
        const int64_t next = sequence.rows_done + row + 1;
        if (next < length) plan.RequestLogits(row, prompt[next]);
      }
    } else if (last) {
      for (const auto& continuation : sequence.continuations()) plan.RequestLogits(count - 1, continuation[0]);
      if (sequence.generate() != nullptr && sequence.result.new_token_ids.empty())
        plan.RequestLogits(count - 1, -1, TokenDrawOf(sequence));
    }
    return true;
  }
  return AddContinuations(sequence, row_count_max, plan);
}

// Rows of the current continuation, in the sequence's own pages, and of further continuations that fit as a whole, each
// in its own pages after the prompt: shared pages are read once.
bool Scheduler::AddContinuations(Sequence& sequence, int64_t row_count_max, StepPlan& plan) {
  const auto continuations = sequence.continuations();
  const int64_t length = sequence.prompt_length();
  auto rows_left = [&](size_t index) {
    return std::ssize(continuations[index]) - 1 - sequence.continuation_done[index];
  };
  auto add = [&](size_t index, int64_t count, const std::vector<std::vector<int32_t>>& tables) {
    const std::vector<int32_t>& tokens = continuations[index];
    const int64_t done = sequence.continuation_done[index];
    plan.AddRows(&sequence, std::span(tokens).subspan(done, count), length + done, tables);
    plan.entries.back().continuation = index;
    for (int64_t row = 0; row < count; ++row) plan.RequestLogits(row, tokens[done + row + 1]);
  };
  const size_t first = sequence.continuation_index;
  int64_t left = row_count_max;
  const int64_t count = std::min(left, rows_left(first));
  if (!Extend(sequence, length + sequence.continuation_done[first] + count)) return false;
  if (sequence.continuation_done[first] == 0) {
    const bool again = sequence.generate() != nullptr || first + 1 < continuations.size();
    store_.Rewind(length, again, sequence.pages, &plan.page_copies);
  }
  add(first, count, sequence.pages.tables);
  left -= count;
  const size_t entries_max = options_.batch_size_max;
  sequence.branches.reserve(continuations.size());  // the plan has pointers to their tables
  for (size_t index = first + 1; index < continuations.size(); ++index) {
    const int64_t rows = rows_left(index);
    if (rows <= 0) continue;
    if (rows > left || plan.entries.size() >= entries_max) break;
    Branch branch;
    if (!store_.Split(sequence.pages, length, length + rows, &branch, &plan.page_copies)) break;
    sequence.branches.push_back(std::move(branch));
    add(index, rows, sequence.branches.back().tables);
    left -= rows;
  }
  return true;
}

void Scheduler::ReleaseBranches(Sequence& sequence) {
  for (Branch& branch : sequence.branches) store_.Release(branch);
  sequence.branches.clear();
}

// ---- Completion ----

void Scheduler::Finish(Sequence* sequence, absl::Status status) {
  store_.Release(sequence->pages);
  ReleaseBranches(*sequence);
  std::unique_ptr<Sequence> owned;
  auto is_it = [&](const std::unique_ptr<Sequence>& held) { return held.get() == sequence; };
  if (auto it = std::find_if(running_.begin(), running_.end(), is_it); it != running_.end()) {
    owned = std::move(*it);
    running_.erase(it);
  } else {
    Waiting& waiting = WaitingOf(*sequence);
    const auto at = std::find_if(waiting.begin(), waiting.end(), is_it);
    VF_CHECK(at != waiting.end(), "only a known sequence ends");
    owned = std::move(*at);
    waiting.erase(at);
  }
  const absl::Status completed = CatchExceptions("completing a result", [&] {
    Complete(*owned);
    return absl::OkStatus();
  });
  status.Update(completed);
  if (!owned->timing_only) Count(owned->result, status);
  finished_.push_back({std::move(owned), std::move(status)});
}

void Scheduler::Count(const EngineResult& result, const absl::Status& status) {
  constexpr double kSecondsPerMicro = 1e-6;
  ++totals_.requests_done;
  if (result.finish_reason == EngineFinishReason::kCancelled || absl::IsCancelled(status)) {
    ++totals_.requests_cancelled;
  } else if (!status.ok()) {
    ++totals_.requests_failed;
  } else {
    totals_.queue_latency.Add(result.queue_us * kSecondsPerMicro);
    totals_.prefill_latency.Add(result.prefill_us * kSecondsPerMicro);
    const int64_t steps = std::ssize(result.new_token_ids) - 1;  // prefill gives the first token
    if (steps > 0) totals_.decode_latency.Add(result.decode_us * kSecondsPerMicro / steps);
  }
}

void Scheduler::Cancel(EngineHandle handle) {
  auto matches = [&](const std::unique_ptr<Sequence>& sequence) { return sequence->handle == handle; };
  Sequence* found = nullptr;
  if (auto it = std::find_if(running_.begin(), running_.end(), matches); it != running_.end()) found = it->get();
  for (Waiting& waiting : waiting_) {
    if (auto it = std::find_if(waiting.begin(), waiting.end(), matches); it != waiting.end()) found = it->get();
  }
  if (found == nullptr) return;
  found->result.finish_reason = EngineFinishReason::kCancelled;
  Finish(found, found->generate() != nullptr ? absl::OkStatus() : absl::CancelledError("the request was cancelled"));
}

void Scheduler::Fail(const StepPlan& plan, const absl::Status& status) {
  const Sequence* last = nullptr;  // entries of one sequence are adjacent
  for (const StepEntry& entry : plan.entries) {
    if (entry.sequence != last) Finish(entry.sequence, status);
    last = entry.sequence;
  }
}

void Scheduler::FailAll(const absl::Status& status) {
  while (!running_.empty()) Finish(running_.front().get(), status);
  for (Waiting& waiting : waiting_) {
    while (!waiting.empty()) Finish(waiting.front().get(), status);
  }
}

std::vector<Finished> Scheduler::TakeFinished() {
  std::vector<Finished> finished;
  if (finished_.empty()) return finished;
  std::vector<Finished> room;
  room.reserve(HeldCount() + 1);
  finished.swap(finished_);
  finished_.swap(room);
  return finished;
}

void Scheduler::GetStatus(EngineStatus* status) const {
  *status = totals_;
  status->queued_count = waiting_count();
  for (const Waiting& waiting : waiting_) {
    if (waiting.empty()) continue;
    const int64_t arrival_us = waiting.front()->arrival_us;
    if (status->oldest_arrival_us < 0 || arrival_us < status->oldest_arrival_us) status->oldest_arrival_us = arrival_us;
  }
  status->running_count = running_.size();
  status->pages_cached = store_.idle_count();
  status->pages_used = store_.used_count();
  status->cache_bytes_in_use = store_.bytes_in_use();
  status->cache_bytes_peak = store_.bytes_peak();
}

}  // namespace varifocal
