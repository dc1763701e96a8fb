#include "client/report/data/collect.h"

#include "base/status_macros.h"
#include "client/report/data/browser_samples.h"
#include "client/report/data/inspected_samples.h"
#include "client/report/data/sweep.h"

namespace varifocal::report {

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
