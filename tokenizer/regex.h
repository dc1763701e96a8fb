// Regular expressions of tokenizer.json, through PCRE2 in UTF and UCP mode.
//
// Character sets (\s \w \d \h \p{..}) are rewritten to those of the `tokenizers` library's engine, which follows a newer
// Unicode release than Debian's PCRE2; ^ and $ match at lines, as there. Sets inside brackets and && are rewritten
// too; other syntax that PCRE2 interprets differently is rejected. Common patterns use dedicated scanners instead (word_scanner.h).
//
// Errors:  INVALID_ARGUMENT with PCRE2's message and the offset when a pattern does not compile; RESOURCE_EXHAUSTED
//          when a match exceeds PCRE2's limits (excessive backtracking).
// Threads: const use from any number of threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tokenizer/text_range.h"

namespace varifocal {

class Regex {
 public:
  static absl::StatusOr<std::shared_ptr<const Regex>> Compile(absl::string_view pattern);
  // Finds the literal text.
  static absl::StatusOr<std::shared_ptr<const Regex>> CompileLiteral(absl::string_view literal);
  ~Regex();

  // The matches that are not empty, left to right, without overlap. `text` is well-formed UTF-8.
  absl::StatusOr<std::vector<TextRange>> FindAll(absl::string_view text) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace varifocal
