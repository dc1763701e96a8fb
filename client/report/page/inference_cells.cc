#include "client/report/page/inference_cells.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"
#include "db/stats/power.h"

namespace varifocal::report {

InferenceCells MakeInferenceCells(const stats::Inference& row, double scale, int decimals) {
  InferenceCells cells;
  cells.difference = Signed(row.difference * scale, decimals);
  cells.clusters = CountLabel(row.cluster_count);
  cells.outcome = OutcomeLabel(row);
  cells.range = cells.p = cells.p_sign_flip = cells.p_adjusted = cells.detectable = kNoValue;
  if (!row.can_infer) return cells;
  cells.tone = row.is_unfinished ? "" : stats::OutcomeName(row.outcome);
  cells.p = PValue(row.p_value);
  cells.p_sign_flip = PValue(row.sign_flip.p_value);
  cells.p_adjusted = PValue(row.p_adjusted);
  cells.is_decided = row.IsDecided();
  cells.untested = UntestedNote(row);
  if (!cells.untested.empty()) return cells;
  cells.range =
      absl::StrCat(Signed(row.adjusted_low * scale, decimals), " to ", Signed(row.adjusted_high * scale, decimals));
  cells.detectable =
      row.detectable_difference.has_value() ? Unsigned(*row.detectable_difference * scale, decimals) : "none";
  return cells;
}

std::string IntervalAndP(const stats::Inference& row, double scale, int decimals, double confidence) {
  if (row.LacksSpread()) return "";
  const std::string interval =
      absl::StrCat(ConfidenceLabel(confidence), " interval ", Signed(row.adjusted_low * scale, decimals), " to ",
                   Signed(row.adjusted_high * scale, decimals), ", ", PEquals(row.p_adjusted));
  return row.test_count < 2 ? interval : absl::StrCat(interval, ", adjusted for ", row.test_count, " tests");
}

std::string UntestedNote(const stats::Inference& row) {
  if (!row.LacksSpread()) return "";
  return Sentence(row.is_zero_everywhere ? "untested_equal" : "untested_few",
                  {{"count", stats::kSpreadClusterCountMin}});
}

std::string EnoughNote(const stats::Inference& row, double scale, int decimals, double confidence) {
  if (row.outcome != stats::Outcome::kUndecided || row.is_unfinished) return "";
  if (row.detectable_difference.value_or(1) <= stats::kFoundMax) return "";
  const std::optional<stats::EnoughContexts> enough = stats::ContextsEnough(row, stats::kFoundMax, confidence);
  if (!enough.has_value()) return "";
  return Sentence("contexts_enough", {{"count", CountLabel(enough->context_count)},
                                      {"have", CountLabel(row.cluster_count)},
                                      {"is_points", scale == 100},
                                      {"size", Unsigned(enough->detectable_difference * scale, decimals)}});
}

std::string RestsNote(const stats::Inference& row, const std::vector<AnswerSides>& sides, double scale, int decimals,
                      const std::string& at) {
  std::string note;
  for (const AnswersBehind& behind : KindsBehind(row, sides)) {
    const stats::AnsweredInference& part = row.without.at(behind.marks);
    Json values = {{"at", at},
                   {"answers", behind.answers},
                   {"counts", CountsBehind(behind.marks, sides)},
                   {"questions", part.value_count > 0 ? CountLabel(part.value_count) : ""},
                   {"is_one", part.value_count == 1},
                   {"can_infer", part.can_infer}};
    if (part.can_infer) {
      values["difference"] = Signed(part.difference * scale, decimals);
      values["is_points"] = scale == 100;
      values["low"] = Signed(part.adjusted_low * scale, decimals);
      values["high"] = Signed(part.adjusted_high * scale, decimals);
      values["p"] = PEquals(part.p_adjusted);
      values["outcome"] = stats::OutcomeName(part.outcome);
    }
    note += Sentence("rests_note", values);
  }
  return note;
}

std::string InferenceHtml(const InferenceCells& cells) {
  const auto small = [](const std::string& value) {
    return value == kNoValue ? "" : absl::StrCat("<small>", EscapeHtml(value), "</small>");
  };
  return absl::StrCat(
      "<td class=\"n", cells.is_decided ? " strong" : "", "\">", cells.difference, small(cells.range),
      "</td><td class=\"n minor\">", EscapeHtml(cells.p), small(cells.p_sign_flip), "</td><td class=\"n minor\">",
      EscapeHtml(cells.p_adjusted), "</td><td class=\"n\">", "<b class=\"", cells.tone, "\">", cells.outcome, "</b>",
      cells.untested.empty() ? small(cells.detectable)
                             : absl::StrCat("<small class=\"why\">", EscapeHtml(cells.untested), "</small>"),
      "</td>");
}

std::string InferenceHeads(double confidence, const char* difference) {
  return absl::StrCat("<th class=\"n\">", difference, "<small>", ConfidenceLabel(confidence),
                      " interval, adjusted</small></th><th class=\"n minor\">p<small>sign flips</small></th>"
                      "<th class=\"n minor\">p adjusted</th><th class=\"n\">Outcome<small>detectable</small></th>");
}

}  // namespace varifocal::report
