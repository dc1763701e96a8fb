// What `varifocal compare` prints for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/console.h"
#include "client/report/data/result_rows.h"
#include "db/pairing.h"
#include "db/records.h"
#include "db/stats/compare.h"

namespace varifocal::client {

// Both variants from the database.
struct ComparedSides {
  db::JobVariant keys[2];  // baseline, candidate
  db::VariantRecord variants[2];
  std::optional<int64_t> complete_job;  // an earlier one, where none was named and the newest lacks answers

  std::string Imported() const {
    std::vector<std::string> imported;
    if (db::IsImported(variants[0])) imported.push_back("baseline");
    if (db::IsImported(variants[1])) imported.push_back("candidate");
    return absl::StrJoin(imported, " ");
  }

  // "jobs/1", or "jobs/1 and jobs/7".
  std::string Jobs() const {
    const std::string first = absl::StrCat("jobs/", keys[0].job_id);
    return keys[1].job_id == keys[0].job_id ? first : absl::StrCat(first, " and jobs/", keys[1].job_id);
  }
};

struct ComparisonText {
  std::string metric;  // by this one alone; empty for each task's primary one
  bool all_metrics = false;
  double margin = 0;            // in percent of a metric's span
  bool is_max_t_asked = false;  // --adjust=max-t, which small families get and others do not
};

// The rows of `report`, of which there is at least one, and their notes.
void PrintComparison(const stats::ComparisonReport& report, const ComparedSides& sides,
                     const report::ResultContext& context, const ComparisonText& text, Console& console);

}  // namespace varifocal::client
