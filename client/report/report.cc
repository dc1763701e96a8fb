#include "client/report/report.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/report/comparison_table.h"
#include "client/report/page.h"
#include "client/report/report_data.h"
#include "client/report/score_table.h"
#include "db/reader.h"

namespace varifocal {
namespace {

absl::Status WriteFailed(const std::string& path) {
  const std::string message = absl::StrCat(path, " cannot be written: ", std::strerror(errno));
  if (errno == ENOENT) return absl::NotFoundError(message);
  if (errno == ENOSPC || errno == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::PermissionDeniedError(message);
}

// Written beside the target and renamed, so that a reader sees the old file or the new one.
absl::Status WriteWhole(const std::string& path, const std::string& bytes) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return WriteFailed(path);
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const absl::Status status = WriteFailed(path);
    std::remove(temporary.c_str());
    return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReportFormat> ParseReportFormat(absl::string_view name) {
  if (name == "html") return ReportFormat::kHtml;
  if (name == "csv") return ReportFormat::kCsv;
  if (name == "json") return ReportFormat::kJson;
  if (name == "markdown") return ReportFormat::kMarkdown;
  if (name == "latex") return ReportFormat::kLatex;
  return absl::InvalidArgumentError(
      absl::StrCat("the report format \"", name, "\" is not one of html, csv, json, markdown, latex"));
}

absl::StatusOr<std::string> RenderReport(const ReportOptions& options) {
  if (!(options.confidence > 0.5 && options.confidence < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the confidence is ", options.confidence, ", not between 0.5 and 1"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<db::Reader> reader, db::Reader::Open(options.database_path));
  ASSIGN_OR_RETURN(report::ReportData data, report::CollectReportData(*reader, options));
  const bool is_alone = data.versus.empty();  // then there are scores and nothing to compare them with
  switch (options.format) {
    case ReportFormat::kHtml:
      return report::ReportPage(data);
    case ReportFormat::kCsv:
      return is_alone ? report::ScoreTableCsv(data) : report::ComparisonTableCsv(data);
    case ReportFormat::kJson:
      return is_alone ? report::ScoreTableJson(data) : report::ComparisonTableJson(data);
    case ReportFormat::kMarkdown:
      return is_alone ? report::ScoreTableMarkdown(data) : report::ComparisonTableMarkdown(data);
    case ReportFormat::kLatex:
      return is_alone ? report::ScoreTableLatex(data) : report::ComparisonTableLatex(data);
  }
  return absl::InternalError("a report format without a writer");
}

absl::Status WriteReport(const ReportOptions& options) {
  ASSIGN_OR_RETURN(std::string bytes, RenderReport(options));
  return WriteWhole(options.output_path, bytes);
}

}  // namespace varifocal
