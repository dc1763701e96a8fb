// varifocal submit: asks the daemon to run a suite.
#include <ostream>

#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/estimate.h"
#include "client/job_flags.h"
#include "client/jobs.h"
#include "client/power.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

class Submit : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    suite_.AddTo(flags);
    flags.Add("models", &models_, "A,B,..", "models: NAME, or NAME@t=0.7 for a run-time focal temperature").Required();
    job_.AddTo(flags);
    flags.Add("dry-run", &dry_run_,
              "validate, and print statistical power and estimated time (from the median of a few short timed "
              "requests); stores nothing");
    power_.AddTo(flags);
    flags.Add("wait", &wait_, "wait for the end of the job; exit 1 unless every sample is answered");
    outcome_.AddTo(flags);
    repeat_.AddTo(flags);
    flags.Add("request-id", &request_id_, "ID",
              "what makes two calls the same job, whatever has changed between them (default: their content)");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    v1::SubmitJobRequest request;
    ASSIGN_OR_RETURN(*request.mutable_spec(), MakeJobSpec(suite_, job_, models_));
    request.set_validate_only(dry_run_);
    if (repeat_.is_new && !request_id_.empty()) return UsageError("--new and --request-id exclude each other.");
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    if (job_.focal_temperatures.has_value())
      RETURN_IF_ERROR(DropSameAsTrained(*daemon, models_, *request.mutable_spec(), console));
    request.set_request_id(request_id_);
    repeat_.Apply(request);
    ASSIGN_OR_RETURN(const v1::SubmitJobResponse response,
                     Call(daemon->evaluation(), &v1::Evaluation::Stub::SubmitJob, request));
    if (dry_run_) return DoneOr(PrintEstimate(response.estimate(), PlanPower(request.spec(), power_), console));
    const v1::Job& job = response.job();
    if (response.already_submitted()) {
      console.err << job.name() << " is this request, submitted before; for another job of it: --new\n";
    }
    if (wait_) {
      console.err << job.name() << " submitted; interrupting this command does not stop it.\n";
      ASSIGN_OR_RETURN(const v1::Job ended, FollowJob(*daemon, job.name(), console));
      return PrintOutcome(ended, outcome_, console);
    }
    if (console.format != Format::kText) return DoneOr(PrintJson(console, JobJson(job)));
    console.out << job.name() << " " << StateName(job.state()) << ": " << job.suite() << " for "
                << absl::StrJoin(job.variants(), ", ") << ", " << WithThousands(job.progress().planned_count())
                << Plural(job.progress().planned_count(), " sample.\n", " samples.\n");
    console.err << "Follow it: varifocal watch " << job.name();
    if (global.daemon.address != DaemonTarget().address) console.err << " --daemon=" << global.daemon.address;
    console.err << "\n";
    return ExitCode::kDone;
  }

 private:
  SuiteFlags suite_;
  JobFlags job_;
  PowerFlags power_;
  OutcomeFlags outcome_;
  RepeatFlags repeat_;
  std::string models_, request_id_;
  bool dry_run_ = false, wait_ = false;
};

}  // namespace

constinit const Verb kSubmitVerb = {
    .name = "submit",
    .group = "Jobs",
    .summary = "ask the daemon to run a suite on some models",
    .about =
        R"(Validates the suite, submits it as a durable job and returns at once; the daemon runs its jobs in order and
continues after any interruption. The same request again, about the same weights and data files, is the same job: the
call may be repeated. Every model gets the same questions at every length, so that differences can be
paired. A misspelt key of a suite file is an error with its line.

A model may be asked at a temperature it was not trained with: focal@t=0.7, or one number a layer,
focal@t=0.5,0.6. --focal-temperatures=0.5,0.7 adds such variants for every model named plainly; with
--focal-layers=early,late they have it in the first and the last third of their layers alone. A temperature that a
model was trained with is not asked again.)",
    .examples =
        "varifocal submit quick --models=baseline,focal --dry-run\n"
        "varifocal submit quick --models=baseline,focal --wait\n"
        "varifocal submit standard --models=baseline,focal,baseline@t=0.7 --lengths=8192,16384 --limit=24\n"
        "varifocal submit quick --models=baseline --focal-temperatures=0.5,0.7,0.85,1,1.2 --wait\n"
        "varifocal submit ./mine.yaml --models=baseline --tasks=recall_kv --seed=7",
    .make = &Make<Submit>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client
