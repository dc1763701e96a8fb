// The scores of one variant in the form of olmo-eval's metrics.json (tasks with metrics by scorer, a primary metric, a
// summary), for its results viewer and tables.
//
// A task at one of several lengths is TASK_LENGTH. The scorer of every metric is "varifocal". Intervals over clusters, which
// the form has no place for, are in the task's "config".
//
// Source: allenai/olmo-eval e8b88f1, src/olmo_eval/runners/common/models.py and processing/metrics.py.
#pragma once

#include <string>

#include "client/report/data/report_data.h"

namespace varifocal::report {

// Of the baseline; such a file has one model.
std::string OlmoEvalJson(const ReportData& data);

}  // namespace varifocal::report
