// varifocal cancel: stops a job.
#include <ostream>

#include "base/status_macros.h"
#include "client/jobs.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

class Cancel : public Command {
 public:
  void AddFlags(FlagSet& flags) override { flags.AddPositional("JOB", &job_, "the job, as 3 or jobs/3").Required(); }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    v1::CancelJobRequest request;
    ASSIGN_OR_RETURN(*request.mutable_name(), JobName(job_));
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    ASSIGN_OR_RETURN(const v1::Job job, Call(daemon->evaluation(), &v1::Evaluation::Stub::CancelJob, request));
    if (console.format != Format::kText) return DoneOr(PrintJson(console, JobJson(job)));
    console.out << job.name() << " " << StateName(job.state()) << "; finished samples are kept, and `varifocal resume "
                << job.name() << "` continues it.\n";
    return ExitCode::kDone;
  }

 private:
  std::string job_;
};

}  // namespace

constinit const Verb kCancelVerb = {
    .name = "cancel",
    .group = "Jobs",
    .summary = "stop a job; finished samples are kept",
    .about =
        R"(Running samples are abandoned at once and count as missing; no partial results are stored. Cancelling twice
is harmless; a job that has ended cannot be cancelled.)",
    .examples = "varifocal cancel 3",
    .make = &Make<Cancel>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client
