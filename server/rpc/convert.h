// Between protos and the structs of the other rooms. Conversion only: what a value may be is checked where it is used.
//
// Errors: INVALID_ARGUMENT (BAD_RESOURCE_NAME) for names that are not "models/NAME" or "jobs/ID".
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"
#include "server/jobs/job_estimate.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/model_host.h"
#include "varifocal/v1/config.pb.h"
#include "varifocal/v1/evaluation.pb.h"
#include "varifocal/v1/inference.pb.h"

namespace varifocal {

// "models/NAME" -> NAME, "jobs/17" -> 17. `field` is named in the error.
absl::StatusOr<std::string> ParseModelResource(absl::string_view name, absl::string_view field);
absl::StatusOr<int64_t> ParseJobResource(absl::string_view name, absl::string_view field);

absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& proto);
void ToProto(const JobSpec& spec, v1::JobSpec* proto);
void ToProto(const HostedModel& model, v1::Model* proto);
// `spec` is filled in when asked for; that can fail only when the database holds a spec that this version cannot read.
absl::Status ToProto(const JobView& view, bool with_spec, v1::Job* proto);
void ToProto(const JobEstimate& estimate, v1::JobEstimate* proto);
void ToProto(const TaskKind& kind, v1::TaskKind* proto);

}  // namespace varifocal
