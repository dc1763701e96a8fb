// varifocal run: a whole evaluation without a daemon; the same server inside this process.

#include <signal.h>

#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "base/temporary_file.h"
#include "client/embedded.h"
#include "client/estimate.h"
#include "client/jobs.h"
#include "client/power.h"
#include "client/report/data/epochs_note.h"
#include "client/report/data/length_label.h"
#include "client/report/data/perplexity.h"
#include "client/report/page/template.h"
#include "client/run_flags.h"
#include "client/verb.h"
#include "db/reader.h"
#include "db/stats/estimates.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::client {
namespace {

// Score by length: a row for each task and length, a column for each variant, each task's primary metric and its
// perplexity if it has one.
absl::Status PrintScores(const std::string& db_path, int64_t job_id, Console& console) {
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(db_path));
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader->Variants(job_id));
  ASSIGN_OR_RETURN(const std::vector<db::TaskMetricRecord> metrics, reader->Metrics(job_id));
  ASSIGN_OR_RETURN(const stats::TestedLengths tested, stats::TestedLengths::Read(*reader, job_id));
  ASSIGN_OR_RETURN(const std::vector<stats::Estimate> estimates, stats::EstimateScores(*reader, job_id, tested));
  std::map<std::string, std::string> primary;
  for (const db::TaskMetricRecord& metric : metrics) {
    if (metric.metric_index == 0) primary[metric.task] = metric.metric;
  }
  std::vector<std::string> titles = {"task", "metric", "length"};
  std::vector<bool> right = {false, false, true};
  std::map<std::string, size_t> column;
  for (const db::VariantRecord& variant : variants) {
    column[variant.name] = titles.size();
    titles.push_back(variant.name);
    right.push_back(true);
  }
  std::map<std::tuple<std::string, std::string, int64_t>, size_t> row_at;  // rows in the order of the job's cells
  std::vector<std::vector<std::string>> rows;
  for (const stats::Estimate& estimate : estimates) {
    const bool is_perplexity = report::IsLogLikelihood(estimate.metric);
    const bool is_shown = is_perplexity || primary[estimate.task] == estimate.metric;
    if (!is_shown || column.count(estimate.variant) == 0) continue;
    const std::string metric = is_perplexity ? "perplexity" : estimate.metric;
    const auto [at, is_new] =
        row_at.emplace(std::make_tuple(estimate.task, metric, estimate.context_length), rows.size());
    if (is_new) {
      rows.push_back({estimate.task, metric, report::ExactLengthLabel(tested, estimate.task, estimate.context_length)});
      rows.back().resize(titles.size());
    }
    std::string text = estimate.mean.has_value() ? absl::StrFormat("%.3f", *estimate.mean) : std::string("-");
    if (is_perplexity && estimate.mean.has_value()) {
      text = report::PerplexityLabel(report::Perplexity(*estimate.mean));
      if (estimate.interval.has_value()) {
        const stats::Interval interval = report::PerplexityInterval(*estimate.interval);
        absl::StrAppend(&text, " [", report::PerplexityLabel(interval.low), ", ",
                        report::PerplexityLabel(interval.high), "]");
      }
    } else if (estimate.interval.has_value()) {
      absl::StrAppend(&text, absl::StrFormat(" [%.2f, %.2f]", estimate.interval->low, estimate.interval->high));
    }
    if (estimate.is_incomplete) absl::StrAppend(&text, " incomplete");
    rows[at->second][column[estimate.variant]] = std::move(text);
  }
  console.out << "\n" << AlignedTable(console, titles, right, rows);
  ASSIGN_OR_RETURN(const db::JobEpochs epochs, reader->Epochs(job_id));
  if (epochs.count > 1) console.out << "\n" << report::Sentence("epochs", report::EpochsNote(epochs, "")) << "\n";
  if (variants.size() > 1) {
    ASSIGN_OR_RETURN(const db::JobRow newest, reader->LatestJob());
    const std::string job = newest.job_id == job_id ? "" : absl::StrCat(" --job=", job_id);
    console.err << "\nCompare two: varifocal compare --db=" << db_path << job << " --baseline=" << variants[0].name
                << " --candidate=" << variants[1].name
                << "\nAll, and the best of a sweep: varifocal report --db=" << db_path << job << " --out=report.html\n";
  }
  return absl::OkStatus();
}

class RunHere : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    run_.AddTo(flags);
    flags
        .Add("db", &db_, "PATH",
             "the results database; created if missing; an existing job of the same spec is continued")
        .Required();
    repeat_.AddTo(flags);
    outcome_.AddTo(flags);
    flags.Add("shard", &shard_, "I/N",
              "run part I of N of the contexts, into a database of its own; `varifocal merge` joins the parts");
    flags.Add("allow-mixed", &allow_mixed_,
              "continue although backend, instruction set or code version differ; labels the job as mixed");
    flags.Add("dry-run", &dry_run_,
              "validate, and print statistical power and estimated time (from the median of a few short timed "
              "requests); stores nothing");
    power_.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    ASSIGN_OR_RETURN(EmbeddedOptions options, run_.Options());
    options.command_line = global.command_line;
    options.database_path = db_;
    std::optional<TemporaryFile> unkept;  // outlives the server
    if (dry_run_ && !std::filesystem::exists(db_)) {
      ASSIGN_OR_RETURN(unkept, TemporaryFile::Make(absl::StrCat(std::filesystem::temp_directory_path().string(),
                                                                "/varifocal_dry_run_")));
      options.database_path = unkept->path();
    }
    v1::SubmitJobRequest request;
    ASSIGN_OR_RETURN(*request.mutable_spec(), MakeJobSpec(run_.suite, run_.job, run_.variants));
    if (shard_.has_value()) {
      const absl::StatusOr<Shard> shard = ParseShard(*shard_);
      if (!shard.ok()) return UsageError("--shard: ", shard.status().message(), ".");
      request.mutable_spec()->mutable_shard()->set_index(shard->index);
      request.mutable_spec()->mutable_shard()->set_count(shard->count);
    }
    request.set_validate_only(dry_run_);
    ASSIGN_OR_RETURN(std::unique_ptr<EmbeddedServer> server, EmbeddedServer::Start(std::move(options)));
    Daemon daemon(server->channel());
    if (run_.job.focal_temperatures.has_value())
      RETURN_IF_ERROR(DropSameAsTrained(daemon, run_.variants, *request.mutable_spec(), console));
    if (dry_run_) {
      ASSIGN_OR_RETURN(const v1::SubmitJobResponse response,
                       Call(daemon.evaluation(), &v1::Evaluation::Stub::SubmitJob, request));
      return DoneOr(PrintEstimate(response.estimate(), PlanPower(request.spec(), power_), console));
    }
    ASSIGN_OR_RETURN(const std::string name, Submit(daemon, request, console));
    int signal = 0;
    const absl::StatusOr<v1::Job> followed = FollowJob(daemon, name, console, &signal);
    if (signal != 0) {
      server.reset();  // the job goes back to the queue; a program that only ended would count as its crash
      raise(signal);
    }
    RETURN_IF_ERROR(followed.status());
    const v1::Job& job = *followed;
    const ExitCode code =
        PrintOutcome(job, outcome_, console, repeat_.is_new ? "the same command without --new" : "the same command");
    if (console.format == Format::kText && job.state() == v1::Job::SUCCEEDED) {
      int64_t job_id = 0;
      (void)absl::SimpleAtoi(absl::StripPrefix(name, "jobs/"), &job_id);
      RETURN_IF_ERROR(PrintScores(db_, job_id, console));
    }
    return code;
  }

 private:
  // The same command on the same database continues the same job.
  absl::StatusOr<std::string> Submit(Daemon& daemon, v1::SubmitJobRequest& request, Console& console) const {
    repeat_.Apply(request);
    request.set_allow_mixed(allow_mixed_);
    ASSIGN_OR_RETURN(const v1::SubmitJobResponse response,
                     Call(daemon.evaluation(), &v1::Evaluation::Stub::SubmitJob, request));
    const v1::Job& job = response.job();
    const bool is_unfinished = job.state() == v1::Job::CANCELLED || job.state() == v1::Job::FAILED ||
                               (job.state() == v1::Job::SUCCEEDED && job.progress().failed_count() > 0);
    if (job.progress().done_count() > 0) {
      console.err << job.name() << " is in the database already: " << WithThousands(job.progress().done_count())
                  << " of " << WithThousands(job.progress().planned_count())
                  << Plural(job.progress().planned_count(), " sample is", " samples are") << " answered.\n";
    }
    if (is_unfinished) {
      v1::ResumeJobRequest resume;
      resume.set_name(job.name());
      resume.set_allow_mixed(allow_mixed_);
      RETURN_IF_ERROR(Call(daemon.evaluation(), &v1::Evaluation::Stub::ResumeJob, resume).status());
    }
    return job.name();
  }

  RunFlags run_;
  PowerFlags power_;
  RepeatFlags repeat_;
  OutcomeFlags outcome_;
  std::string db_;
  std::optional<std::string> shard_;
  bool allow_mixed_ = false, dry_run_ = false;
};

}  // namespace

constinit const Verb kRunVerb = {
    .name = "run",
    .group = "Jobs",
    .summary = "a whole evaluation without a daemon: the same server in this process",
    .about =
        R"(Starts the server inside this process, submits the suite, waits, and prints the scores by length. Interrupted, the
same command on the same database continues with exactly the missing samples; where data, weights, tokenizer or
configuration have changed since, it is refused with both values, and --new begins another job. Exits with 0 only when
every sample has an answer. While it runs, other programs may read the database; a second writer is refused.)",
    .examples =
        "varifocal run quick --model=baseline=models/baseline --model=focal=models/focal-constant --db=results.db\n"
        "varifocal run quick --model=a=models/baseline --models=a,a@t=0.7 --db=results.db --limit=8\n"
        "varifocal run quick --endpoint=llama=http://127.0.0.1:8000/v1,tokenizer=DIR --db=results.db\n"
        "varifocal run standard --model=a=DIR --db=shard2.db --shard=2/8",
    .make = &Make<RunHere>,
};

}  // namespace varifocal::client
