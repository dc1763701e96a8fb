// varifocal list: the jobs of the daemon, or of a file.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/jobs.h"
#include "client/page_tokens.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

class ListJobs : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("limit", &limit_, "N", "maximum number of jobs, the newest first (default 50)").AtLeast(1);
    flags.Add("all", &all_, "all of them");
    stored_.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, stored_.Open(global));
    Rows rows(console, JobColumns());
    std::string reasons;
    const auto add = [&](const v1::Job& job) -> absl::Status {
      if (!job.error_message().empty()) {
        absl::StrAppend(&reasons, job.name(), " ", StateName(job.state()), ": ", job.error_message(), "\n");
      }
      return rows.Add(JobJson(job));
    };
    ASSIGN_OR_RETURN(const bool has_more, reader == nullptr ? EachOfDaemon(global, add) : EachOfFile(*reader, add));
    RETURN_IF_ERROR(rows.Finish("No jobs yet; `varifocal submit quick --models=A,B` makes one."));
    if (console.format == Format::kText) console.out << reasons;
    if (has_more) console.err << "There are older ones: --all or a larger --limit shows them.\n";
    return ExitCode::kDone;
  }

 private:
  using Use = absl::FunctionRef<absl::Status(const v1::Job&)>;

  // True when there are older jobs than those used.
  absl::StatusOr<bool> EachOfDaemon(const GlobalFlags& global, Use use) const {
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    v1::ListJobsRequest request;
    int64_t left = all_ ? INT64_MAX : limit_;
    bool has_more = false;
    PageTokens tokens;
    do {
      request.set_page_size(std::min<int64_t>(left, kPageSize));
      ASSIGN_OR_RETURN(const v1::ListJobsResponse page,
                       Call(daemon->evaluation(), &v1::Evaluation::Stub::ListJobs, request));
      for (const v1::Job& job : page.jobs()) RETURN_IF_ERROR(use(job));
      left -= page.jobs_size();
      request.set_page_token(page.next_page_token());
      ASSIGN_OR_RETURN(has_more, tokens.HasNext(page.next_page_token(), page.jobs_size()));
    } while (left > 0 && has_more);
    return has_more;
  }

  absl::StatusOr<bool> EachOfFile(db::Reader& reader, Use use) const {
    int64_t before_id = 0;
    for (int64_t left = all_ ? INT64_MAX : limit_;;) {
      // One more than wanted, to detect older ones.
      const int64_t wanted = std::min<int64_t>(left, kPageSize);
      ASSIGN_OR_RETURN(std::vector<db::JobRow> rows, reader.Jobs(before_id, wanted + 1));
      const bool has_more = std::ssize(rows) > wanted;
      if (has_more) rows.pop_back();
      for (const db::JobRow& row : rows) {
        ASSIGN_OR_RETURN(const v1::Job job, StoredJob(reader, row, /*with_cells=*/false));
        RETURN_IF_ERROR(use(job));
      }
      left -= std::ssize(rows);
      if (!has_more || left == 0) return has_more;
      before_id = rows.back().job_id;
    }
  }

  static constexpr int64_t kPageSize = 1000;

  int64_t limit_ = 50;
  bool all_ = false;
  StoredJobsFlag stored_;
};

}  // namespace

constinit const Verb kListVerb = {
    .name = "list",
    .group = "Jobs",
    .summary = "the jobs of the daemon or of a database, the newest first",
    .about = "One row per job: its state, suite, variants and progress; then why a job failed or is paused.",
    .examples = "varifocal list\nvarifocal list --all --format=csv > jobs.csv\nvarifocal list --db=results.db",
    .formats = "text json jsonl csv",
    .make = &Make<ListJobs>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client
