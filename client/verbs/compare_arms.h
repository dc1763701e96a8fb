// varifocal compare --baseline-arm --candidate-arm: two arms of a job over their training seeds.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/console.h"
#include "client/verb.h"
#include "db/reader.h"
#include "db/stats/compare.h"

namespace varifocal::client {

struct ArmsRequest {
  std::optional<int64_t> job_id;  // the newest one otherwise
  std::string baseline, candidate;
  std::string task, metric;  // only these, where given
  bool all_metrics = false;  // in text, too
  bool is_gate = false;  // exit with 1 when the candidate is worse in a mean over tasks, or a row shown with a filter
  stats::CompareOptions options;
};

absl::StatusOr<ExitCode> CompareArms(db::Reader& reader, const ArmsRequest& request, Console& console);

}  // namespace varifocal::client
