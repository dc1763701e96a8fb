// A judge's prompt: a YAML file with what a model is asked about an answer, and how its reply is a score.
//
//   name: correct
//   prompt: |
//     Question and context: {excerpt}
//     Reference: {gold}
//     Answer: {answer}
//     Is the answer right? Reply yes or no:
//   choices: {" yes": 1, " no": 0}       # the most likely text decides; scores from 0 to 1
//
// or, in place of `choices`, a reply that is parsed:
//
//   grade: 'Rating: \[\[[0-9]+\]\]'       # a regular expression; the number in its last match is the grade
//   range: [1, 10]                        # the worst and the best grade
//   max_new_tokens: 256                   # of the reply (default 64)
//
// `chat: true` wraps the prompt in the judge's chat format. Slots: {answer}, {gold} (the first gold answer), {golds} (all, a
// line each), {task}, {excerpt} (text around the evidence), {prompt} (jobs with --keep-prompts). `{{` and `}}` are braces.
//
// Errors: INVALID_ARGUMENT naming the file and the key; FAILED_PRECONDITION where an answer lacks what a slot needs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/stored_answers.h"
#include "tokenizer/regex.h"

namespace varifocal::client {

struct JudgePrompt {
  std::string name;
  std::vector<std::string> parts;  // literal text and slot names in turn, beginning and ending with text
  bool is_chat = false;
  std::vector<std::pair<std::string, double>> choices;  // text and score; empty where the reply is parsed
  std::string pattern;                                  // of the grade
  std::shared_ptr<const Regex> grade;
  double worst_grade = 0, best_grade = 1;
  int64_t max_new_tokens = 64;

  absl::StatusOr<std::string> Render(const StoredAnswer& answer) const;
  // INVALID_ARGUMENT with the reply where it has no grade, or one out of range.
  absl::StatusOr<double> ScoreOf(absl::string_view reply) const;
};

absl::StatusOr<JudgePrompt> ReadJudgePrompt(const std::string& path);

}  // namespace varifocal::client
