// How several answers to a question became one value, as `compare` and the pages say it.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "db/reader.h"

namespace varifocal::report {

// Of the sentence "epochs" (client/report/page/templates/sentences.txt); null where a question has one answer. `of_job` is
// "Job 7: " where there are several jobs.
inline Json EpochsNote(const db::JobEpochs& epochs, const std::string& of_job) {
  if (epochs.count == 1) return Json();
  using Kind = db::EpochStatistic::Kind;
  const db::EpochStatistic& statistic = epochs.statistic;
  const std::string value = statistic.kind == Kind::kMean       ? "their mean"
                            : statistic.kind == Kind::kMajority ? "that of the most frequent one (majority)"
                                                                : absl::StrCat("the expected best of ", statistic.k,
                                                                               " of them (", statistic.Name(), ")");
  return {{"job", of_job}, {"count", epochs.count}, {"value", value}};
}

}  // namespace varifocal::report
