// The cost estimate of a job, as `submit --dry-run` shows it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/console.h"
#include "client/power.h"
#include "varifocal/v1/evaluation.pb.h"

namespace varifocal::client {

// `power` may be an error, which is then printed instead.
absl::Status PrintEstimate(const v1::JobEstimate& estimate, const absl::StatusOr<JobPower>& power, Console& console);

// An approximate duration: "about 50 s", "about 4 min", "about 2.5 h".
std::string RoughDuration(double seconds);

}  // namespace varifocal::client
