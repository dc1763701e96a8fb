// What answers cost where models think: mean tokens in thinking blocks and after them, and tokens for each right answer, by
// variant, task and length.
//
// A right answer is one of the primary metric's best value; an answer that is half right counts as a half. Its tokens are all
// new ones of the cell, those of wrong answers included.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "db/reader.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::report {

class ThinkingTable {
 public:
  // Of the job's variants that `labels` names; the label is what they are called here.
  absl::Status Read(db::Reader& reader, int64_t job_id, const std::map<std::string, std::string>& labels,
                    const stats::TestedLengths& tested);

  // Over all answers of that length, or those of one task. None where no answer may have blocks.
  std::optional<db::ThinkingCostRow> Of(const std::string& variant, const std::string& task,
                                        int64_t context_length) const;

  // For people: a row for each of `variants` and length; empty where none of them thinks anywhere.
  static const std::vector<std::string>& Titles();
  std::vector<std::vector<std::string>> Rows(const std::vector<std::string>& variants) const;

 private:
  std::map<std::string, std::vector<db::ThinkingCostRow>> cells_;  // by variant
  stats::TestedLengths tested_;
};

}  // namespace varifocal::report
