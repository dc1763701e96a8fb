// --epochs-statistic of `compare` and `report`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/flags.h"
#include "client/usage.h"
#include "db/epochs.h"

namespace varifocal::client {

struct EpochsFlag {
  std::string statistic = "mean";

  void AddTo(FlagSet& flags) {
    flags.Add("epochs-statistic", &statistic, "NAME",
              "the value of a question with several answers: mean (unless given), majority, or pass@K: the chance that "
              "one of K is right");
  }
  absl::StatusOr<db::EpochStatistic> Read() const {
    const absl::StatusOr<db::EpochStatistic> read = db::ParseEpochStatistic(statistic);
    if (read.ok()) return read;
    return UsageError("--epochs-statistic=", statistic, ": ", read.status().message(), ".");
  }
};

}  // namespace varifocal::client
