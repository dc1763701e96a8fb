// UTF-8 primitives: read a character, write one, repair a text.
//
// Repair follows the maximal-subpart rule of the Unicode standard (chapter 3, table 3-8): each longest prefix of a
// truncated character becomes one U+FFFD, as in Python's errors="replace" and Rust's from_utf8_lossy.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace varifocal {

// Length of the well-formed character at the start of `text`, and its code point; 0 when it is ill-formed or empty.
int ReadUtf8(absl::string_view text, uint32_t* code_point);

// The same for text known to be well-formed and not empty.
inline int ReadValidUtf8(const char* p, uint32_t* code_point) {
  const auto* u = reinterpret_cast<const uint8_t*>(p);
  if (u[0] < 0x80) {
    *code_point = u[0];
    return 1;
  }
  if (u[0] < 0xE0) {
    *code_point = (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
    return 2;
  }
  if (u[0] < 0xF0) {
    *code_point = (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu);
    return 3;
  }
  *code_point = (u[0] & 0x07u) << 18 | (u[1] & 0x3Fu) << 12 | (u[2] & 0x3Fu) << 6 | (u[3] & 0x3Fu);
  return 4;
}

void AppendUtf8(uint32_t code_point, std::string& out);

// Number of bytes at the start of `text` that are well-formed.
size_t ValidUtf8Prefix(absl::string_view text);

// Appends `text` to `out`, repaired; returns the number of U+FFFD inserted.
int64_t AppendRepairedUtf8(absl::string_view text, std::string& out);

}  // namespace varifocal
