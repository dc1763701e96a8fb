// A Python format string: text with {slots}, doubled braces for literal braces;
// braces in slot values are not expanded.
//
// A slot's name is the text between its braces, e.g. "answer[0]"; slots without a name are called 0, 1, ..
//
// Errors: INVALID_ARGUMENT for unpaired braces, and for a slot that has no value.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal::helmet {

using SlotValues = std::map<std::string, std::string>;

class Template {
 public:
  static absl::StatusOr<Template> Parse(absl::string_view text);

  const std::vector<std::string>& slots() const { return slots_; }  // in order, with duplicates
  absl::StatusOr<std::string> Render(const SlotValues& values) const;
  // The same with further values, which take precedence.
  absl::StatusOr<std::string> Render(const SlotValues& first, const SlotValues& values) const;

 private:
  std::vector<std::string> texts_;  // one more than slots
  std::vector<std::string> slots_;
};

// The text parsed and rendered: for one that is filled once.
absl::StatusOr<std::string> RenderText(absl::string_view text, const SlotValues& values);

// str(value) of a value parsed from JSON by Python; nullopt for lists and objects.
absl::StatusOr<std::string> PythonStr(const Json& value);
// The same, also for lists, with repr() of their items.
absl::StatusOr<std::string> PythonRepr(const Json& value);

}  // namespace varifocal::helmet
