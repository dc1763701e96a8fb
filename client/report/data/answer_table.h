// Counts of failed, empty, refused, cut, extrapolated and truncated answers by variant, task and length, under the displayed names.
//
// A cell is extrapolated when one of its samples exceeds the model's trained length, independent of the cell's length:
// rows of a file may be shorter than it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "db/reader.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::report {

class AnswerTable {
 public:
  // Of the job's variants in `labels`, which maps to displayed names.
  absl::Status Read(db::Reader& reader, int64_t job_id, const std::map<std::string, std::string>& labels,
                    const stats::TestedLengths& tested);

  // Failed, empty (nothing but white space), refused (they begin like a refusal: db/refusal.h), cut (ended by the limit
  // on new tokens) and extrapolated answers, answers to truncated prompts, and those with thinking blocks of each kind.
  // Zeros for a cell without answers. An empty task means all tasks of that length.
  db::AnswerCounts Of(const std::string& variant, const std::string& task, int64_t context_length) const;
  std::set<int64_t> Lengths(const std::string& task) const;  // with answers of any variant; an empty task: of any
  bool IsExtrapolated(const std::string& variant, const std::string& task, int64_t context_length) const;
  bool IsExtrapolated(const std::string& variant) const;  // at any length

 private:
  std::map<std::tuple<std::string, int64_t, std::string>, db::AnswerCounts> cells_;  // by variant, length, task
};

// "2 failed, 3 empty, 4 refused, 1 cut, 13 truncated"; empty when there are none.
std::string CountsNote(const db::AnswerCounts& counts, bool with_failed = true);

// ", extrapolated, incomplete": the labels of a point in its tip.
std::string PointLabels(bool is_extrapolated, bool is_incomplete);

// Appends "baseline_empty_count" for the prefix "baseline_", and so for each kind of answers whose key is not there yet.
void AddCountKeys(const std::string& prefix, std::vector<std::string>& keys);

}  // namespace varifocal::report
