#include "client/progress.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace varifocal::client {
namespace {

constexpr int64_t kQuietUs = 2'000'000;         // what is over sooner needs no progress
constexpr int64_t kTerminalPeriodUs = 200'000;  // five times a second looks alive
constexpr int64_t kPipePeriodUs = 10'000'000;   // a log of an hour stays under 400 lines
constexpr int kBarColumns = 24;

}  // namespace

Progress::Progress(Console& console, std::string label, const Clock& clock)
    : console_(console), label_(std::move(label)), clock_(clock), start_us_(clock.MonotonicMicros()) {}

std::string Progress::Line(const State& state, bool bar) const {
  std::string line = absl::StrCat(label_, " ");
  if (state.total_count > 0) {
    const double share = std::clamp(static_cast<double>(state.done_count) / state.total_count, 0.0, 1.0);
    if (bar) {
      const int full = static_cast<int>(share * kBarColumns);
      absl::StrAppend(&line, "[", std::string(full, '#'), std::string(kBarColumns - full, '.'), "] ");
    }
    absl::StrAppend(&line, WithThousands(state.done_count), "/", WithThousands(state.total_count),
                    absl::StrFormat(" (%d%%)", static_cast<int>(share * 100)));
  } else {
    absl::StrAppend(&line, WithThousands(state.done_count));
  }
  if (state.tokens_per_second > 0) {
    absl::StrAppend(&line, "  ", WithThousands(std::llround(state.tokens_per_second)), " tokens/s");
  }
  double remaining = state.remaining_seconds;
  const int64_t ours = state.done_count - std::max<int64_t>(first_done_count_, 0);
  if (remaining < 0 && state.total_count > state.done_count && ours > 0) {
    remaining = (clock_.MonotonicMicros() - start_us_) * 1e-6 * (state.total_count - state.done_count) / ours;
  }
  if (remaining >= 0 && state.done_count < state.total_count) {
    absl::StrAppend(&line, "  ETA ", HumanDuration(remaining));
  }
  return line;
}

void Progress::Update(const State& state) {
  state_ = state;
  if (first_done_count_ < 0) first_done_count_ = state.done_count;
  Show(/*last=*/false);
}

void Progress::EraseLine() {
  console_.err << std::flush;
  (console_.controls == nullptr ? console_.err : *console_.controls) << "\r\x1b[K" << std::flush;
}

void Progress::Show(bool last) {
  const int64_t now_us = clock_.MonotonicMicros();
  if (now_us - start_us_ < kQuietUs) return;
  const int64_t period_us = console_.err_is_terminal ? kTerminalPeriodUs : kPipePeriodUs;
  if (!last && shown_us_ >= 0 && now_us - shown_us_ < period_us) return;
  shown_us_ = now_us;
  if (console_.err_is_terminal) {
    std::string line = Line(state_, /*bar=*/true);
    if (std::ssize(line) > console_.width - 1) line.resize(console_.width - 1);
    EraseLine();
    console_.err << line << std::flush;
    on_line_ = true;
  } else {
    console_.err << Line(state_, /*bar=*/false) << "\n" << std::flush;
  }
}

void Progress::Clear() {
  if (on_line_) EraseLine();
  on_line_ = false;
}

void Progress::Finish() {
  if (shown_us_ < 0) return;
  Show(/*last=*/true);
  if (on_line_) console_.err << "\n" << std::flush;
  on_line_ = false;
}

}  // namespace varifocal::client
