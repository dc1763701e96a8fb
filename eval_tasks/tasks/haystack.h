// Haystacks: long text that sentences are hidden in.
//
// A haystack is a stream of sentences that goes on for ever: real prose, invented prose, the same few lines again and
// again, or further needles. A context is its first so many words, cut anywhere behind a word (or in one, where whole
// words leave too much) so that every length can be filled, with the hidden sentences between its sentences at the
// depths they were given.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/tasks/context_plan.h"

namespace varifocal {

// The next sentence, with the separator in front of it (left out where it opens the context).
using SentenceStream = std::function<std::string()>;

struct Haystack {
  std::function<SentenceStream(Random& filler)> open;  // the Random outlives the stream
  std::string separator = " ";                         // in front of a hidden sentence
};

// What a suite may name: "lines" (a line of five sentences, again and again), "story" (invented prose), "prose" (the
// novels, from the beginning of any paragraph on). NOT_FOUND when prose is asked for and the novels are not there.
absl::StatusOr<Haystack> MakeHaystack(const TaskSpec& spec);

struct HiddenSentence {
  std::string text;
  double depth = 0;
};

class HaystackPlan : public ContextPlan {
 public:
  absl::string_view header() const override { return header_; }
  absl::string_view footer() const override { return footer_; }
  absl::string_view SeparatorBefore(int) const override { return ""; }  // units carry their own
  int unit_count_min() const override { return static_cast<int>(hidden_.size()) + 1; }
  int unit_count_max() const override { return 1 << 22; }
  std::vector<Unit> Build(int count, Random& filler) const override;
  std::optional<Unit> Alternative(const Unit&, Random&) const override { return std::nullopt; }
  std::string MoreText(int count, Random& filler) const override;
  std::vector<UnitSpan> Evidence(const std::vector<Unit>& units, int question_index) const override;

 protected:
  Haystack haystack_;
  std::string header_;
  std::string footer_ = "\n\n";
  std::vector<HiddenSentence> hidden_;      // in any order; of equal depths the first comes first
  std::vector<std::vector<int>> evidence_;  // of each question: indices into hidden_
};

}  // namespace varifocal
