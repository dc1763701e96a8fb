// A score read from a file must be a number within its metric's bounds before any formula sees it.
//
// The writer stores nothing else; a damaged or hand-edited file may hold anything.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal::stats {

inline absl::Status CheckValue(const std::string& task, const std::string& metric, std::optional<double> value,
                               std::optional<double> worst, std::optional<double> best) {
  if (!value.has_value()) return absl::OkStatus();
  bool is_good = std::isfinite(*value);
  if (worst.has_value() && best.has_value()) {
    is_good = is_good && std::isfinite(*worst) && std::isfinite(*best) && *value >= std::min(*worst, *best) &&
              *value <= std::max(*worst, *best);
  }
  if (is_good) return absl::OkStatus();
  return DataLoss("the database is damaged: a score of task ", task, " is ", *value, ", which ", metric, " cannot be");
}

}  // namespace varifocal::stats
