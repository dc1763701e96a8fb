// The four Unicode normalization forms, as in the `tokenizers` library: characters newer than its tables are left
// unchanged.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tokenizer/alignment.h"

namespace varifocal {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` is well-formed UTF-8. With an alignment, normalization is slower: character by character.
absl::Status ApplyUnicodeForm(UnicodeForm form, std::string& text, std::optional<Alignment>& alignment);

}  // namespace varifocal
