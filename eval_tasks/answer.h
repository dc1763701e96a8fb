// Extracts the scored answer from a model's output: the text before the first stop string, stripped of white space, and outside
// of thinking blocks where the sample may have some.
//
// Both are stored, so that a change here affects scoring only, not inference.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"
#include "eval_tasks/token_counter.h"
#include "tokenizer/thinking.h"

namespace varifocal {

// The stop string that begins earliest wins, as in an engine that stops there.
absl::string_view BeforeStop(absl::string_view text, const std::vector<std::string>& stop_strings);
// The same without ASCII white space at either end.
std::string ProcessAnswer(absl::string_view text, const std::vector<std::string>& stop_strings);

// The output that is scored, before the first stop string.
struct ScoredAnswer {
  std::string output;
  std::optional<ThinkingState> thinking;  // none: the sample has no blocks
};
// `is_forced`: the answer follows the sample's forced text.
ScoredAnswer ScoredAnswerOf(const Sample& sample, absl::string_view text, bool is_forced);

// Adds the blocks of the model whose tokens `tokenizer` counts to a sample that is generated: the markers of `suite`, or its
// own, whether the prompt has opened a block, and what is forced. FAILED_PRECONDITION where neither has markers.
absl::Status AddThinking(const SuiteSpec& suite, const TaskSpec& task, const TokenCounter& tokenizer, Sample& sample);

// The tokens of a task's answers: `kind_tokens`, its kind's own number, takes space in the context length, unless the task
// states its answers'.
int AnswerTokens(const TaskSpec& task, int kind_tokens);
int TokensInContext(const TaskSpec& task, int kind_tokens);

}  // namespace varifocal
