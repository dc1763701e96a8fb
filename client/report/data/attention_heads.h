// What the heads of a sample attended to, as a strip shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "db/records.h"

namespace varifocal::report {

struct StripRow {
  int64_t layer = 0, head = 0;
  std::vector<double> masses;
  std::optional<double> evidence_mass;
};

struct StripPlace {
  int64_t token_count = 0;
  std::vector<std::pair<int64_t, int64_t>> evidence;  // tokens [begin, end)
};

// DATA_LOSS where a strip is not what EncodeStrip writes.
absl::StatusOr<StripRow> ToStripRow(const db::AttentionHeadRecord& head);
StripPlace PlaceOf(const db::SampleRecord& sample);

// For a page with many heads: of each layer the head with the most weight on the evidence.
std::vector<StripRow> StrongestOfEachLayer(const std::vector<StripRow>& rows);

}  // namespace varifocal::report
