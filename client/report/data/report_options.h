// What a report is about, and its format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "db/epochs.h"

namespace varifocal {

enum class ReportFormat { kHtml, kCsv, kJson, kMarkdown, kLatex, kLmEval, kOlmoEval };

struct ReportOptions {
  std::string database_path;
  std::string output_path;  // see WriteReport
  ReportFormat format = ReportFormat::kHtml;
  bool is_long = false;                 // LaTeX: a line a cell instead of a row a model
  std::optional<int64_t> job_id;        // the newest job otherwise, or the newest ones with the variants named
  std::string baseline;                 // NAME or JOB/NAME; the job's first variant when empty
  std::vector<std::string> candidates;  // likewise; all other variants of the baseline's job when empty
  double confidence = 0.95;
  double margin = 0.03;                    // of equivalence, as a share of a metric's span
  double effective_share = 0.85;           // of the score at the shortest length: stats::EffectiveLengthOptions
  std::optional<double> effective_score;   // if given, this score instead
  bool with_max_t = false;                 // stats::CompareOptions::with_max_t
  std::string metric;                      // the primary one of each task that has it, instead of the task's first
  db::EpochStatistic epoch_statistic;      // of several answers to a question
  std::string baseline_arm;                // reference of the comparisons over training seeds; else the baseline's arm
  std::string axis;                        // of client/report/axis.h: this one alone, and CSV and LaTeX are its tables
  int64_t browser_sample_count_max = 240;  // samples in the page's browser, spread over tasks, lengths and outcomes
};

}  // namespace varifocal
