// Text for a terminal: what could move the cursor, set a title, hide or reorder text is escaped.
//
// Escaped are the control characters of ASCII except line feed and tab, DEL, those of Latin-1 (U+0080 to U+009F), the characters
// that change the direction of text, and bytes that are no UTF-8, which some terminals take for Latin-1: "\u001b", "\x9b".
//
// Threads: any.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace varifocal {

// `rest` takes the beginning of a character that the text ends with; null: it is escaped.
std::string TerminalText(absl::string_view text, std::string* rest = nullptr);

}  // namespace varifocal
