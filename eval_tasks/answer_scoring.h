// Scores of one answer: what its filters leave of it, and the values of its metrics.
#pragma once

#include "absl/status/status.h"
#include "eval_tasks/filters.h"
#include "eval_tasks/generator.h"
#include "eval_tasks/sample_sink.h"
#include "eval_tasks/task.h"

namespace varifocal {

// INTERNAL where the generator has not scored all that the sample asks for.
absl::Status CheckComplete(const Sample& sample, const Generation& generation);

// Fills in the answer and the scores of `record`, and the state of the generation's thinking.
absl::Status ScoreAnswer(const Sample& sample, const AnswerFilters& filters, Generation& generation,
                         SampleResult& record);

}  // namespace varifocal
