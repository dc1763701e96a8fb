#include "client/report/data/length_label.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {

std::string LengthLabel(const stats::TestedLengths& tested, const std::string& task, int64_t length) {
  const stats::TestedLength test = tested.At(task, length);
  return test.is_reached ? LengthLabel(length) : TokensLabel(test.tokens_min, test.tokens_max);
}

std::string ExactLengthLabel(const stats::TestedLengths& tested, const std::string& task, int64_t length) {
  return tested.At(task, length).is_reached ? CountLabel(length) : LengthLabel(tested, task, length);
}

std::string LongestLabel(const stats::TestedLengths& tested, const std::string& task, int64_t length) {
  const stats::TestedLength test = tested.At(task, length);
  return test.is_reached ? LengthLabel(length) : TokensLabel(test.tokens_max, test.tokens_max);
}

std::vector<std::string> LengthNotes(const stats::TestedLengths& tested) {
  std::vector<std::string> notes;
  for (const auto& [task, test] : tested.NotFilled()) {
    std::vector<std::string> repeated;
    for (size_t i = 1; i < test.nominal.size(); ++i) repeated.push_back(LengthLabel(test.nominal[i]));
    notes.push_back(absl::StrCat(
        task, " at ", LengthLabel(test.nominal.front()), " has ", TokensLabel(test.tokens_min, test.tokens_max),
        test.is_reached      ? ""
        : test.HasReaching() ? ", fewer than half of the prompts reach that length"
                             : ", no prompt reaches that length",
        repeated.empty() ? ""
                         : absl::StrCat(" (the same prompts at ", JoinWithAnd(repeated), " are not counted again)")));
  }
  return notes;
}

std::string LengthNote(const stats::TestedLengths& tested) {
  const std::vector<std::string> notes = LengthNotes(tested);
  return notes.empty() ? "" : absl::StrCat(" Prompts: ", absl::StrJoin(notes, "; "), ".");
}

void AddLength(const stats::TestedLengths& tested, const std::string& task, int64_t length, Json& row) {
  const stats::TestedLength test = tested.At(task, length);
  row["context_length"] = test.Tokens();
  if (test.tokens_max > 0) {
    row["prompt_tokens_min"] = test.tokens_min;
    row["prompt_tokens_max"] = test.tokens_max;
  }
  if (!test.nominal.empty()) row["nominal_lengths"] = absl::StrJoin(test.nominal, " ");
}

}  // namespace varifocal::report
