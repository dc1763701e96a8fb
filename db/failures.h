// The failed samples of a job by reason.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace varifocal::sqlite {
class Database;
}

namespace varifocal::db {

struct FailureGroup {
  std::string error_code;
  int64_t sample_count = 0;
  int64_t latest_us = 0;
  std::string latest_message;
};

// The most frequent first. Reads every answer of cells with failures.
absl::StatusOr<std::vector<FailureGroup>> ReadFailures(sqlite::Database& database, int64_t job_id);

}  // namespace varifocal::db
