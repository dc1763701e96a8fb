// Learned groups of the variants that have them: the setting at run time, its training, and the engine's statistics of
// the prompts, by task and length (docs/focus.md).
//
// The setting is `focus_attention` of the checkpoint, with the run-time values that the variant's name has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"
#include "db/reader.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::report {

// Means over answers.
struct GroupShares {
  double pairs_visible = 0;
  std::optional<double> largest_group;
};

class GroupTable {
 public:
  // Of the job's variants that `labels` names and that have groups; the label is what they are called here.
  absl::Status Read(db::Reader& reader, int64_t job_id, const std::map<std::string, std::string>& labels,
                    const stats::TestedLengths& tested);

  // `focus_attention` as it ran; null without groups.
  Json Setting(const std::string& variant) const;
  // Over all answers of that length, or those of one task. None where nothing was counted: no groups, no answers yet, or
  // answers of a program that did not count.
  std::optional<GroupShares> Of(const std::string& variant, const std::string& task, int64_t context_length) const;

  // For people: a row for each variant with groups, in the order of `variants`, and each length of its answers.
  static const std::vector<std::string>& Titles();
  std::vector<std::vector<std::string>> Rows(const std::vector<std::string>& variants) const;

 private:
  struct Variant {
    Json trained, run;                      // focus_attention of the checkpoint, and under the run-time values
    std::vector<db::GroupSharesRow> cells;  // in running order
  };
  std::map<std::string, Variant> variants_;
  stats::TestedLengths tested_;
};

}  // namespace varifocal::report
