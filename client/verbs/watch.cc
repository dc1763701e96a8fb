// varifocal watch: follows a job to its end.
#include "base/status_macros.h"
#include "client/jobs.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

class Watch : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("JOB", &job_, "the job, as 3 or jobs/3").Required();
    outcome_.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    ASSIGN_OR_RETURN(const std::string name, JobName(job_));
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    ASSIGN_OR_RETURN(const v1::Job job, FollowJob(*daemon, name, console));
    return PrintOutcome(job, outcome_, console);
  }

 private:
  std::string job_;
  OutcomeFlags outcome_;
};

}  // namespace

constinit const Verb kWatchVerb = {
    .name = "watch",
    .group = "Jobs",
    .summary = "follow a job to its end",
    .about =
        R"(Shows done / total, tokens per second and the remaining time: a bar on a terminal, a plain line every ten seconds
in a pipe, on standard error. Ends with the job; exit 1 unless it succeeded and every
sample has an answer. Interrupting it does not stop the job.
With --format=jsonl every change is a line on standard output.)",
    .examples = "varifocal watch 3\nvarifocal watch jobs/3 --format=jsonl | tail -1",
    .make = &Make<Watch>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client
