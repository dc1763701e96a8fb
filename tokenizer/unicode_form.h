// The four normal forms of Unicode, as the `tokenizers` library knows them: characters that are newer than its tables
// stay as they are.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace varifocal {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` is well-formed UTF-8.
absl::Status ApplyUnicodeForm(UnicodeForm form, std::string& text);

}  // namespace varifocal
