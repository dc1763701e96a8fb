#include "db/stats/labels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace varifocal::stats {
namespace {

bool HasAny(const LabelledRow& row, int64_t db::AnswerCounts::*count) {
  return std::any_of(row.sides.begin(), row.sides.end(), [&](const db::AnswerCounts& side) { return side.*count > 0; });
}

// The label of outcomes that are others without answers of some kind.
Label RestsOn(const std::string& kind, const std::string& sentence) {
  return {absl::StrCat("rests_on_", kind), absl::StrCat(sentence, " (outcome_without_", kind, " in JSON)"),
          [kind](const LabelledRow& row) {
            return std::find(row.rests_on.begin(), row.rests_on.end(), kind) != row.rests_on.end();
          }};
}

std::vector<Label> MakeLabels() {
  std::vector<Label> labels = {
      {kSecondaryLabel, "the metric is not the first one of its task",
       [](const LabelledRow& row) { return row.is_secondary; }},
      {kIncompleteLabel, "samples are missing or failed", [](const LabelledRow& row) { return row.is_incomplete; }},
      {kFailuresLabel, "excluding the questions that failed on a side changes the outcome or leaves none",
       [](const LabelledRow& row) { return row.inference != nullptr && row.inference->failures_decide; }},
  };
  for (const db::AnswerKind& kind : db::kAnswerKinds) {
    labels.push_back(RestsOn(kind.name, absl::StrCat("excluding the questions with ", kind.answers,
                                                     " on a side changes the outcome or leaves none")));
  }
  labels.push_back(
      RestsOn(db::kSeveralKinds,
              "excluding one kind of answers changes nothing, excluding several kinds together changes the "
              "outcome or leaves none"));
  const std::vector<Label> others = {
      {kFragileLabel, "the sign-flip test and the t test, which gives interval and p, disagree at 0.05",
       [](const LabelledRow& row) { return row.inference != nullptr && row.inference->is_fragile; }},
      {"few_differ",
       absl::StrCat(
           "fewer than ", kSpreadClusterCountMin,
           " contexts differ from the other contexts, too few to estimate a variance: better or worse needs sign flips "
           "that agree"),
       [](const LabelledRow& row) {
         return row.inference != nullptr && row.inference->can_infer && row.inference->is_variance_borrowed &&
                !row.inference->IsDecided();
       }},
      {kExtrapolatedLabel, "some samples are longer than the texts that the model was trained with",
       [](const LabelledRow& row) { return HasAny(row, &db::AnswerCounts::extrapolated_count); }},
      {kTruncatedLabel, "the task truncated some prompts to the context length",
       [](const LabelledRow& row) { return HasAny(row, &db::AnswerCounts::truncated_count); }},
      {"forced", "the end of some thinking blocks was forced at thinking_max_tokens",
       [](const LabelledRow& row) { return HasAny(row, &db::AnswerCounts::forced_count); }},
      {"empty_blocks", "some answers follow a thinking block of nothing but white space",
       [](const LabelledRow& row) { return HasAny(row, &db::AnswerCounts::empty_block_count); }},
      {"nested_blocks", "some answers have a thinking block inside another",
       [](const LabelledRow& row) { return HasAny(row, &db::AnswerCounts::nested_count); }},
      {"repeated_blocks", "some answers have several thinking blocks",
       [](const LabelledRow& row) { return HasAny(row, &db::AnswerCounts::repeated_count); }},
      {kImportedLabel, "answers of another engine, read from a file",
       [](const LabelledRow& row) { return row.is_imported; }},
      {kEndpointLabel, "answers of a server over the network, whose bits are not promised",
       [](const LabelledRow& row) { return row.is_endpoint; }},
  };
  labels.insert(labels.end(), others.begin(), others.end());
  return labels;
}

}  // namespace

const std::vector<Label>& LabelTable() {
  static const std::vector<Label>* const labels = new std::vector<Label>(MakeLabels());
  return *labels;
}

const Label& LabelOf(absl::string_view word) {
  const auto found =
      std::find_if(LabelTable().begin(), LabelTable().end(), [&](const Label& label) { return label.word == word; });
  VF_CHECK(found != LabelTable().end(), "a label is in the table");
  return *found;
}

std::vector<std::string> LabelsOf(const LabelledRow& row) {
  std::vector<std::string> words;
  for (const Label& label : LabelTable()) {
    if (label.holds(row)) words.push_back(label.word);
  }
  return words;
}

}  // namespace varifocal::stats
