// What kind of character is this: the classes that normalizers, pre-tokenizers and added tokens ask for.
//
// The tables hold what the `tokenizers` library answers for every code point (recipes/goldens/make_unicode_classes.py),
// because that library mixes several Unicode releases and ids must agree with it, not with a release.
//
// Cost: one load; the table of 2.2 MB is filled on first use.
#pragma once

#include <cstdint>

namespace varifocal {

inline constexpr uint16_t kLetter = 1;         // \p{L} of the regex engine
inline constexpr uint16_t kNumber = 2;         // \p{N} of the regex engine
inline constexpr uint16_t kSpace = 4;          // \s: White_Space
inline constexpr uint16_t kNumeric = 8;        // what Digits cuts at
inline constexpr uint16_t kWord = 16;          // \w, for single-word added tokens and Whitespace
inline constexpr uint16_t kInert = 32;         // not normalized, although newer Unicode releases would
inline constexpr uint16_t kMark = 64;          // what StripAccents takes away
inline constexpr uint16_t kPunctuation = 128;  // what Punctuation cuts at
inline constexpr uint16_t kControl = 256;      // what BertNormalizer cleans away
inline constexpr uint16_t kNonspacing = 512;   // what BertNormalizer's strip_accents takes away
inline constexpr uint16_t kJoining = 1024;     // belongs to the grapheme of the letter before it

// Of all code points in order: how many have the same classes, and these.
extern const uint32_t kUnicodeClassRuns[];
extern const int kUnicodeClassRunsSize;

// 0x110000 entries, one per code point.
const uint16_t* UnicodeClasses();

// Every `step`-th character from `first` to `last` has its lower case at `distance`.
struct LowercaseRange {
  uint32_t first, last, step;
  int32_t distance;
};
extern const LowercaseRange kLowercaseRanges[];
extern const int kLowercaseRangeCount;

// The lower case of one character, or the character. U+0130 has two characters and is the caller's business.
uint32_t ToLowercase(uint32_t code_point);

// Characters whose category PCRE2 may not know, because the library's regex engine follows a newer Unicode release.
struct NewerCharacters {
  uint32_t first, last;
  const char* category;  // "Lu"; also the script "Han"
};
extern const NewerCharacters kNewerCharacters[];
extern const int kNewerCharactersCount;

}  // namespace varifocal
