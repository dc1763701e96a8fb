// The rows of a user's file: one JSON object per line, parsed according to the parameters of a jsonl task.
//
// Errors: INVALID_ARGUMENT with the file and the row's line number, for the first bad row; a bad row rejects the file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/parameters.h"
#include "tokenizer/chat_format.h"

namespace varifocal {

// A piece of the prompt template: literal text, or the name of a field.
struct TemplatePart {
  bool is_field = false;
  std::string text;
};

// {field} is a field; {{ and }} are braces.
absl::StatusOr<std::vector<TemplatePart>> ParseTemplate(absl::string_view text);

struct JsonlRow {
  int line_number = 0;
  std::string id;
  std::string context;
  std::string cluster;               // "" when no field names it
  std::vector<TemplatePart> prompt;  // fields replaced, except the context
  std::vector<ChatTurn> turns;       // of a row that is asked by messages; then `prompt` is empty
  std::vector<std::string> gold;
  std::vector<std::string> choices;
  std::vector<int> gold_choices;      // indices of those that are gold answers
  std::vector<std::string> evidence;  // texts contained in the context
  std::string reference_json;         // of the field that metrics of benchmarks read, else ""
};

// Rows of one context adjacent, contexts in the order of their first rows. `path` is for messages.
absl::StatusOr<std::vector<JsonlRow>> ParseJsonlRows(const Parameters& parameters, absl::string_view path,
                                                     absl::string_view bytes);

}  // namespace varifocal
