// What a job would cost, as `submit --dry-run` shows it.
#pragma once

#include "absl/status/status.h"
#include "client/console.h"
#include "varifocal/v1/evaluation.pb.h"

namespace varifocal::client {

absl::Status PrintEstimate(const v1::JobEstimate& estimate, Console& console);

}  // namespace varifocal::client
