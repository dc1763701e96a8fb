// Database rows of a new job and of the program that runs it (provenance).
#pragma once

#include <string>
#include <vector>

#include "db/records.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/job_spec.h"
#include "server/hosting/model_host.h"

namespace varifocal {

// This process on this machine, with the backend described by `provenance`.
db::ExecutionRecord ToExecutionRecord(const ModelProvenance& provenance, const std::string& command_line);

db::VariantRecord ToVariantRecord(const Variant& variant, const HostedModel& model);
std::vector<db::TaskMetricRecord> ToTaskMetrics(const JobSpec& spec);  // of a validated spec
std::vector<db::CellRecord> ToCells(const Grid& grid);

}  // namespace varifocal
