#include "client/report/data/inspected_samples.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "client/report/data/attention_heads.h"

namespace varifocal::report {

absl::Status ReadInspectedSamples(db::Reader& reader, ReportData& data) {
  for (size_t i = 0; i < data.variants.size(); ++i) {
    const std::vector<int64_t> lengths = data.attention.Lengths(data.variants[i].name);
    if (lengths.empty()) continue;
    db::SampleQuery query;
    query.job_id = data.keys[i].job_id;
    query.variant = data.keys[i].name;
    query.context_length = lengths.back();
    query.task = data.tasks.front();
    query.sample_index = 0;
    query.limit = 1;
    ASSIGN_OR_RETURN(const std::vector<db::SampleDetail> details, reader.Samples(query));
    if (details.empty()) continue;
    const db::SampleDetail& detail = details.front();
    ASSIGN_OR_RETURN(const std::vector<db::AttentionHeadRecord> heads, reader.AttentionHeads(detail.generation_id));
    InspectedSample sample{.variant = data.variants[i].name,
                           .task = detail.sample.task,
                           .sample_index = detail.sample.sample_index,
                           .context_length = detail.sample.context_length,
                           .value = detail.scores.empty() ? std::nullopt : std::optional(detail.scores.front().value),
                           .rows = {},
                           .place = PlaceOf(detail.sample)};
    for (const db::AttentionHeadRecord& head : heads) {
      ASSIGN_OR_RETURN(StripRow row, ToStripRow(head));
      sample.rows.push_back(std::move(row));
    }
    if (!sample.rows.empty()) data.inspected_samples.push_back(std::move(sample));
  }
  return absl::OkStatus();
}

}  // namespace varifocal::report
