// Messages of what only the server has: hosted models, jobs, estimates. wire/ converts what the client has too.
#pragma once

#include "absl/status/status.h"
#include "server/hosting/model_host.h"
#include "server/jobs/job_estimate.h"
#include "server/jobs/job_manager.h"
#include "varifocal/v1/evaluation.pb.h"
#include "varifocal/v1/inference.pb.h"

namespace varifocal {

void ToProto(const HostedModel& model, v1::Model* proto);
// `spec` is filled in when asked for; that can fail only when the database holds a spec that this version cannot read.
absl::Status ToProto(const JobView& view, bool with_spec, v1::Job* proto);
void ToProto(const JobEstimate& estimate, v1::JobEstimate* proto);

}  // namespace varifocal
