// Output of `varifocal report`: an HTML page of one job's estimates, or the comparison table for papers; for a single
// variant, the table of its scores. Variants of other jobs of the database are included if they have questions in
// common (db/pairing.h).
//
// The page is one file that needs no network: figures are inline SVG, and the sample browser is a small script over
// rows of the page, which is readable without it. Everything is computed from the current database; the same database
// gives the same bytes.
//
// Errors:  those of db::Reader (NOT_FOUND, FAILED_PRECONDITION for an empty file, ...); INVALID_ARGUMENT for a variant
//          that the job does not have; NOT_FOUND for one of another job that was asked nothing alike; PERMISSION_DENIED
//          when the file cannot be written. Nothing is left half-written.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/report/data/report_options.h"

namespace varifocal {

// "html", "csv", "json", "markdown", "latex", "lm-eval", "olmo-eval"; INVALID_ARGUMENT lists them.
absl::StatusOr<ReportFormat> ParseReportFormat(absl::string_view name);

// The bytes of the report.
absl::StatusOr<std::string> RenderReport(const ReportOptions& options);

// The page's figures as NAME.svg and NAME.csv in a directory, which is made unless it exists; returns their names.
absl::StatusOr<std::vector<std::string>> WriteFigures(const ReportOptions& options, const std::string& directory);

// To output_path: a regular file is replaced whole or not at all, a link's target likewise; a device or a pipe is
// written to.
absl::Status WriteReport(const ReportOptions& options);

// Regular files are written beside the target and renamed, so that a reader sees the old file or the new one. What a
// link names is replaced, not the link; a device or a pipe is written to, never renamed over. FAILED_PRECONDITION for a
// database and its -wal, -shm and -journal.
absl::Status WriteWhole(const std::string& path, const std::string& bytes);

}  // namespace varifocal
