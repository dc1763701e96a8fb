#include "client/report/data/evidence_spans.h"

#include "base/json.h"

namespace varifocal::report {

std::vector<ByteSpan> EvidenceSpans(absl::string_view evidence_json) {
  std::vector<ByteSpan> spans;
  const absl::StatusOr<Json> parsed = ParseJson(evidence_json);
  if (!parsed.ok() || !parsed->is_array()) return spans;
  for (const Json& span : *parsed) {
    if (!span.is_object() || !span.contains("byte_begin") || !span.contains("byte_end")) return {};
    if (!span["byte_begin"].is_number_integer() || !span["byte_end"].is_number_integer()) return {};
    spans.push_back({span["byte_begin"], span["byte_end"]});
  }
  return spans;
}

}  // namespace varifocal::report
