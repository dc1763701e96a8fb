#include "client/report/data/attention_heads.h"

#include "absl/status/status.h"
#include "base/json.h"
#include "eval_tasks/attention_inspection.h"

namespace varifocal::report {

absl::StatusOr<StripRow> ToStripRow(const db::AttentionHeadRecord& head) {
  absl::StatusOr<std::vector<double>> masses = DecodeStrip(head.strip);
  if (!masses.ok()) return absl::DataLossError(masses.status().message());
  return StripRow{head.layer, head.head, *std::move(masses), head.evidence_mass};
}

StripPlace PlaceOf(const db::SampleRecord& sample) {
  StripPlace place{sample.prompt_token_count.value_or(0), {}};
  const auto spans = ParseJson(sample.evidence_json.value_or("[]"));
  if (!spans.ok() || !spans->is_array()) return place;
  for (const Json& span : *spans) {
    if (!span.is_object()) continue;
    const Json begin = span.value("token_begin", Json()), end = span.value("token_end", Json());
    if (begin.is_number_integer() && end.is_number_integer())
      place.evidence.emplace_back(begin.get<int64_t>(), end.get<int64_t>());
  }
  return place;
}

std::vector<StripRow> StrongestOfEachLayer(const std::vector<StripRow>& rows) {
  std::vector<StripRow> strongest;
  for (const StripRow& row : rows) {
    if (strongest.empty() || strongest.back().layer != row.layer) {
      strongest.push_back(row);
    } else if (row.evidence_mass > strongest.back().evidence_mass) {
      strongest.back() = row;
    }
  }
  return strongest;
}

}  // namespace varifocal::report
