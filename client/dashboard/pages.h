// What the pages of the dashboard show, as HTML.
//
// Errors: those of db::Reader.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace varifocal::client {

// Jobs before `before_id` (0: all), the newest first.
absl::StatusOr<std::string> OverviewPage(const std::string& database_path, int64_t before_id, int64_t now_us);

absl::StatusOr<std::string> JobPage(const std::string& database_path, int64_t job_id, int64_t now_us);

std::string ErrorPage(const std::string& title, const std::string& sentence);

std::string StyleSheet();
std::string Script();

}  // namespace varifocal::client
