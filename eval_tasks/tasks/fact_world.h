// Small worlds of people, places and things, described by a sequence of facts, and candidate questions.
//
// Five kinds of question, after the first five tasks of bAbI: where a person is (one fact), where a thing is (its holder
// and that person's place), where a thing was before, which place is next to which, and who gave what to whom. A
// question has one answer, and lists its supporting facts.
//
// Source: Weston et al. 2015, arXiv:1502.05698 (the kinds); Kuratov et al. 2024, arXiv:2406.10149 (hiding them in
// books).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/random.h"

namespace varifocal {

struct FactQuestion {
  std::string line;  // "Question: ..\nAnswer: .." up to the answer
  std::string answer;
  std::vector<int> evidence;  // indices of facts, ascending
};

struct FactWorld {
  std::vector<std::string> facts;
  std::vector<FactQuestion> candidates;  // all candidates, about distinct people or things
};

struct FactKind {
  absl::string_view name;
  absl::string_view example;  // some facts, a question and its answer
  int fact_count_max = 0;
  FactWorld (*make)(int fact_count, Random& random) = nullptr;
};

// People of the facts; the novels have none of these words.
inline constexpr std::array<absl::string_view, 12> kFactNames = {
    "Ravi", "Odile", "Kenji", "Zora", "Milos", "Yusuf", "Ingrid", "Pavel", "Tamsin", "Bjorn", "Nadia", "Keiko"};
inline constexpr int kFactCountMin = 24;
inline constexpr int kFactCandidatesMin = 4;  // in every world

absl::Span<const FactKind> FactKinds();

}  // namespace varifocal
