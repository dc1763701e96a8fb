// Everything a report shows, read from one job of a database and estimated, before it becomes text. Variants of other
// jobs are called jobs/N/NAME here and bring what is known of them along.
//
// Source: estimates and tests come from db/stats; nothing is estimated here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/report/answer_table.h"
#include "client/report/report.h"
#include "client/report/result_rows.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/compare.h"
#include "db/stats/estimates.h"

namespace varifocal::report {

// One candidate against the baseline.
struct Versus {
  std::string candidate;
  stats::ComparisonReport report;
  std::string problem;  // why there is nothing to compare yet; the report is empty then
};

struct VariantAnswer {
  std::string variant;
  bool is_left_out = false;  // a variant of another job that was not asked this
  std::string answer;
  std::string error;            // of a failed sample
  std::optional<double> value;  // of the primary metric
};

// A question with what every variant said; the baseline's answer is first.
struct BrowserSample {
  std::string task, question_id;
  int64_t context_length = 0, sample_index = 0;
  std::string excerpt;  // prompt shortened around the evidence
  std::vector<std::string> gold;
  std::vector<VariantAnswer> answers;
  std::vector<std::string> outcomes;  // per candidate: "gain", "loss", "both-right", "both-wrong", "failed", "left-out"
};

struct ReportData {
  db::JobRow job;                      // the baseline's
  std::vector<db::JobRow> other_jobs;  // of candidates, in the order of the candidates
  std::vector<db::JobVariant> keys;    // beside `variants`: the names in the database
  std::string baseline;
  std::vector<db::VariantRecord> variants;  // the baseline first, then the candidates
  std::vector<db::TaskMetricRecord> metrics;
  std::vector<db::ExecutionRow> executions;
  std::vector<db::ScoreImportRow> score_imports;  // of the variants above
  std::vector<stats::Estimate> estimates;         // of the variants above
  std::vector<Versus> versus;
  AnswerTable answers;             // of the variants above
  std::vector<std::string> tasks;  // in the order they ran
  std::vector<int64_t> lengths;    // ascending
  std::vector<BrowserSample> samples;
  int64_t sample_total = 0;  // questions that the browser's were taken from
  double confidence = 0.95;
  double margin = stats::kDefaultMargin;
  std::string database_path;

  const db::VariantRecord& variant(const std::string& name) const;
  const db::TaskMetricRecord& metric(const std::string& task, const std::string& name) const;
  const db::TaskMetricRecord* primary_metric(const std::string& task) const;
};

absl::StatusOr<ReportData> CollectReportData(db::Reader& reader, const ReportOptions& options);

// Values from 0 (worst) to 1 (best) are shown in percent, others as they are.
bool IsShare(const db::TaskMetricRecord& metric);

// Whether an attention setting was applied at run time.
bool IsRunTime(const db::VariantRecord& variant);
// "trained with focal attention (constant, temperature 0.4)", "run with t = 0.7 and log-n = 4096, trained without", ...
std::string AttentionLabel(const db::VariantRecord& variant);

// What the rows of this candidate need beside themselves.
ResultContext ContextOf(const ReportData& data, const Versus& versus);

}  // namespace varifocal::report
