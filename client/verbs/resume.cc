// varifocal resume: continues a job with its missing samples.
#include <ostream>

#include "base/plural.h"
#include "base/status_macros.h"
#include "client/jobs.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

class Resume : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("JOB", &job_, "the job, as 3 or jobs/3").Required();
    flags.Add("allow-mixed", &allow_mixed_,
              "continue although backend, instruction set or code version differ; labels the job as mixed");
    flags.Add("wait", &wait_, "wait for the end of the job; exit 1 unless every sample is answered");
    outcome_.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    v1::ResumeJobRequest request;
    ASSIGN_OR_RETURN(*request.mutable_name(), JobName(job_));
    request.set_allow_mixed(allow_mixed_);
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    ASSIGN_OR_RETURN(const v1::Job job, Call(daemon->evaluation(), &v1::Evaluation::Stub::ResumeJob, request));
    if (wait_) {
      ASSIGN_OR_RETURN(const v1::Job ended, FollowJob(*daemon, job.name(), console));
      return PrintOutcome(ended, outcome_, console);
    }
    if (console.format != Format::kText) return DoneOr(PrintJson(console, JobJson(job)));
    const int64_t missing = job.progress().planned_count() - job.progress().done_count();
    console.out << job.name() << " " << StateName(job.state()) << ": " << WithThousands(missing)
                << Plural(missing, " sample left.\n", " samples left.\n");
    return ExitCode::kDone;
  }

 private:
  std::string job_;
  OutcomeFlags outcome_;
  bool allow_mixed_ = false, wait_ = false;
};

}  // namespace

constinit const Verb kResumeVerb = {
    .name = "resume",
    .group = "Jobs",
    .summary = "continue a cancelled or failed job with exactly its missing samples",
    .about =
        R"(Failed samples count as missing and run again. A job that was interrupted by a crash of its daemon needs no
resume: the next daemon on the same database continues it automatically. Answers of different backends, instruction
sets or code versions are mixed only with --allow-mixed.)",
    .examples = "varifocal resume 3 --wait",
    .make = &Make<Resume>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client
