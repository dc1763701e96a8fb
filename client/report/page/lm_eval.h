// The scores of one variant in the form of lm-evaluation-harness's results file, for tables that others build from such
// files (results.TASK["METRIC,none"], n-samples, configs, higher_is_better, versions, n-shot).
//
// A task at one of several lengths is TASK_LENGTH. Accuracies of choices have the harness's names, acc and acc_norm. The
// harness's standard errors treat questions as independent, which ours are not: they are "N/A", and the interval over
// clusters is under "varifocal".
//
// Source: lm-evaluation-harness 0.4.9, lm_eval/evaluator.py and loggers/evaluation_tracker.py.
#pragma once

#include <string>

#include "client/report/data/report_data.h"

namespace varifocal::report {

// Of the baseline; a file of the harness has one model.
std::string LmEvalJson(const ReportData& data);

}  // namespace varifocal::report
