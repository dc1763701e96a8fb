#include "client/stored_answers.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "client/daemon.h"
#include "client/jobs.h"
#include "client/judgments.h"
#include "client/rows.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "wire/resource_names.h"

namespace varifocal::client {
namespace {

// What `wanted` names of `known`, in the order of `known`; all where it names none.
absl::StatusOr<std::vector<std::string>> Chosen(const std::string& wanted, const std::vector<std::string>& known,
                                                absl::string_view noun, int64_t job_id) {
  const std::vector<std::string> names = SplitList(wanted);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return NotFound("jobs/", job_id, " has no ", noun, " \"", name, "\", only ", absl::StrJoin(known, ", "), ".");
  }
  return names.empty() ? known : names;
}

// Jobs of two databases may have one number.
absl::Status CheckSameJob(Daemon& daemon, const std::string& database, int64_t job_id) {
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(database));
  ASSIGN_OR_RETURN(const db::JobRow here, reader->Job(job_id));
  v1::GetJobRequest request;
  request.set_name(JobResource(job_id));
  ASSIGN_OR_RETURN(const v1::Job there, Call(daemon.evaluation(), &v1::Evaluation::Stub::GetJob, request));
  const bool is_same = there.spec_sha256() == here.spec_sha256 &&
                       there.create_time().seconds() * 1'000'000 + there.create_time().nanos() / 1000 == here.create_us;
  if (is_same) return absl::OkStatus();
  return FailedPrecondition("jobs/", job_id, " of ", database, " is another job than jobs/", job_id,
                            " of the daemon, which has another database; give the "
                            "address of the daemon that has ",
                            database, " open.");
}

}  // namespace

void StoredAnswerFlags::AddTo(FlagSet& flags) {
  flags.AddPositional("JOB", &job, "the job; the newest one unless given");
  flags.Add("db", &db, "PATH", "the results database").Required();
  flags.Add("variants", &variants, "NAME,..", "the answers of these variants only");
  flags.Add("tasks", &tasks, "NAME,..", "the answers to these tasks only");
}

Json StoredAnswer::Identity() const {
  return {{"token_ids_sha256", *detail.sample.token_ids_sha256},
          {"variant", variant},
          {"task", detail.sample.task},
          {"context_length", detail.sample.context_length},
          {"sample_index", detail.sample.sample_index}};
}

absl::StatusOr<int64_t> EachStoredAnswer(const StoredAnswerFlags& flags,
                                         const std::function<absl::Status(const StoredAnswer&)>& use) {
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(flags.db));
  RETURN_IF_ERROR(reader->HoldSnapshot());
  db::JobRow job;
  if (flags.job.empty()) {
    ASSIGN_OR_RETURN(job, reader->LatestJob());
  } else {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(flags.job));
    ASSIGN_OR_RETURN(job, reader->Job(number));
  }
  std::vector<std::string> variants, tasks;
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> all_variants, reader->Variants(job.job_id));
  for (const db::VariantRecord& variant : all_variants) variants.push_back(variant.name);
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, reader->Cells(job.job_id));
  for (const db::CellRow& cell : cells) {
    if (std::find(tasks.begin(), tasks.end(), cell.cell.task) == tasks.end()) tasks.push_back(cell.cell.task);
  }
  ASSIGN_OR_RETURN(variants, Chosen(flags.variants, variants, "variant", job.job_id));
  ASSIGN_OR_RETURN(tasks, Chosen(flags.tasks, tasks, "task", job.job_id));
  int64_t count = 0;
  for (const std::string& variant : variants) {
    for (const std::string& task : tasks) {
      db::SampleQuery query;
      query.job_id = job.job_id;
      query.variant = variant;
      query.task = task;
      for (bool is_last = false; !is_last;) {
        ASSIGN_OR_RETURN(std::vector<db::SampleDetail> page, reader->Samples(query));
        is_last = std::ssize(page) < query.limit;
        if (!is_last) query.after_id = page.back().generation_id;
        for (db::SampleDetail& detail : page) {
          // The answer of a choice is one of its texts, found by log-likelihoods.
          const bool has_answer = detail.generation.error_code.empty() &&
                                  !detail.generation.log_likelihoods_json.has_value() &&
                                  detail.generation.answer.has_value() && detail.sample.token_ids_sha256.has_value();
          if (!has_answer) continue;
          ++count;
          RETURN_IF_ERROR(use({variant, std::move(detail)}));
        }
      }
    }
  }
  if (count == 0) return NotFound("jobs/", job.job_id, " has no answer with text to score.");
  return job.job_id;
}

absl::Status StoreScores(const StoredAnswerFlags& flags, int64_t job_id, const std::string& source,
                         const GlobalFlags& global, Console& console) {
  JudgmentImport import;
  import.paths = {flags.out};
  import.database_path = flags.db;
  import.job_id = job_id;
  import.source = source;
  absl::StatusOr<std::vector<JudgmentResult>> imported = ImportJudgments(import);
  if (HasReason(imported.status(), ErrorReason::kDatabaseInUse)) {
    if (!global.daemon_given) {
      return FailedPrecondition(imported.status().message(),
                                ". If that is a daemon, give --daemon=ADDRESS: it stores them.");
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    RETURN_IF_ERROR(CheckSameJob(*daemon, flags.db, job_id));
    imported = SendJudgments(*daemon, import);
  }
  ASSIGN_OR_RETURN(const std::vector<JudgmentResult> results, std::move(imported));
  for (const JudgmentResult& result : results) {
    if (console.format != Format::kText) {
      RETURN_IF_ERROR(PrintJson(console, {{"job", absl::StrCat("jobs/", result.job_id)},
                                          {"metrics", result.metrics},
                                          {"value_count", result.value_count},
                                          {"source", source}}));
    } else {
      console.out << "jobs/" << result.job_id << ": " << result.value_count
                  << Plural(result.value_count, " score of ", " scores of ") << absl::StrJoin(result.metrics, ", ")
                  << " from " << source << "\n";
    }
  }
  return absl::OkStatus();
}

}  // namespace varifocal::client
