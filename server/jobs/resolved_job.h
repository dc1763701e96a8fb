// A job with everything that it names: a validated spec, its models, its grid.
//
// All that can be wrong with a job before its first sample is found here, so that it is refused when it is submitted
// and not hours later; and found again when it runs, since models come and go.
//
// Errors: INVALID_ARGUMENT (BAD_JOB_SPEC, BAD_FOCAL_TEMPERATURE, CONTEXT_TOO_LONG, IMPOSSIBLE_LENGTH,
//         CHAT_FORMATS_DIFFER), NOT_FOUND (MODEL_NOT_FOUND), FAILED_PRECONDITION (MODEL_WITHOUT_TOKENIZER,
//         MODEL_WITHOUT_CHAT_FORMAT, CHAT_FORMAT_CHANGED), RESOURCE_EXHAUSTED (CACHE_TOO_SMALL).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "db/records.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/job_spec.h"
#include "server/hosting/model_host.h"

namespace varifocal {

struct ResolvedJob {
  JobSpec spec;
  Grid grid;
  std::vector<std::shared_ptr<HostedModel>> models;  // in spec.variants order
  std::vector<db::VariantRecord> variants;
};

// in_flight is for a spec that says 0.
absl::StatusOr<ResolvedJob> ResolveJob(JobSpec spec, const ModelHost& host, int in_flight);

// INVALID_ARGUMENT (IMPOSSIBLE_LENGTH) when a task that makes its own questions cannot make one at some length. A user's
// own rows are not looked at: a row that does not fit fails for itself.
// CANCELLED as soon as `is_abandoned`, when set, says so: it is asked before every prompt that is made.
absl::Status CheckLengthsArePossible(const ResolvedJob& job, const std::function<bool()>& is_abandoned = {});

}  // namespace varifocal
