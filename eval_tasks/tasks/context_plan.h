// A context in the making: what one family of native tasks contributes to a prompt.
//
// A prompt is header, units joined by separators, footer - all shared by the questions of a group - and one question
// line. A unit is a key-value pair, a labelled line, a document, a sentence. Some units are planted: they hold the
// evidence, are fixed by the question's own seed and stand at the asked depth; the rest is filler. A family draws its
// plan before the length is known, and builds units once their number is; how many fit is found by fit.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "eval_tasks/task.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {

struct PlannedQuestion {
  std::string line;  // what follows the shared context
  std::vector<std::string> gold;
  std::vector<std::string> continuations;  // for multiple choice
  int gold_continuation_index = -1;
  double depth = 0;
};

struct Unit {
  std::string text;
  int planted = -1;        // the family's own number of a planted unit; -1 for filler
  std::vector<int> notes;  // what the family wants to remember about it
};

// A stretch that begins in a unit, and may run on into those that follow it.
struct UnitSpan {
  int unit_index = 0;
  size_t offset = 0;
  size_t size = 0;
};

class ContextPlan {
 public:
  virtual ~ContextPlan() = default;

  virtual absl::string_view header() const = 0;
  virtual absl::string_view footer() const = 0;
  virtual absl::string_view SeparatorBefore(int unit_index) const = 0;  // unit_index > 0
  virtual int unit_count_min() const = 0;
  virtual int unit_count_max() const = 0;  // where the lexicon runs out of different units
  // Exactly `count` units, a function of `count` and the stream alone.
  virtual std::vector<Unit> Build(int count, Random& filler) const = 0;
  // Another filler unit that may stand in the place of `unit`: same role, other words, so other length. Nothing when
  // this one must stay.
  virtual std::optional<Unit> Alternative(const Unit& unit, Random& filler) const = 0;
  // What would come behind `count` units: any beginning of it may stand behind the last unit of filler. Nothing where
  // units are whole.
  virtual std::string MoreText(int count, Random& filler) const;
  // Where question `question_index` finds its answer, in unit order.
  virtual std::vector<UnitSpan> Evidence(const std::vector<Unit>& units, int question_index) const = 0;

  // What of a text that questions are about does not stand among `count` units; nothing for contexts made to measure.
  virtual absl::StatusOr<Truncation> WhatWasCut(int count, const TokenCounter& tokenizer) const;

  const std::vector<PlannedQuestion>& questions() const { return questions_; }

 protected:
  std::vector<PlannedQuestion> questions_;
};

// Different unit indices below `count` for planted units that want to stand at these depths (0 start, 1 end), as near
// as can be, in the order of their depths (of equals, in the given order). count >= depths.size().
std::vector<int> PlaceAtDepths(const std::vector<double>& depths, int count);

}  // namespace varifocal
