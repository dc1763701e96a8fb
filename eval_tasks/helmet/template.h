// A Python format string: text with {slots}, doubled braces for braces; filled in once, so that braces in what is
// filled in stay as they are.
//
// A slot's name is whatever stands between its braces, "answer[0]" as well; slots without a name are called 0, 1, ..
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

  const std::vector<std::string>& slots() const { return slots_; }  // in order, repeated ones as often as they stand
  absl::StatusOr<std::string> Render(const SlotValues& values) const;
  // The same with further values, which count first.
  absl::StatusOr<std::string> Render(const SlotValues& first, const SlotValues& values) const;

 private:
  std::vector<std::string> texts_;  // one more than slots
  std::vector<std::string> slots_;
};

// str(value) of a value as Python reads it from JSON; nothing for lists and objects.
absl::StatusOr<std::string> PythonStr(const Json& value);
// The same for lists too, as Python prints what stands in them.
absl::StatusOr<std::string> PythonRepr(const Json& value);

}  // namespace varifocal::helmet
