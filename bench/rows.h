// Counts and a digest of a results database, to check a benchmark's answers before its times are reported.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/json.h"
#include "base/sha256.h"
#include "db/query.h"

namespace varifocal {

// The first value of the first row.
inline int64_t QueryCount(const std::string& database, const std::string& sql) {
  int64_t count = 0;
  const absl::Status status = db::RunQuery(database, sql,
                                           {.start = [](const auto&) { return absl::OkStatus(); },
                                            .add =
                                                [&](const std::vector<Json>& row) {
                                                  count = row[0].get<int64_t>();
                                                  return absl::OkStatus();
                                                }});
  VF_CHECK(status.ok());
  return count;
}

// A digest of every answer and score, without ids, times and executions.
inline std::string RowsHash(const std::string& database) {
  std::string rows;
  const absl::Status status =
      db::RunQuery(database, "SELECT * FROM v_content ORDER BY variant, task, context_length, sample_index, metric",
                   {.start = [](const auto&) { return absl::OkStatus(); },
                    .add =
                        [&](const std::vector<Json>& row) {
                          absl::StrAppend(&rows, Json(row).dump(), "\n");
                          return absl::OkStatus();
                        }});
  VF_CHECK(status.ok());
  return Sha256Hex(rows);
}

}  // namespace varifocal
