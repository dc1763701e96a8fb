// varifocal list: the daemon's jobs.
#include <algorithm>
#include <ostream>

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
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    Rows rows(console, JobColumns());
    v1::ListJobsRequest request;
    int64_t left = all_ ? INT64_MAX : limit_;
    bool has_more = false;
    std::string reasons;
    PageTokens tokens;
    do {
      request.set_page_size(std::min<int64_t>(left, 1000));
      ASSIGN_OR_RETURN(const v1::ListJobsResponse page,
                       Call(daemon->evaluation(), &v1::Evaluation::Stub::ListJobs, request));
      for (const v1::Job& job : page.jobs()) {
        RETURN_IF_ERROR(rows.Add(JobJson(job)));
        if (job.error_message().empty()) continue;
        absl::StrAppend(&reasons, job.name(), " ", StateName(job.state()), ": ", job.error_message(), "\n");
      }
      left -= page.jobs_size();
      request.set_page_token(page.next_page_token());
      ASSIGN_OR_RETURN(has_more, tokens.HasNext(page.next_page_token(), page.jobs_size()));
    } while (left > 0 && has_more);
    RETURN_IF_ERROR(rows.Finish("No jobs yet; `varifocal submit quick --models=A,B` makes one."));
    if (console.format == Format::kText) console.out << reasons;
    if (has_more) console.err << "There are older ones: --all or a larger --limit shows them.\n";
    return ExitCode::kDone;
  }

 private:
  int64_t limit_ = 50;
  bool all_ = false;
};

}  // namespace

extern const Verb kListVerb;
constinit const Verb kListVerb = {
    .name = "list",
    .group = "Jobs",
    .summary = "the daemon's jobs, the newest first",
    .about = "One row per job: its state, suite, variants and progress; then why a job failed or is paused.",
    .examples = "varifocal list\nvarifocal list --all --format=csv > jobs.csv",
    .formats = "text json jsonl csv",
    .make = &Make<ListJobs>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client
