// Haystacks: long text that sentences are hidden in.
//
// A haystack is an infinite stream of sentences: real prose, synthetic prose, a few repeated lines, or further needles.
// A context is a prefix of it, ending after a word (or inside one, if whole words leave too large a gap) so that every
// length can be filled, with the hidden sentences between its sentences at the given depths.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/tasks/context_plan.h"

namespace varifocal {

// The next sentence, with its leading separator (omitted at the start of the context).
using SentenceStream = std::function<std::string()>;

struct Haystack {
  std::function<SentenceStream(Random& filler)> open;  // the Random outlives the stream
  std::string separator = " ";                         // before a hidden sentence
};

// By name: "lines" (a repeated line of five sentences), "story" (synthetic prose), "prose" (the novels, from the
// beginning of any paragraph on). NOT_FOUND for prose when the novels are missing.
absl::StatusOr<Haystack> MakeHaystack(const TaskSpec& spec);

struct HiddenSentence {
  std::string text;
  double depth = 0;
};

class HaystackPlan : public ContextPlan {
 public:
  absl::string_view header() const override { return header_; }
  absl::string_view footer() const override { return footer_; }
  absl::string_view SeparatorBefore(int) const override { return ""; }  // included in the units
  int unit_count_min() const override { return hidden_.size() + 1; }
  int unit_count_max() const override { return 1 << 22; }
  std::vector<Unit> Build(int count, Random& filler) const override;
  std::optional<Unit> Alternative(const Unit&, Random&) const override { return std::nullopt; }
  std::string MoreText(int count, Random& filler) const override;
  std::vector<UnitSpan> Evidence(const std::vector<Unit>& units, int question_index) const override;
  // The other hidden sentences.
  std::vector<int> DistractorUnits(const std::vector<Unit>& units, int question_index) const override;

 protected:
  Haystack haystack_;
  std::string header_;
  std::string footer_ = "\n\n";
  std::vector<HiddenSentence> hidden_;      // in any order; stable for equal depths
  std::vector<std::vector<int>> evidence_;  // of each question: indices into hidden_
  bool filler_distracts_ = false;           // the haystack's own sentences have the form of the hidden ones
};

}  // namespace varifocal
