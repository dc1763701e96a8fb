// ROUGE-1, -2, -L and -Lsum as the rouge-score package computes them, with its stemmer unless it is left out.
//
// Words are runs of a-z and 0-9 of the lowered text; those of more than three letters are stemmed. ROUGE-Lsum takes
// lines as sentences and, for each line of the reference, the union of its longest common subsequences with every line
// of the prediction; a word counts at most as often as it occurs on both sides.
//
// Source: Lin 2004; rouge-score 0.1.2, to which results are equal to the bit (recipes/goldens/make_helmet_metrics.py).
// Cost:   the product of the word counts in time and, one bit per cell, in memory.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal {

struct RougeScore {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

enum class Stemming { kPorter, kNone };

std::vector<std::string> RougeWords(absl::string_view text, Stemming stemming = Stemming::kPorter);

RougeScore RougeL(absl::string_view gold, absl::string_view prediction);
RougeScore RougeLsum(absl::string_view gold, absl::string_view prediction, Stemming stemming = Stemming::kPorter);

}  // namespace varifocal
