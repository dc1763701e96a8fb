#include "client/report/inference_cells.h"

#include "absl/strings/str_cat.h"
#include "client/report/result_rows.h"
#include "client/report/text_format.h"

namespace varifocal::report {

InferenceCells MakeInferenceCells(const stats::Inference& row, double scale, int decimals) {
  InferenceCells cells;
  cells.difference = Signed(row.difference * scale, decimals);
  cells.clusters = CountLabel(row.cluster_count);
  cells.outcome = OutcomeLabel(row);
  cells.low = cells.high = cells.p = cells.p_sign_flip = cells.p_adjusted = cells.detectable = kNoValue;
  if (!row.can_infer) return cells;
  cells.low = Signed(row.low * scale, decimals);
  cells.high = Signed(row.high * scale, decimals);
  cells.p = PValue(row.p_value);
  cells.p_sign_flip = PValue(row.sign_flip.p_value);
  cells.p_adjusted = PValue(row.p_adjusted);
  cells.detectable =
      row.detectable_difference.has_value() ? Unsigned(*row.detectable_difference * scale, decimals) : "none";
  cells.is_decided = row.outcome == stats::Outcome::kBetter || row.outcome == stats::Outcome::kWorse;
  return cells;
}

std::string InferenceHtml(const InferenceCells& cells) {
  return absl::StrCat("<td class=\"n", cells.is_decided ? " strong" : "", "\">", cells.difference, "<small>", cells.low,
                      " to ", cells.high, "</small></td><td class=\"n\">", EscapeHtml(cells.p), "<small>",
                      EscapeHtml(cells.p_sign_flip), "</small></td><td class=\"n\">", EscapeHtml(cells.p_adjusted),
                      "</td><td class=\"n\">", cells.outcome, "<small>", cells.detectable, "</small></td>");
}

std::string InferenceHeads(double confidence, const char* difference) {
  return absl::StrCat("<th class=\"n\">", difference, "<small>", ConfidenceLabel(confidence),
                      " interval</small></th><th class=\"n\">p<small>sign flips</small></th>"
                      "<th class=\"n\">p adjusted</th><th class=\"n\">Outcome<small>detectable</small></th>");
}

}  // namespace varifocal::report
