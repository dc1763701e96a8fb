// What kind of character is this: the classes that pre-tokenizers and added tokens ask for.
//
// The table holds what the `tokenizers` library answers for every code point (recipes/goldens/make_unicode_classes.py),
// because that library mixes several Unicode releases and ids must agree with it, not with a release.
//
// Cost: one load; the table of 1.1 MB is filled on first use.
#pragma once

#include <cstdint>

namespace varifocal {

inline constexpr uint8_t kLetter = 1;   // \p{L} of the regex engine
inline constexpr uint8_t kNumber = 2;   // \p{N} of the regex engine
inline constexpr uint8_t kSpace = 4;    // \s: White_Space
inline constexpr uint8_t kNumeric = 8;  // what Digits cuts at
inline constexpr uint8_t kWord = 16;    // \w, for single-word added tokens
inline constexpr uint8_t kInert = 32;   // not normalized, although newer Unicode releases would

struct UnicodeClassRange {
  uint32_t first, last;
  uint8_t classes;
};
extern const UnicodeClassRange kUnicodeClassRanges[];
extern const int kUnicodeClassRangeCount;

// 0x110000 entries, one per code point.
const uint8_t* UnicodeClasses();

}  // namespace varifocal
