// The Porter stemmer with NLTK's extensions, as used for published ROUGE scores.
//
// Differences from the published algorithm: words of one or two letters are unchanged, a few irregular words are looked
// up, four letters ending in -ies or -ied give -ie, -y gives -i only after a consonant that is not the first letter, step
// 2 handles -fulli, -logi and -bli and repeats after -alli.
//
// Source: M. F. Porter, An algorithm for suffix stripping, 1980; NLTK 3's documented departures from it. Equal to
//         nltk.stem.porter on the words of recipes/goldens/make_helmet_metrics.py.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace varifocal {

// `word` is lower-case ASCII letters and digits.
std::string PorterStem(absl::string_view word);

}  // namespace varifocal
