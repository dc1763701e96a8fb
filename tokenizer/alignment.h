// Alignment of a transformed text: for each of its bytes the range of the original text that it represents.
//
// Kept only when offsets are requested. All bytes of a character have the same range. The rules are those of the
// `tokenizers` library (its NormalizedString), because offsets must equal those that it reports: inserted leading text
// maps to the first character, a replacement of several characters to the last of them.
//
// Cost: 16 bytes per byte of text.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "tokenizer/text_range.h"

namespace varifocal {

using Alignment = std::vector<TextRange>;

// The identity: every byte maps to its character; the text begins at `shift` of the original.
Alignment AlignToItself(absl::string_view text, size_t shift);

// How each character of a new text derives from the old one, from left to right: 0 replaces the next old character, -n
// replaces it and n more, 1 is inserted and maps to the character before.
using Changes = std::vector<int32_t>;
Alignment AlignChanges(absl::string_view old_text, const Alignment& old_alignment, absl::string_view new_text,
                       const Changes& changes);

}  // namespace varifocal
