#include "server/jobs/progress_meter.h"

#include <algorithm>

namespace varifocal {
namespace {

constexpr int64_t kWindowUs = 30'000'000;

}  // namespace

void ProgressMeter::Update(const RunProgress& progress, int64_t now_us) {
  planned_weight_ = done_weight_ = 0;
  for (const CellProgress& cell : progress.cells) {
    planned_weight_ += static_cast<double>(cell.planned_count) * cell.cell.context_length;
    done_weight_ += static_cast<double>(cell.done_count) * cell.cell.context_length;
  }
  if (start_us_ < 0) {
    start_us_ = now_us;
    weight_at_start_ = done_weight_;
  }
  window_.push_back({now_us, progress.prompt_token_count - progress.cached_token_count + progress.new_token_count});
  // One point older than the window stays, so that the window is covered.
  while (window_.size() > 2 && window_[1].time_us <= now_us - kWindowUs) window_.pop_front();
}

double ProgressMeter::TokensPerSecond(int64_t now_us) const {
  if (window_.empty() || now_us <= window_.front().time_us) return 0;
  const int64_t tokens = window_.back().token_count - window_.front().token_count;
  return tokens * 1e6 / (now_us - window_.front().time_us);
}

double ProgressMeter::RemainingSeconds(int64_t now_us) const {
  const double done = done_weight_ - weight_at_start_;
  if (start_us_ < 0) return -1;
  if (done_weight_ >= planned_weight_) return 0;
  if (done <= 0) return -1;
  return std::max(0.0, (planned_weight_ - done_weight_) / done * ElapsedSeconds(now_us));
}

double ProgressMeter::ElapsedSeconds(int64_t now_us) const { return start_us_ < 0 ? 0 : (now_us - start_us_) / 1e6; }

}  // namespace varifocal
