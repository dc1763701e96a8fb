// Proto messages of server-only types: hosted models, jobs, estimates. wire/ has the conversions shared with the
// client.
#pragma once

#include "absl/status/statusor.h"
#include "server/hosting/model_host.h"
#include "server/jobs/job_estimate.h"
#include "server/jobs/job_manager.h"
#include "varifocal/v1/evaluation.pb.h"
#include "varifocal/v1/inference.pb.h"

namespace varifocal {

void ToProto(const HostedModel& model, v1::Model* proto);
void ToProto(const ModelHost::OffModel& model, v1::Model* proto);
// `spec` is set if requested; this fails only if the database contains a spec that this version cannot read.
absl::Status ToProto(const JobView& view, bool with_spec, v1::Job* proto);
void ToProto(const JobEstimate& estimate, v1::JobEstimate* proto);
// INVALID_ARGUMENT (BAD_SCORES, BAD_RESOURCE_NAME) beyond a limit, and for what is no hash, name or value from 0 to 1.
absl::StatusOr<db::Judgments> FromProto(const v1::ImportScoresRequest& request);

}  // namespace varifocal
