// How far scores from elsewhere (a judge's, imported ones) agree with each other and with the first metric of each task: kappa
// with quadratic weights over all answers shown, intervals over contexts (db/stats/agreement.h).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "db/reader.h"
#include "db/stats/agreement.h"

namespace varifocal::report {

class AgreementTable {
 public:
  // The answers of one variant. Reads nothing where no metric is imported.
  absl::Status Read(db::Reader& reader, int64_t job_id, const std::string& variant,
                    const std::vector<db::TaskMetricRecord>& metrics);

  // For people: a row for each pair that has an answer in common; empty where no score is imported.
  static const std::vector<std::string>& Titles();
  std::vector<std::vector<std::string>> Rows(double confidence) const;

 private:
  struct Scored {
    std::string cluster;
    double value = 0;
  };
  std::map<std::string, std::map<std::string, Scored>> scores_;  // by metric, then by answer
};

}  // namespace varifocal::report
