#include "client/report/data/collect.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "client/report/data/attention_heads.h"
#include "client/report/data/browser_samples.h"
#include "client/report/data/sweep.h"

namespace varifocal::report {
namespace {

// The samples of the strips: of each variant that was inspected, the first question at the longest length.
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

}  // namespace

absl::StatusOr<ReportData> CollectReportData(db::Reader& reader, const ReportOptions& options) {
  ASSIGN_OR_RETURN(ReportData data, ReadReportData(reader, options));
  data.swept = SweptCandidates(FindSweeps(data), data);
  RETURN_IF_ERROR(ChooseValues(reader, data));
  ArmReportOptions arms{data.job.job_id, data.keys[0].name, options.baseline_arm, options.axis, {}};
  arms.compare.confidence = data.confidence;
  arms.compare.margin = data.margin;
  ASSIGN_OR_RETURN(data.arms, CollectArms(reader, arms));
  if (options.format == ReportFormat::kHtml || options.format == ReportFormat::kMarkdown) {
    for (const db::JobVariant& key : data.keys) RETURN_IF_ERROR(data.agreement.Read(reader, key));
  }
  if (options.format == ReportFormat::kHtml || options.format == ReportFormat::kJson) {
    RETURN_IF_ERROR(CollectBrowserSamples(reader, options.browser_sample_count_max, data));
    RETURN_IF_ERROR(ReadInspectedSamples(reader, data));
  }
  return data;
}

}  // namespace varifocal::report
