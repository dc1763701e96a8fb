// How far scores from elsewhere (a judge's, imported ones) agree with each other and with the first metric of each task: kappa
// with quadratic weights over all answers shown, intervals over contexts (db/stats/agreement.h).
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/agreement.h"

namespace varifocal::report {

class AgreementTable {
 public:
  // The answers of one variant. Reads none where no metric is imported.
  absl::Status Read(db::Reader& reader, const db::JobVariant& variant);

  // For people: a row for each pair that has an answer in common; empty where no score is imported.
  static const std::vector<std::string>& Titles();
  std::vector<std::vector<std::string>> Rows(double confidence) const;

 private:
  using AnswerKey =
      std::tuple<int64_t, std::string, std::string, int64_t, int64_t>;  // job, variant, task, length, index
  struct Scored {
    std::string cluster;
    double value = 0;
  };
  std::map<std::string, std::map<AnswerKey, Scored>> scores_;  // by metric
};

}  // namespace varifocal::report
