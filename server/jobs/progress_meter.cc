#include "server/jobs/progress_meter.h"

#include <algorithm>

namespace varifocal {
namespace {

constexpr int64_t kWindowUs = 30'000'000;

}  // namespace

void ProgressMeter::Update(const RunProgress& progress, ComputedWork computed, int64_t now_us) {
  if (costs_.empty()) computed.cost = 0;
  const double done_before = done_cost_;
  double in_flight_cost_max = 0;  // of cells with samples that are left
  planned_cost_ = done_cost_ = 0;
  for (size_t i = 0; i < progress.cells.size(); ++i) {
    const CellProgress& cell = progress.cells[i];
    const double length = cell.cell.context_length;
    const CellCost cost = costs_.empty() ? CellCost{length, length} : costs_[i];
    planned_cost_ += cell.planned_count * cost.sample;
    done_cost_ += cell.done_count * cost.sample;
    if (cell.done_count < cell.planned_count)
      in_flight_cost_max = std::max(in_flight_cost_max, in_flight_ * cost.sample + cost.context);
  }
  answered_token_count_ = progress.prompt_token_count - progress.cached_token_count + progress.new_token_count;
  if (start_us_ < 0) {
    start_us_ = now_us;
    cost_at_start_ = done_cost_;
    at_start_ = latest_ = computed;
  } else {
    ahead_cost_ = std::max(0.0, ahead_cost_ + computed.cost - latest_.cost - (done_cost_ - done_before));
  }
  ahead_cost_max_ = std::min(in_flight_cost_max, planned_cost_ - done_cost_);
  ahead_cost_ = std::min(ahead_cost_, ahead_cost_max_);
  AddPoint(computed, now_us);
}

void ProgressMeter::Update(ComputedWork computed, int64_t now_us) {
  if (start_us_ < 0) return;
  if (costs_.empty()) computed.cost = 0;
  ahead_cost_ = std::min(ahead_cost_ + computed.cost - latest_.cost, ahead_cost_max_);
  AddPoint(computed, now_us);
}

void ProgressMeter::AddPoint(const ComputedWork& computed, int64_t now_us) {
  latest_ = computed;
  // Engines elsewhere do not tell what they compute.
  window_.push_back({now_us, std::max(answered_token_count_, computed.token_count - at_start_.token_count)});
  // One point older than the window stays, so that the window is covered.
  while (window_.size() > 2 && window_[1].time_us <= now_us - kWindowUs) window_.pop_front();
}

double ProgressMeter::TokensPerSecond(int64_t now_us) const {
  if (window_.empty() || now_us <= window_.front().time_us) return 0;
  const int64_t tokens = window_.back().token_count - window_.front().token_count;
  return tokens * 1e6 / (now_us - window_.front().time_us);
}

double ProgressMeter::RemainingSeconds(int64_t now_us) const {
  if (start_us_ < 0) return -1;
  if (done_cost_ >= planned_cost_) return 0;
  const double done = done_cost_ - cost_at_start_ + ahead_cost_;
  if (done <= 0) return -1;
  return std::max(0.0, (planned_cost_ - done_cost_ - ahead_cost_) / done * ElapsedSeconds(now_us));
}

double ProgressMeter::ElapsedSeconds(int64_t now_us) const { return start_us_ < 0 ? 0 : (now_us - start_us_) / 1e6; }

}  // namespace varifocal
