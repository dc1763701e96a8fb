// A job with its references resolved: a validated spec, its models, its grid.
//
// All checks that are possible before the first sample are made here, so that a job is refused when it is submitted and
// not hours later; they are repeated when it runs, since models may have been unloaded or replaced.
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

// Concurrent samples of a job, by default, for each copy of the model that has the most.
inline constexpr int kInFlightOfCopy = 8;

// in_flight replaces a value of 0 in the spec; the default where both are 0.
absl::StatusOr<ResolvedJob> ResolveJob(JobSpec spec, const ModelHost& host, int in_flight);

// INVALID_ARGUMENT (IMPOSSIBLE_LENGTH) when a task that generates its questions cannot generate one at some length.
// User rows are not checked: a row that does not fit is a failed sample. `is_abandoned`, if set, is called before every
// prompt; CANCELLED once it returns true.
absl::Status CheckLengthsArePossible(const ResolvedJob& job, const std::function<bool()>& is_abandoned = {});

}  // namespace varifocal
