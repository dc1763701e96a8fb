#include "client/report/page/inference_cells.h"

#include "absl/strings/str_cat.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {

InferenceCells MakeInferenceCells(const stats::Inference& row, double scale, int decimals) {
  InferenceCells cells;
  cells.difference = Signed(row.difference * scale, decimals);
  cells.clusters = CountLabel(row.cluster_count);
  cells.outcome = OutcomeLabel(row);
  cells.range = cells.p = cells.p_sign_flip = cells.p_adjusted = cells.detectable = kNoValue;
  if (!row.can_infer) return cells;
  cells.range = absl::StrCat(Signed(row.low * scale, decimals), " to ", Signed(row.high * scale, decimals));
  cells.p = PValue(row.p_value);
  cells.p_sign_flip = PValue(row.sign_flip.p_value);
  cells.p_adjusted = PValue(row.p_adjusted);
  cells.detectable =
      row.detectable_difference.has_value() ? Unsigned(*row.detectable_difference * scale, decimals) : "none";
  cells.is_decided = row.IsDecided();
  return cells;
}

std::string IntervalAndP(const stats::Inference& row, double scale, int decimals, double confidence) {
  const std::string interval =
      absl::StrCat(ConfidenceLabel(confidence), " interval ", Signed(row.low * scale, decimals), " to ",
                   Signed(row.high * scale, decimals));
  if (row.test_count < 2) return absl::StrCat(interval, ", ", PEquals(row.p_value));
  return absl::StrCat(interval, ", ", DecidingP(row, confidence), row.IsFoundAlone(1 - confidence) ? "" : " adjusted",
                      " for ", row.test_count, " tests");
}

std::string DecidingP(const stats::Inference& row, double confidence) {
  if (!row.IsFoundAlone(1 - confidence)) return PEquals(row.p_adjusted);
  return absl::StrCat(PEquals(row.p_value), " of this test alone, ", PEquals(row.p_adjusted), " adjusted");
}

std::string InferenceHtml(const InferenceCells& cells) {
  const auto small = [](const std::string& value) {
    return value == kNoValue ? "" : absl::StrCat("<small>", EscapeHtml(value), "</small>");
  };
  return absl::StrCat("<td class=\"n", cells.is_decided ? " strong" : "", "\">", cells.difference, small(cells.range),
                      "</td><td class=\"n minor\">", EscapeHtml(cells.p), small(cells.p_sign_flip),
                      "</td><td class=\"n minor\">", EscapeHtml(cells.p_adjusted), "</td><td class=\"n\">",
                      cells.outcome, small(cells.detectable), "</td>");
}

std::string InferenceHeads(double confidence, const char* difference) {
  return absl::StrCat("<th class=\"n\">", difference, "<small>", ConfidenceLabel(confidence),
                      " interval</small></th><th class=\"n minor\">p<small>sign flips</small></th>"
                      "<th class=\"n minor\">p adjusted</th><th class=\"n\">Outcome<small>detectable</small></th>");
}

}  // namespace varifocal::report
