// Demonstrations of a user's rows: `shots` rows with their answers before each asked one.
//
// Which: the rows of one file in the order of digests of (shots_seed, task, row id) (eval_tasks/seeds.h), the first of them
// that are not about what is asked: not the asked row, no row of its context, none with its text. So nearly all questions
// have the same demonstrations, rows of one context always, and a prefix cache reads them once.
//
// Errors:  INVALID_ARGUMENT with the file and both numbers, for a file of too few rows.
// Threads: immutable.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/tasks/jsonl_rows.h"
#include "tokenizer/chat_format.h"

namespace varifocal {

class JsonlShots {
 public:
  JsonlShots() = default;  // none
  // `pool` are the rows of the file they come from.
  JsonlShots(const TaskSpec& spec, std::shared_ptr<const std::vector<JsonlRow>> pool);

  bool empty() const { return count_ == 0; }
  bool as_turns() const { return as_turns_; }
  // Refuses the first of `rows` for which there are too few; `path` is the pool's.
  absl::Status Check(const std::vector<JsonlRow>& rows, absl::string_view path) const;
  // Before the prompt of `asked`: its prompts with their answers, as a text or as turns of user and assistant.
  std::string Text(const JsonlRow& asked) const;
  std::vector<ChatTurn> Turns(const JsonlRow& asked) const;

 private:
  std::vector<const JsonlRow*> Of(const JsonlRow& asked) const;

  size_t count_ = 0;
  bool as_turns_ = false;
  std::string separator_;
  std::shared_ptr<const std::vector<JsonlRow>> pool_;
  std::vector<const JsonlRow*> order_;  // of its rows, by their digests
};

// The prompt of a row with its context, or with what is left of it.
std::string RowPrompt(const JsonlRow& row, absl::string_view context);

// What the table of parameters cannot say: a row is asked by a prompt or by messages, and what goes with either. Sets what
// turns need.
absl::Status CheckJsonlSpec(TaskSpec& spec);

}  // namespace varifocal
