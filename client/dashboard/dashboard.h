// The pages of `varifocal dashboard`: what is in a results database now, also while a daemon writes it.
//
//   /                    all jobs, the newest first, 25 a page: state, progress, speed, means so far, errors (?before=ID: older
//                        ones)
//   /jobs/N              one job: progress, mean scores so far with intervals, failures; outcomes once it has succeeded
//   /jobs/N/report       the page of `varifocal report`; report.csv, .json, .md and .tex are its other formats
//   /style.css, /script.js
//
// States and progress are read at the moment of the request; what needs all rows of a job is computed again when they have
// changed, and less often while it runs (page_cache.h). Pages of jobs that have not ended renew themselves.
//
// Errors:  answers with status 404 for what is not there, 400 or 409 for what cannot be shown, 500 for a database that
//          cannot be read, each with the sentence that the command line prints.
// Threads: any. Scores and reports are computed one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/http_server.h"
#include "client/dashboard/page_cache.h"

namespace varifocal::client {

class Dashboard {
 public:
  explicit Dashboard(std::string database_path, const Clock& clock = Clock::Real())
      : database_path_(std::move(database_path)), clock_(clock), cache_(clock) {}

  HttpAnswer Answer(const HttpRequest& request);
  const PageCache& cache() const { return cache_; }

 private:
  absl::StatusOr<HttpAnswer> Route(const HttpRequest& request);
  absl::StatusOr<HttpAnswer> Report(int64_t job_id, absl::string_view ending);

  const std::string database_path_;
  const Clock& clock_;
  PageCache cache_;
};

}  // namespace varifocal::client
