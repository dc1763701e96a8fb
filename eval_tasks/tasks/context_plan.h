// The plan of a context: the contribution of one family of native tasks to a prompt.
//
// A prompt is header, units joined by separators, footer - all shared by the questions of a group - and one question
// line. A unit is a key-value pair, a labelled line, a document, a sentence. Some units are planted: they contain the
// evidence, depend only on the question's seed and are at the requested depth; the rest is filler. A family draws its
// plan before the length is known, and builds units once their number is; fit.h determines how many fit.
#pragma once

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
  std::string line;  // the text after the shared context
  std::vector<std::string> gold;
  std::vector<std::string> continuations;  // for multiple choice
  int gold_continuation_index = -1;
  double depth = 0;
  std::string chat_line;  // in chat form, before the instruction; "": the line up to its answer's beginning
};

struct Unit {
  std::string text;
  int planted = -1;        // the family's own number of a planted unit; -1 for filler
  std::vector<int> notes;  // private data of the family
};

// A span that begins in a unit, and may extend into the following ones.
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
  virtual int unit_count_max() const = 0;  // number of distinct units of the lexicon
  // Exactly `count` units, a function of `count` and the stream alone.
  virtual std::vector<Unit> Build(int count, Random& filler) const = 0;
  // A filler unit that may replace `unit`: same role, other words, so other length.
  // Nullopt when it cannot be replaced.
  virtual std::optional<Unit> Alternative(const Unit& unit, Random& filler) const = 0;
  // The text after `count` units, any prefix of which may be appended to the last unit of filler. Empty where units cannot
  // be split.
  virtual std::string MoreText(int count, Random& filler) const;
  // The evidence of question `question_index`, in unit order.
  virtual std::vector<UnitSpan> Evidence(const std::vector<Unit>& units, int question_index) const = 0;

  // Units of the evidence's form that do not answer question `question_index`, rising.
  virtual std::vector<int> DistractorUnits(const std::vector<Unit>& /*units*/, int /*question_index*/) const {
    return {};
  }

  // Truncation of the source text in a context of `count` units; nullopt for generated contexts.
  virtual absl::StatusOr<Truncation> MeasureTruncation(int count, const TokenCounter& tokenizer) const;

  const std::vector<PlannedQuestion>& questions() const { return questions_; }
  // Makes the lines those of a chat form: the question, and the instruction to answer with `answer_words`.
  void AskInChat(absl::string_view answer_words);

 protected:
  std::vector<PlannedQuestion> questions_;
};

// Distinct unit indices below `count` for planted units, as near as possible to these depths (0 start, 1 end), in the
// order of their depths (ties in the given order). count >= depths.size().
std::vector<int> PlaceAtDepths(const std::vector<double>& depths, int count);

}  // namespace varifocal
