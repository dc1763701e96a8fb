#include "client/jobs.h"

#include <unistd.h>

#include <functional>
#include <ostream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/plural.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/interrupt_note.h"
#include "client/progress.h"
#include "wire/resource_names.h"
#include "wire/stored_job.h"

namespace varifocal::client {
namespace {

Json TimeJson(bool is_set, const google::protobuf::Timestamp& time) {
  if (!is_set) return nullptr;
  return FormatUtc(time.seconds() * 1'000'000 + time.nanos() / 1000);
}

Progress::State ProgressState(const v1::Job& job) {
  const v1::JobProgress& progress = job.progress();
  return {.done_count = progress.done_count() + progress.failed_count(),
          .total_count = progress.planned_count(),
          .tokens_per_second = progress.tokens_per_second(),
          .remaining_seconds = progress.remaining_seconds()};
}

}  // namespace

absl::StatusOr<int64_t> JobNumber(const std::string& text) {
  absl::string_view id = text;
  absl::ConsumePrefix(&id, "jobs/");
  int64_t number = 0;
  if (!absl::SimpleAtoi(id, &number) || number < 1) {
    return UsageError("\"", text,
                      "\" is not a job; jobs are called jobs/1, jobs/2, ... and `varifocal list` shows them.");
  }
  return number;
}

absl::StatusOr<std::string> JobName(const std::string& text) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(text));
  return JobResource(number);
}

std::string StateName(v1::Job::State state) { return absl::AsciiStrToLower(v1::Job::State_Name(state)); }

Json JobJson(const v1::Job& job) {
  const v1::JobProgress& progress = job.progress();
  Json row = {{"name", job.name()},
              {"state", StateName(job.state())},
              {"suite", job.suite()},
              {"variants", Json::array()},
              {"planned_count", progress.planned_count()},
              {"done_count", progress.done_count()},
              {"failed_count", progress.failed_count()},
              {"tokens_per_second", progress.tokens_per_second()},
              {"remaining_seconds", progress.remaining_seconds() < 0 ? Json() : Json(progress.remaining_seconds())},
              {"create_time", TimeJson(job.has_create_time(), job.create_time())},
              {"start_time", TimeJson(job.has_start_time(), job.start_time())},
              {"end_time", TimeJson(job.has_end_time(), job.end_time())},
              {"mixed", job.mixed()},
              {"spec_sha256", job.spec_sha256()},
              {"error", job.error_message()},
              {"failures", Json::array()}};
  for (const v1::JobFailure& failure : job.failures()) {
    row["failures"].push_back(
        {{"reason", failure.reason()}, {"count", failure.count()}, {"message", failure.message()}});
  }
  for (const std::string& variant : job.variants()) row["variants"].push_back(variant);
  return row;
}

std::vector<Column> JobColumns() {
  const auto text = [](const char* key) {
    return [key](const Json& row) { return row.at(key).is_null() ? std::string() : row.at(key).get<std::string>(); };
  };
  return {
      {.key = "name", .title = "job"},
      {.key = "state", .title = "state"},
      {.key = "suite", .title = "suite"},
      {.key = "variants",
       .title = "variants",
       .text = [](const Json& row) { return ShortList(row.at("variants").get<std::vector<std::string>>(), 4); }},
      {.key = "done_count",
       .title = "done",
       .right_aligned = true,
       .text =
           [](const Json& row) {
             return absl::StrCat(WithThousands(row.at("done_count").get<int64_t>()), "/",
                                 WithThousands(row.at("planned_count").get<int64_t>()));
           }},
      {.key = "planned_count", .title = ""},
      {.key = "failed_count", .title = "failed", .right_aligned = true},
      {.key = "create_time", .title = "submitted", .text = text("create_time")},
      {.key = "start_time", .title = ""},
      {.key = "end_time", .title = ""},
      {.key = "mixed", .title = "", .text = {}},
      {.key = "error", .title = "", .text = {}},
  };
}

void StoredJobsFlag::AddTo(FlagSet& flags) {
  flags.Add("db", &database_path, "PATH", "a results database, also without its daemon; instead of --daemon");
}

absl::StatusOr<std::unique_ptr<db::Reader>> StoredJobsFlag::Open(const GlobalFlags& global) const {
  if (database_path.empty()) return nullptr;
  if (global.daemon_given) return UsageError("--db and --daemon are two places: give one.");
  return db::Reader::Open(database_path);
}

absl::StatusOr<v1::Job> StoredJob(db::Reader& reader, const db::JobRow& row, bool with_cells) {
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> records, reader.Variants(row.job_id));
  std::vector<db::CellRow> cells;
  std::vector<db::FailureGroup> failures;
  if (with_cells) {
    ASSIGN_OR_RETURN(cells, reader.Cells(row.job_id));
    ASSIGN_OR_RETURN(failures, reader.Failures(row.job_id));
  }
  v1::Job job;
  ToProto(row, NamesOf(records), cells, failures, &job);
  return job;
}

absl::StatusOr<v1::Job> FollowJob(Daemon& daemon, const std::string& name, Console& console, int* signal) {
  grpc::ClientContext context;  // no deadline: a job may run for hours
  const bool is_here = signal != nullptr;
  const InterruptNote note(
      is_here ? absl::StrCat("Interrupted: what ", name, " has answered is kept, and the same command goes on.")
              : absl::StrCat("The daemon goes on with ", name, ": `varifocal watch ", name,
                             "` follows it, `varifocal cancel ", name, "` stops it."),
      is_here ? [&context] { context.TryCancel(); } : std::function<void()>());
  v1::WatchJobRequest request;
  request.set_name(name);
  const auto reader = daemon.evaluation().WatchJob(&context, request);
  Progress progress(console, name);
  v1::WatchJobResponse response;
  v1::Job last;
  std::string paused_reason;
  while (reader->Read(&response)) {
    last = response.job();
    const std::string reason = last.state() == v1::Job::PAUSED ? last.error_message() : "";
    if (reason != paused_reason && !IsSettled(last.state())) {
      progress.Clear();
      console.err << name
                  << (reason.empty() ? " goes on."
                                     : absl::StrCat(" is paused and will continue automatically: ", reason))
                  << "\n";
      paused_reason = reason;
    }
    if (console.format == Format::kJsonLines && !IsSettled(last.state())) {
      RETURN_IF_ERROR(PrintJson(console, JobJson(last)));
      console.out.flush();
    }
    progress.Update(ProgressState(last));
  }
  const grpc::Status status = reader->Finish();
  progress.Finish();
  if (is_here && (*signal = note.signal()) != 0) return absl::CancelledError("interrupted");
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return Unavailable("The daemon is no longer reachable (", status.error_message(), "); ", name,
                       " continues when a daemon starts on the same database.");
  }
  RETURN_IF_ERROR(FromGrpc(status));
  if (!IsSettled(last.state())) {
    return Unavailable("The daemon ended the updates of ", name, " while it was ", StateName(last.state()), ".");
  }
  return last;
}

std::string FreshId() {
  const Clock& clock = Clock::Real();
  return Sha256Hex(absl::StrCat(clock.WallMicros(), " ", clock.MonotonicMicros(), " ", getpid())).substr(0, 32);
}

void RepeatFlags::AddTo(FlagSet& flags) {
  flags.Add("new", &is_new,
            "a job of its own, even if an equal request of the same data and models was submitted before");
}

void RepeatFlags::Apply(v1::SubmitJobRequest& request) const {
  if (!is_new) {
    request.set_reuse_equal_job(request.request_id().empty());
    return;
  }
  // Of this call alone, so that its retry after a lost response does not create a second job.
  request.set_request_id(FreshId());
}

void OutcomeFlags::AddTo(FlagSet& flags) {
  flags.Add("allow-failed", &allow_failed, "N", "exit with 0 although up to N samples have no answer; by default none")
      .AtLeast(0);
}

ExitCode PrintOutcome(const v1::Job& job, const OutcomeFlags& flags, Console& console, std::string again) {
  if (again.empty()) again = absl::StrCat("`varifocal resume ", job.name(), "`");
  const v1::JobProgress& progress = job.progress();
  const bool is_complete = job.state() == v1::Job::SUCCEEDED && progress.failed_count() <= flags.allow_failed;
  const ExitCode code = is_complete ? ExitCode::kDone : ExitCode::kFailed;
  if (console.format != Format::kText) {
    return PrintJson(console, JobJson(job)).ok() ? code : ExitCode::kFailed;
  }
  std::string line = absl::StrCat(job.name(), " ", StateName(job.state()), ": ", WithThousands(progress.done_count()),
                                  " of ", WithThousands(progress.planned_count()),
                                  Plural(progress.planned_count(), " sample", " samples"), " answered");
  if (job.has_start_time() && job.has_end_time()) {
    const double seconds = static_cast<double>(job.end_time().seconds() - job.start_time().seconds()) +
                           1e-9 * (job.end_time().nanos() - job.start_time().nanos());
    absl::StrAppend(&line, " in ", HumanDuration(seconds));
  }
  if (progress.failed_count() > 0) absl::StrAppend(&line, ", ", progress.failed_count(), " failed");
  console.out << line << ".\n";
  if (!job.error_message().empty()) console.err << job.name() << ": " << job.error_message() << "\n";
  if (progress.failed_count() > 0 && job.state() == v1::Job::SUCCEEDED) {
    for (const v1::JobFailure& failure : job.failures())
      console.err << failure.count() << " failed, " << failure.reason() << ": " << failure.message() << "\n";
    console.err << "Failed samples count as wrong; where the cause is gone, " << again << " asks them again.\n";
    if (!is_complete)
      console.err << "The exit code is 1; --allow-failed=" << progress.failed_count() << " accepts them.\n";
    return code;
  }
  if (code != ExitCode::kDone) console.err << "To continue it: " << again << ".\n";
  return code;
}

}  // namespace varifocal::client
