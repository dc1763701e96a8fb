// The data of a report, read from one job of a database and estimated, before formatting. Variants of other jobs are
// named jobs/N/NAME.
//
// Source: estimates and tests come from db/stats; nothing is estimated here.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/report/data/agreement_table.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/arm_report.h"
#include "client/report/data/attention_table.h"
#include "client/report/data/depth_table.h"
#include "client/report/data/evidence_spans.h"
#include "client/report/data/group_table.h"
#include "client/report/data/report_options.h"
#include "client/report/data/result_context.h"
#include "client/report/data/thinking_table.h"
#include "db/failures.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/choice.h"
#include "db/stats/compare.h"
#include "db/stats/effective_length.h"
#include "db/stats/estimates.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::report {

// One candidate against the baseline.
struct CandidateComparison {
  std::string candidate;
  stats::ComparisonReport report;
  std::string problem;  // why there is nothing to compare yet; the report is empty then
};

struct VariantAnswer {
  std::string variant;
  bool is_left_out = false;  // a variant of another job that was not asked this
  std::string answer;
  std::string written;          // by the model, where filters took the answer out of it
  std::string error;            // of a failed sample
  std::optional<double> value;  // of the primary metric
  std::string finish_reason;
  int64_t new_token_count = 0, prefill_us = 0, decode_us = 0;
  bool is_scored = false;     // log-likelihoods of continuations
  uint32_t answer_kinds = 0;  // db/answer_kinds.h, as they are counted
};

// A question with the answers of all variants; the baseline's is first.
struct BrowserSample {
  std::string task, question_id;
  int64_t context_length = 0, sample_index = 0;
  int64_t nominal_length = 0;  // of the suite
  std::optional<int64_t> prompt_token_count;
  int64_t cut_token_count = 0;  // of the prompt, by the task
  bool has_lost_gold = false;   // the gold answer was in what was cut
  std::optional<double> depth;
  std::string excerpt;  // prompt shortened around the evidence
  std::vector<ByteSpan> evidence;
  std::vector<std::string> gold;
  std::string filters;  // that take the answers out of what is written, as a line; "" without any
  std::vector<VariantAnswer> answers;
  std::vector<std::string> outcomes;  // per candidate: "gain", "loss", "both-right", "both-wrong", "failed", "left-out"
};

// Cost of a variant's answers.
struct Work {
  int64_t answered_count = 0, computed_prompt_token_count = 0, new_token_count = 0;
  int64_t prefill_us = 0, decode_us = 0;
};

struct ReportData {
  db::JobRow job;                          // the baseline's
  std::vector<db::JobRow> other_jobs;      // of candidates, in the order of the candidates
  std::optional<int64_t> complete_job_id;  // an earlier one, where no job was named and the newest lacks answers
  std::vector<db::JobVariant> keys;        // beside `variants`: the names in the database
  std::string baseline;
  std::vector<db::VariantRecord> variants;  // the baseline first, then the candidates
  std::string chosen_metric;                // --metric; empty: each task's first
  std::vector<db::TaskMetricRecord> metrics;
  std::vector<db::ExecutionRow> executions;
  std::vector<db::FailureGroup> failures;         // of all these jobs
  std::vector<db::ScoreImportRow> score_imports;  // of the variants above
  std::map<int64_t, db::JobEpochs> epochs;        // by job
  stats::TestedLengths tested;                    // of these jobs; all lengths below are its
  std::vector<stats::Estimate> estimates;         // of the variants above
  stats::EffectiveLengthOptions effective_length_options;
  std::vector<stats::EffectiveLength> effective_lengths;  // likewise, in their order
  std::vector<stats::EffectiveLength> ruler_lengths;      // likewise, by RULER's published rule; of RULER's tasks alone
  std::vector<CandidateComparison> comparisons;
  ArmReport arms;                                   // of the baseline's job
  std::vector<std::vector<stats::Choice>> choices;  // of temperatures, for each sweep
  std::set<std::string> swept;                      // candidates that the temperature sweep shows, and no other chart
  AnswerTable answers;                              // of the variants above
  GroupTable groups;                                // likewise
  ThinkingTable thinking;                           // likewise
  AttentionTable attention;                         // likewise
  std::vector<std::string> tasks;                   // in the order they ran
  std::vector<int64_t> lengths;                     // ascending; of all tasks
  std::vector<BrowserSample> samples;
  int64_t sample_total = 0;                        // questions that the browser's were taken from
  DepthTable depths;                               // filled with the samples, as is `work`
  AgreementTable agreement;                        // filled for the page and Markdown
  std::vector<InspectedSample> inspected_samples;  // filled for the page, as `samples` are
  std::vector<Work> work;                          // in the order of `variants`
  double confidence = 0.95;
  double margin = stats::kDefaultMargin;
  bool with_max_t = false;  // asked for; whether a mean is adjusted by it is in its row
  std::string database_path;

  std::vector<std::string> VariantNames() const;
  // No answers are to come: every planned sample of the jobs has an answer or has failed, or the job has ended.
  bool IsEnded() const;
  // Whether a primary metric has a worst value, as which a failed answer counts, and whether one has none.
  bool HasWorstValue() const;
  bool LacksWorstValue() const;
  // "8K", "7 to 8 prompt tokens"; an empty task: of the mean over tasks.
  std::string Length(const std::string& task, int64_t length) const;
  // One colour on the whole page: of the variants that are no point of a sweep in their order, then of the others.
  int ColorOf(const std::string& variant) const;
  const db::VariantRecord& variant(const std::string& name) const;
  const db::TaskMetricRecord& metric(const std::string& task, const std::string& name) const;
  const db::TaskMetricRecord* primary_metric(const std::string& task) const;
  // Whether a planned sample of this cell has no answer, or the task is not asked at this length. A mean over tasks is
  // comparable with those at other lengths only where it holds for none of them.
  bool IsIncomplete(const std::string& variant, const std::string& task, int64_t length) const;
};

// All but what the format needs in addition (collect.h).
absl::StatusOr<ReportData> ReadReportData(db::Reader& reader, const ReportOptions& options);

// The same weights, configuration, tokenizer, number format and settings, where these are recorded: equal answers are expected.
bool IsSameFunction(const db::VariantRecord& a, const db::VariantRecord& b);

// Values from 0 (worst) to 1 (best) are shown in percent, others as they are.
bool IsShare(const db::TaskMetricRecord& metric);

// Whether a setting was applied at run time.
bool IsRunTime(const db::VariantRecord& variant);
// The same of attention; the switch of a chat template is none.
bool HasRunTimeAttention(const db::VariantRecord& variant);
// The rotation of positions that the model was trained with, "default theta=10000", of full layers first; "" where a file of an
// earlier version did not record it.
std::string RopeOf(const db::ModelRecord& model);
// "trained with focal attention (constant, temperature 0.4)", "run with t = 0.7 and log-n = 4096, trained without", ...
std::string AttentionLabel(const db::VariantRecord& variant);

// "trained with focal attention (constant, temperature 0.4)", "trained without focal attention".
std::string TrainedLabel(const db::VariantRecord& variant);

// How p adjusted of the means over tasks is computed: "Holm", "max-t", or Holm's with the reason why not max-t.
std::string AdjustmentLabel(const ReportData& data);

// Context of this candidate's rows.
ResultContext ContextOf(const ReportData& data, const CandidateComparison& comparison);

}  // namespace varifocal::report
