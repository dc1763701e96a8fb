// The labels of rows: what to know before a number is trusted. One table of word, sentence and condition.
//
// The word is shown beside a row and in `labels` of JSON and CSV; the sentence explains it. Readers: `compare`, the rows
// for programs, the tables of the report and the legend of its page. How many answers of a kind a cell has is a count,
// not a label: db/answer_kinds.h.
//
// Threads: pure functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "db/answer_kinds.h"
#include "db/stats/comparison.h"

namespace varifocal::stats {

// Words of the table that sentences and captions have as well.
inline constexpr char kSecondaryLabel[] = "secondary", kIncompleteLabel[] = "incomplete", kFailuresLabel[] = "failures",
                      kFragileLabel[] = "fragile", kExtrapolatedLabel[] = "extrapolated",
                      kTruncatedLabel[] = "truncated", kImportedLabel[] = "imported", kEndpointLabel[] = "endpoint";

// Beside the reason, in the place of an outcome's evidence.
inline constexpr char kNothingInferred[] = "nothing can be inferred";

// What conditions read.
struct LabelledRow {
  const Inference* inference = nullptr;  // none for the score of one variant
  bool is_secondary = false;             // of a metric that is not the task's first
  bool is_incomplete = false;            // samples are missing or failed
  bool is_imported = false, is_endpoint = false;
  std::vector<db::AnswerCounts> sides;  // baseline and candidate, or the one variant
  std::vector<std::string> rests_on;    // names of kinds of answers that the outcome rests on
};

struct Label {
  std::string word;
  std::string sentence;  // without the word, a capital letter and a period
  std::function<bool(const LabelledRow&)> holds;
};

// In the order in which a row has them.
const std::vector<Label>& LabelTable();
const Label& LabelOf(absl::string_view word);  // of the table; another word is a bug

std::vector<std::string> LabelsOf(const LabelledRow& row);  // words

}  // namespace varifocal::stats
