// Names of a task at one of its lengths, for tables that know no lengths: TASK where it has one, else TASK_LENGTH.
#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/report/data/report_data.h"

namespace varifocal::report {

class TaskNames {
 public:
  explicit TaskNames(const ReportData& data) {
    for (const stats::Estimate& estimate : data.estimates) lengths_[estimate.task].insert(estimate.context_length);
  }

  std::string Of(const stats::Estimate& estimate) const {
    return lengths_.at(estimate.task).size() > 1 ? absl::StrCat(estimate.task, "_", estimate.context_length)
                                                 : estimate.task;
  }

 private:
  std::map<std::string, std::set<int64_t>> lengths_;
};

}  // namespace varifocal::report
