// varifocal delete: removes a job, by the daemon that has its database open or from the file.
#include <ostream>

#include "base/plural.h"
#include "base/status_macros.h"
#include "client/jobs.h"
#include "client/verb.h"
#include "db/delete_job.h"

namespace varifocal::client {
namespace {

class Delete : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("JOB", &job_, "the job, as 3 or jobs/3").Required();
    flags.Add("db", &database_path_, "PATH", "a results database that no daemon has open; instead of --daemon");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    ASSIGN_OR_RETURN(const std::string name, JobName(job_));
    if (!database_path_.empty() && global.daemon_given)
      return UsageError("--db and --daemon are two places: give one.");
    ASSIGN_OR_RETURN(const db::DeletedJob deleted,
                     database_path_.empty() ? DeleteByDaemon(name, global.daemon) : DeleteInFile());
    if (console.format != Format::kText) {
      return DoneOr(PrintJson(
          console, {{"name", name}, {"suite", deleted.suite}, {"generation_count", deleted.generation_count}}));
    }
    console.out << name << " (" << deleted.suite << ") deleted with " << WithThousands(deleted.generation_count)
                << Plural(deleted.generation_count, " answer", " answers") << "; no other job gets its number.\n";
    return ExitCode::kDone;
  }

 private:
  static absl::StatusOr<db::DeletedJob> DeleteByDaemon(const std::string& name, const DaemonTarget& target) {
    v1::DeleteJobRequest request;
    request.set_name(name);
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(target));
    ASSIGN_OR_RETURN(const v1::DeleteJobResponse response,
                     Call(daemon->evaluation(), &v1::Evaluation::Stub::DeleteJob, request));
    return db::DeletedJob{response.suite(), response.generation_count()};
  }

  absl::StatusOr<db::DeletedJob> DeleteInFile() const {
    ASSIGN_OR_RETURN(const int64_t job_id, JobNumber(job_));
    return db::DeleteJob(database_path_, job_id);
  }

  std::string job_, database_path_;
};

}  // namespace

constinit const Verb kDeleteVerb = {
    .name = "delete",
    .group = "Jobs",
    .summary = "remove a job that has ended, with its answers",
    .about =
        R"(Removes questions, answers and scores; this cannot be undone. The daemon deletes it, or with --db the file is
changed, which is refused while a daemon has it open. A daemon refuses jobs that are queued or running: cancel them first.
The database keeps its size; later jobs reuse the space.)",
    .examples =
        "varifocal delete 3\n"
        "varifocal delete 3 --db=results.db",
    .make = &Make<Delete>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client
