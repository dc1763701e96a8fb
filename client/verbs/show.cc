// varifocal show: one job, cell by cell.
#include <ostream>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/jobs.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

Json CellJson(const v1::CellProgress& cell) {
  const int64_t missing = cell.planned_count() - cell.done_count() - cell.failed_count();
  return {{"variant", cell.variant()},
          {"task", cell.task()},
          {"context_length", cell.context_length()},
          {"planned_count", cell.planned_count()},
          {"done_count", cell.done_count()},
          {"failed_count", cell.failed_count()},
          {"missing_count", missing}};
}

class ShowJob : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("JOB", &job_, "the job, as 3 or jobs/3").Required();
    stored_.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    ASSIGN_OR_RETURN(const v1::Job job, Read(global));
    if (console.format == Format::kJson) {
      Json object = JobJson(job);
      object["cells"] = Json::array();
      for (const v1::CellProgress& cell : job.progress().cells()) object["cells"].push_back(CellJson(cell));
      return DoneOr(PrintJson(console, object));
    }
    if (console.format == Format::kText) PrintHead(job, console);
    Rows rows(console, {{.key = "variant", .title = "variant"},
                        {.key = "task", .title = "task"},
                        {.key = "context_length", .title = "length", .right_aligned = true},
                        {.key = "planned_count", .title = "planned", .right_aligned = true},
                        {.key = "done_count", .title = "answered", .right_aligned = true},
                        {.key = "failed_count", .title = "failed", .right_aligned = true},
                        {.key = "missing_count", .title = "missing", .right_aligned = true}});
    for (const v1::CellProgress& cell : job.progress().cells()) RETURN_IF_ERROR(rows.Add(CellJson(cell)));
    return DoneOr(rows.Finish());
  }

 private:
  absl::StatusOr<v1::Job> Read(const GlobalFlags& global) const {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(job_));
    ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, stored_.Open(global));
    if (reader != nullptr) {
      ASSIGN_OR_RETURN(const db::JobRow row, reader->Job(number));
      return StoredJob(*reader, row, /*with_cells=*/true);
    }
    v1::GetJobRequest request;
    ASSIGN_OR_RETURN(*request.mutable_name(), JobName(job_));
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    return Call(daemon->evaluation(), &v1::Evaluation::Stub::GetJob, request);
  }

  static void PrintHead(const v1::Job& job, Console& console) {
    const Json json = JobJson(job);
    const v1::JobProgress& progress = job.progress();
    console.out << Styled(console, Style::kBold, job.name()) << " " << StateName(job.state()) << ": " << job.suite()
                << " for " << absl::StrJoin(job.variants(), ", ") << "\n";
    if (!job.error_message().empty()) console.out << "error     " << job.error_message() << "\n";
    console.out << WithThousands(progress.done_count()) << " of " << WithThousands(progress.planned_count())
                << " samples answered, " << WithThousands(progress.failed_count()) << " failed\n";
    for (const char* key : {"create_time", "start_time", "end_time"}) {
      if (json.at(key).is_null()) continue;
      const std::string label = absl::string_view(key) == "create_time"  ? "submitted"
                                : absl::string_view(key) == "start_time" ? "started  "
                                                                         : "ended    ";
      console.out << label << " " << json.at(key).get<std::string>() << "\n";
    }
    if (progress.tokens_per_second() > 0) {
      console.out << "speed     " << WithThousands(static_cast<int64_t>(progress.tokens_per_second())) << " tokens/s\n";
    }
    if (progress.remaining_seconds() > 0) {
      console.out << "left      " << HumanDuration(progress.remaining_seconds()) << "\n";
    }
    if (job.mixed()) {
      console.out << "mixed     answers come from more than one backend, instruction set or code version\n";
    }
    for (const v1::JobFailure& failure : job.failures())
      console.out << "failed    " << failure.count() << " " << failure.reason() << ": " << failure.message() << "\n";
    console.out << "\n";
  }

  std::string job_;
  StoredJobsFlag stored_;
};

}  // namespace

constinit const Verb kShowVerb = {
    .name = "show",
    .group = "Jobs",
    .summary = "one job: state, throughput, and progress of each cell",
    .about =
        R"(A cell is one variant on one task at one context length. Missing samples have no answer yet; failed ones have a
recorded error and count as wrong; the report states why they failed, `varifocal resume` asks them again.)",
    .examples = "varifocal show 3\nvarifocal show jobs/3 --format=json\nvarifocal show 3 --db=results.db",
    .formats = "text json jsonl csv",
    .make = &Make<ShowJob>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client
