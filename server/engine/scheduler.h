// Plans the next step, and applies its results.
//
// Sequences wait in a queue until their pages can be reserved; then they run: prompt in chunks, scored tokens in chunks,
// generated tokens one per step. Decode and prefill steps alternate, so that neither starves. A sequence whose next
// prompt page is being computed by another waits for it instead of computing it again.
//
// Jobs and interactive callers have a queue each (EngineLane). The next admission, and the rows of a prefill step, go to the
// lane for which fewer tokens were computed, so that while both have work each gets half of the tokens, however many requests
// either has. The count of a lane that was idle is raised to the other's when it begins again. No running request is preempted
// for the other lane.
//
// When pages run out during generation, the most recently admitted sequence is preempted. It restarts later and replays its
// generated tokens through the same kernels.
//
//   while (!(plan = scheduler.NextStep()).empty()) { run it; scheduler.Apply(plan, output) }
//
// Threads: not thread-safe; owned by the engine thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "server/engine/estimate.h"
#include "server/engine/options.h"
#include "server/engine/page_store.h"
#include "server/engine/sequence.h"
#include "server/engine/step_plan.h"
#include "server/model/model.h"

namespace varifocal {

// A finished or failed sequence; its pages are already released.
struct Finished {
  std::unique_ptr<Sequence> sequence;
  absl::Status status;  // when not ok, the result is invalid
};

// Truncates `text` before the first of `stops` that it contains.
bool CutAtStop(const std::vector<std::string>& stops, std::string* text, std::string* matched);

using RowsMax = std::function<int64_t(int64_t first_position)>;

class Scheduler {
 public:
  Scheduler(const LoadedModel& model, const EngineOptions& options, const std::vector<int64_t>& page_counts,
            const Clock& clock);

  // An exception leaves the sequence with the caller.
  void Enqueue(std::unique_ptr<Sequence>&& sequence);
  // Ends a waiting or running sequence; between steps only.
  void Cancel(EngineHandle handle);
  void FailAll(const absl::Status& status);
  void DropPrefixCache() { store_.cache().Clear(); }

  // Empty when idle. `rows_max` bounds the rows of a prompt's next step from a position on, other than of a whole prompt.
  StepPlan NextStep(const RowsMax& rows_max = nullptr);
  // Applies the step's results: tokens, scores, shareable pages.
  void Apply(const StepPlan& plan, const ForwardOutput& output);
  // The step failed: its sequences end with `status`.
  void Fail(const StepPlan& plan, const absl::Status& status);
  // Sequences that ended since the last call, in order.
  std::vector<Finished> TakeFinished();

  bool idle() const { return waiting_count() == 0 && running_.empty(); }
  void GetStatus(EngineStatus* status) const;

 private:
  using Running = std::list<std::unique_ptr<Sequence>>;
  using Waiting = std::deque<std::unique_ptr<Sequence>>;
  enum class Admission { kAdmitted, kNoCandidate, kBlocked };

  size_t HeldCount() const { return waiting_[0].size() + waiting_[1].size() + running_.size(); }
  Waiting& WaitingOf(const Sequence& sequence) { return waiting_[LaneOf(sequence)]; }
  static size_t LaneOf(const Sequence& sequence) { return static_cast<size_t>(sequence.request.lane); }
  size_t waiting_count() const { return waiting_[0].size() + waiting_[1].size(); }
  size_t LaneWithFewerTokens() const;
  bool IsInPrefill(const Sequence& sequence) const;
  int64_t ChunkTokens(const RowsMax& rows_max) const;
  std::array<int64_t, kEngineLaneCount> PrefillBudgets(size_t first, int64_t chunk_tokens) const;
  void CountTokens(const StepPlan& plan);
  void Admit();
  Admission AdmitFrom(Waiting& waiting);
  bool TryAdmit(Sequence& sequence);
  bool MustWaitForPrefix(const Sequence& sequence);
  int64_t CacheablePageCount(const Sequence& sequence, int64_t page_count) const;
  bool MayRun(const Sequence& sequence) const;
  StepPlan PlanDecode();
  StepPlan PlanPrefill(const RowsMax& rows_max);
  bool AddPrefillRows(Sequence& sequence, int64_t row_count_max, StepPlan& plan);
  bool AddContinuations(Sequence& sequence, int64_t row_count_max, StepPlan& plan);
  void ReleaseBranches(Sequence& sequence);
  bool Extend(Sequence& sequence, int64_t position_end);
  bool Preempt(Sequence& sequence);

  absl::Status ApplyPrefill(const StepEntry& entry, std::span<const kernels::HeadResult> head);
  absl::Status ApplyPrompt(const StepEntry& entry, std::span<const kernels::HeadResult> head);
  void ApplyContinuation(const StepEntry& entry, std::span<const kernels::HeadResult> head);
  absl::Status ApplyDecode(const StepEntry& entry, std::span<const kernels::HeadResult> head);
  absl::Status AddToken(Sequence& sequence, const kernels::HeadResult& head);
  void SharePages(Sequence& sequence, int64_t page_begin, int64_t page_end);
  bool KeepsPage(const Sequence& sequence, const PageGroupShape& group, int64_t page) const;
  bool IsFinished(Sequence& sequence) const;
  // Whether a computed prompt has no continuation left to score; advances to the next one.
  static bool AllScored(Sequence& sequence);
  void Finish(Sequence* sequence, absl::Status status);
  void Complete(Sequence& sequence);
  void Count(const EngineResult& result, const absl::Status& status);

  const LoadedModel& model_;
  const EngineOptions options_;
  const Clock& clock_;
  const RowCost row_cost_;
  PageStore store_;
  std::array<Waiting, kEngineLaneCount> waiting_;
  std::array<int64_t, kEngineLaneCount> lane_tokens_ = {};  // for the choice of a lane: raised when an idle lane begins
  Running running_;                                         // in order of admission
  std::vector<Finished> finished_;
  bool prefill_next_ = true;
  bool is_timing_ = false;
  int64_t step_begin_us_ = 0;  // of the last plan
  size_t decode_turn_ = 0;
  EngineStatus totals_;
};

}  // namespace varifocal
