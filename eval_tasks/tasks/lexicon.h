// The words of the native tasks: the sections of lexicon.txt, compiled in.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/random.h"

namespace varifocal {

struct Lexicon {
  std::vector<std::string> first, second, names, places, objects, attributes;
};

const Lexicon& TheLexicon();
// A random index below `bound`.
inline int DrawIndex(size_t bound, Random& random) { return static_cast<int>(random.Below(bound)); }
// `[section]` lines and one word a line; '#' begins a comment line. Errors name the line.
absl::StatusOr<Lexicon> ParseLexicon(absl::string_view text);

}  // namespace varifocal
