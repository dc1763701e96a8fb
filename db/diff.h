// Bit-for-bit comparison of what two databases contain: `varifocal diff A.db B.db`.
//
// Rows of v_content are paired by (data_seed, variant, task, context_length, sample_index, metric); where jobs repeat a
// key, rows are paired in sorted order. Doubles are compared by their bits. Ids, times, executions, timings and suite
// names are ignored.
//
// Cost: one pass over both sorted views; memory for one row of each side and the differences kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace varifocal::db {

struct ContentDifference {
  std::string variant, task, metric;
  int64_t data_seed = 0, context_length = 0, sample_index = 0;
  std::string column;  // the first column that differs; "" when the row is on one side only
  std::string a, b;    // its values as text; "(no row)" where the row is missing
};

struct ContentDiff {
  int64_t row_count_a = 0;
  int64_t row_count_b = 0;
  int64_t difference_count = 0;
  std::vector<ContentDifference> differences;  // the first differences_max of them
};

absl::StatusOr<ContentDiff> DiffDatabases(const std::string& path_a, const std::string& path_b,
                                          int64_t differences_max = 100);

}  // namespace varifocal::db
