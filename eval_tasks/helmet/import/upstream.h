// What the importer takes from a user's checkout of HELMET: string constants of data.py and prompt files (configurations:
// config.h).
//
// Nothing is executed. data.py is read as a row of string literals in functions; each text that a prompt needs is known
// by the SHA-256 it had at commit 4526dfb, and where that is not found, by its place among the function's literals, if
// its slots are the expected ones. So our repository holds no sentence of upstream's, and a change there is told.
//
// Errors: NOT_FOUND for a missing file; INVALID_ARGUMENT with file, line, and what does not match.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "eval_tasks/helmet/template.h"

namespace varifocal::helmet {

// A string literal of a Python file, its escapes resolved; an f-string as it stands between its quotes.
struct PythonLiteral {
  std::string function;  // the top-level function or class before it; "" at the top
  int line = 0;
  std::string text;
};
absl::StatusOr<std::vector<PythonLiteral>> PythonLiterals(absl::string_view source);

// A text that upstream had another wording of at the known commit, or that could not be found at all.
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
