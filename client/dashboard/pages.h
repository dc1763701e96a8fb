// What the pages of the dashboard show, as HTML.
//
// Errors: those of db::Reader.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/dashboard/page_cache.h"

namespace varifocal::client {

// Jobs before `before_id` (0: all), the newest first.
absl::StatusOr<std::string> OverviewPage(const std::string& database_path, int64_t before_id, int64_t now_us,
                                         PageCache& cache);

// Scores and outcomes, which need all rows of the job, are computed through `cache`; of a job that has not ended they may be
// older than its progress, and the page has their age.
absl::StatusOr<std::string> JobPage(const std::string& database_path, int64_t job_id, int64_t now_us, PageCache& cache);

// A key for PageCache of what is computed from the rows of a job.
absl::StatusOr<std::string> RowsOfJob(const std::string& database_path, int64_t job_id);

std::string ErrorPage(const std::string& title, const std::string& sentence);

std::string StyleSheet();
std::string Script();

}  // namespace varifocal::client
