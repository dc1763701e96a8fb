// An attention strip: a row for each layer and head, equal parts of the prompt from left to right, darker for more of the
// head's weight (on a logarithmic scale), the evidence marked above.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

// SVG. `is_alone`: a file of its own, with its style; else the page's classes.
std::string DrawStrip(const std::string& title, const StripPlace& place, const std::vector<StripRow>& rows,
                      bool is_alone);

}  // namespace varifocal::report
