// Samples of RULER's rows, imported or generated: prompts as upstream sends them, and what is stored of a row.
//
// Base models get `input` and `answer_prefix` in one text. In a chat format the user's message is `input`, and the answer
// begins with the prefix, stripped, unless it is left out.
#pragma once

#include "absl/status/status.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/ruler/kinds.h"
#include "eval_tasks/task.h"

namespace varifocal::ruler {

struct SampleForm {
  bool with_answer_prefix = true;
  bool special_tokens_in_text = false;  // the text has a model template, whose markers are tokens
};

// What does not depend on the row.
Sample StartSample(const TaskSpec& spec, const RulerTaskInfo& info, const SampleRequest& request);
absl::Status FillSample(const TaskSpec& spec, const RulerTaskInfo& info, const RulerRow& row, const SampleForm& form,
                        const TokenCounter& tokenizer, Sample& sample);

}  // namespace varifocal::ruler
