// Parts of a user's checkout of HELMET:
// string constants of data.py and prompt files (configurations: config.h).
//
// Nothing is executed. data.py is parsed as string literals in functions; each text used in a prompt is identified by its
// SHA-256 at commit 4526dfb, and if not found, by its index among the function's literals, provided its slots are the
// expected ones. So this repository contains no text of upstream, and changes there are reported.
//
// Errors: NOT_FOUND for a missing file; INVALID_ARGUMENT with file, line, and the mismatch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "eval_tasks/helmet/template.h"

namespace varifocal::helmet {

// A string literal of a Python file with escapes resolved; an f-string verbatim.
struct PythonLiteral {
  std::string function;  // the top-level function or class before it; "" at the top
  int line = 0;
  std::string text;
};
absl::StatusOr<std::vector<PythonLiteral>> PythonLiterals(absl::string_view source);

// A text that differs from the known commit, or that was not found.
struct TextChange {
  std::string id;
  std::string sha256;  // empty: not found
  std::string message;
};

class UpstreamTexts {
 public:
  static absl::StatusOr<UpstreamTexts> Read(const std::string& checkout);

  const std::vector<TextChange>& changes() const { return changes_; }
  const std::string& data_py_sha256() const { return data_py_sha256_; }
  absl::StatusOr<std::string> Text(const std::string& id) const;  // "qa.user": upstream.cc has the list
  absl::StatusOr<Template> Form(const std::string& id) const;

 private:
  std::string data_py_sha256_;
  std::map<std::string, std::string> texts_;
  std::vector<TextChange> changes_;
};

}  // namespace varifocal::helmet
