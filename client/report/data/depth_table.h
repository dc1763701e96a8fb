// Scores by depth of the evidence and context length.
//
// The depth of a question is where its first evidence begins, as a share of the prompt's tokens; questions are put into
// quarters. A cell over tasks is the mean of the tasks' means. Counted while the samples are read (sample_browser.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "db/records.h"

namespace varifocal::report {

class DepthTable {
 public:
  static constexpr int kQuarterCount = 4;
  struct Mean {
    double sum = 0;
    int64_t count = 0;
  };

  // `value` as a share of the metric's span; samples without evidence are ignored.
  void Add(size_t variant_index, const db::SampleRecord& sample, double value);

  bool IsEmpty() const { return cells_.empty(); }
  // Over the questions of a task, or over tasks when `task` is empty; none where there are none.
  std::optional<double> MeanOf(size_t variant_index, const std::string& task, int64_t length, int quarter) const;
  int64_t CountOf(size_t variant_index, const std::string& task, int64_t length, int quarter) const;
  // The tasks with a question there.
  std::set<std::string> TasksOf(size_t variant_index, int64_t length, int quarter) const;
  bool HasTask(const std::string& task) const;

 private:
  std::map<std::tuple<size_t, int64_t, int, std::string>, Mean> cells_;  // variant, length, quarter, task
};

// Where the first evidence begins, from 0 to 1.
std::optional<double> DepthOf(const db::SampleRecord& sample);

}  // namespace varifocal::report
