// Metrics of the gold answer's log-likelihood after the prompt: they have values where the written answer is merely wrong.
//
// Their names begin with kGoldPrefix. A sample whose gold answer was not scored (gold_answer.h) has no value of them; one
// of them is never a task's primary metric.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/metric.h"

namespace varifocal {

// Adds them to every task of a validated suite that writes answers. INVALID_ARGUMENT where none does.
absl::Status AddGoldMetrics(SuiteSpec& suite);

absl::StatusOr<double> ScoreGoldLogLikelihood(const MetricInput& input);
absl::StatusOr<double> ScoreGoldLogLikelihoodPerToken(const MetricInput& input);
absl::StatusOr<double> ScoreGoldTokenCount(const MetricInput& input);
absl::StatusOr<double> ScoreGoldIsGreedy(const MetricInput& input);

}  // namespace varifocal
