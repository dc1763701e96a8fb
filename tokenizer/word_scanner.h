// Hand-written scanners for the word patterns that nearly every byte-level BPE file uses.
//
// With a general regex engine these patterns dominate encoding time and follow its own Unicode release; a scanner over
// unicode_classes.h is several times faster and agrees with the `tokenizers` library on every code point.
//
// Errors: none; every well-formed text is covered completely by words.
// Cost:   linear; a run of spaces is scanned at most twice.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace varifocal {

// Number of bytes of the word at the start of `text`, which is well-formed and not empty.
using WordScanner = size_t (*)(absl::string_view text);

// The words of ByteLevel with use_regex: GPT-2.
size_t ScanGpt2Word(absl::string_view text);

// The scanner for exactly this pattern (of a Split, behavior Isolated), or null when there is none.
WordScanner FindWordScanner(absl::string_view pattern);

}  // namespace varifocal
