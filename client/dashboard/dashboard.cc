#include "client/dashboard/dashboard.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/dashboard/pages.h"
#include "client/report/report.h"

namespace varifocal::client {
namespace {

// Scripts and styles are files of their own, so that nothing inside a page can be one.
constexpr char kPagePolicy[] =
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";
// The report is one file with its style and script inside.
constexpr char kReportPolicy[] =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

struct ReportEnding {
  const char* name;
  ReportFormat format;
  const char* content_type;
};

constexpr ReportEnding kReportEndings[] = {
    {"report", ReportFormat::kHtml, "text/html; charset=utf-8"},
    {"report.csv", ReportFormat::kCsv, "text/csv; charset=utf-8"},
    {"report.json", ReportFormat::kJson, "application/json"},
    {"report.md", ReportFormat::kMarkdown, "text/plain; charset=utf-8"},
    {"report.tex", ReportFormat::kLatex, "text/plain; charset=utf-8"},
};

int HttpStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

HttpAnswer Page(std::string html) {
  HttpAnswer answer;
  answer.body = std::move(html);
  answer.content_security_policy = kPagePolicy;
  return answer;
}

// Digits alone, without a sign or leading zeros: every job has one address.
bool ParseId(absl::string_view text, int64_t* id) {
  return !text.empty() && text[0] >= '1' && text[0] <= '9' && absl::SimpleAtoi(text, id) && absl::StrCat(*id) == text;
}

}  // namespace

HttpAnswer Dashboard::Answer(const HttpRequest& request) {
  absl::StatusOr<HttpAnswer> answer = Route(request);
  if (answer.ok()) return *std::move(answer);
  HttpAnswer page = Page(ErrorPage(absl::IsNotFound(answer.status()) ? "Not found" : "This cannot be shown",
                                   std::string(answer.status().message())));
  page.status = HttpStatus(answer.status());
  return page;
}

absl::StatusOr<HttpAnswer> Dashboard::Route(const HttpRequest& request) {
  if (request.path == "/style.css") return HttpAnswer{200, "text/css; charset=utf-8", StyleSheet(), kPagePolicy};
  if (request.path == "/script.js") return HttpAnswer{200, "text/javascript; charset=utf-8", Script(), kPagePolicy};
  if (request.path == "/") {
    int64_t before_id = 0;
    const auto before = request.parameters.find("before");
    if (before != request.parameters.end() && !ParseId(before->second, &before_id)) {
      return InvalidArgument("before is not the number of a job");
    }
    ASSIGN_OR_RETURN(std::string html, OverviewPage(database_path_, before_id, clock_.WallMicros(), cache_));
    return Page(std::move(html));
  }
  const std::vector<std::string> parts = absl::StrSplit(request.path, '/');
  int64_t job_id = 0;
  if (parts.size() >= 3 && parts[0].empty() && parts[1] == "jobs" && ParseId(parts[2], &job_id)) {
    if (parts.size() == 3) {
      ASSIGN_OR_RETURN(std::string html, JobPage(database_path_, job_id, clock_.WallMicros(), cache_));
      return Page(std::move(html));
    }
    if (parts.size() == 4) return Report(job_id, parts[3]);
  }
  return NotFound("There is no such page.");
}

absl::StatusOr<HttpAnswer> Dashboard::Report(int64_t job_id, absl::string_view ending) {
  for (const ReportEnding& known : kReportEndings) {
    if (ending != known.name) continue;
    ReportOptions options;
    options.database_path = database_path_;
    options.format = known.format;
    options.job_id = job_id;
    ASSIGN_OR_RETURN(const std::string key, RowsOfJob(database_path_, job_id));
    ASSIGN_OR_RETURN(const std::shared_ptr<const PageCache::Page> page,
                     cache_.Get(absl::StrCat("jobs/", job_id, "/", ending), key, /*may_be_old=*/false,
                                [&] { return RenderReport(options); }));
    return HttpAnswer{200, known.content_type, page->bytes, kReportPolicy};
  }
  return NotFound("A report is at report, report.csv, report.json, report.md or report.tex.");
}

}  // namespace varifocal::client
