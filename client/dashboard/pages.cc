#include "client/dashboard/pages.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/embedded.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/estimate.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/collect.h"
#include "client/report/data/length_label.h"
#include "client/report/data/report_data.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"
#include "client/report/page/verdict.h"
#include "db/activity.h"
#include "db/reader.h"
#include "db/stats/estimates.h"

namespace varifocal {

EmbeddedFiles Embedded_DashboardFiles();
EmbeddedFiles Embedded_ReportAssets();

namespace client {
namespace {

using report::CountLabel;

constexpr int64_t kJobsPerPage = 25;
constexpr double kConfidence = 0.95;

std::string FillPage(absl::string_view name, const std::string& title, bool is_live, const Json& values) {
  std::string body = report::Fill(Embedded_DashboardFiles().Text(std::string(name)), values);
  return report::Fill(Embedded_DashboardFiles().Text("frame.html"),
                      {{"title", title}, {"is_live", is_live}, {"body", std::move(body)}});
}

std::string Ago(int64_t time_us, int64_t now_us) {
  return absl::StrCat(RoughDuration(std::max<int64_t>(0, now_us - time_us) / 1e6), " ago");
}

std::string TimeAndAgo(int64_t time_us, int64_t now_us) {
  return absl::StrCat(report::TimeLabel(time_us), ", ", Ago(time_us, now_us));
}

// Two parts of one bar; what is missing is its background.
std::string Meter(const db::JobRow& job) {
  const double planned = std::max<int64_t>(1, job.planned_count);
  const double done = 100.0 * job.answered_count / planned;
  const double failed = 100.0 * job.failed_count / planned;
  return absl::StrFormat(
      "<svg class=\"meter\" role=\"img\" aria-label=\"%.0f %% recorded\" viewBox=\"0 0 100 1\" "
      "preserveAspectRatio=\"none\"><rect class=\"done\" width=\"%.3f\" height=\"1\"/><rect class=\"failed\" "
      "x=\"%.3f\" "
      "width=\"%.3f\" height=\"1\"/></svg>",
      std::floor(done + failed), done, done, failed);
}

int Percent(const db::JobRow& job) {
  return job.planned_count == 0
             ? 0
             : static_cast<int>(100 * (job.answered_count + job.failed_count) / job.planned_count);  // never 100 early
}

std::string ProgressText(const db::JobRow& job) {
  std::string text = absl::StrCat(CountLabel(job.answered_count), " of ", CountLabel(job.planned_count), " answered");
  if (job.failed_count > 0) absl::StrAppend(&text, ", ", CountLabel(job.failed_count), " failed");
  return text;
}

bool HasResults(const db::JobRow& job) { return job.answered_count + job.failed_count > 0; }

// The running job's speed, and what is left at it.
struct Speed {
  std::string left, speed, last_answer;
};

// Nothing of a job that has ended.
absl::StatusOr<Speed> ReadSpeed(const std::string& database_path, const db::JobRow& job, int64_t now_us) {
  Speed texts;
  if (db::IsSettled(job.state)) return texts;
  ASSIGN_OR_RETURN(const db::JobActivity activity, db::ReadActivity(database_path, job.job_id));
  if (!activity.recent.empty()) texts.last_answer = Ago(activity.recent.front().record_us, now_us);
  const std::optional<db::Pace> pace = db::PaceOf(activity, now_us);
  if (job.state != db::JobState::kRunning || !pace.has_value()) return texts;
  if (pace->remaining_seconds.has_value()) {
    texts.left = absl::StrCat(RoughDuration(*pace->remaining_seconds), " left");
  }
  texts.speed = absl::StrCat(report::Unsigned(pace->answers_per_minute, pace->answers_per_minute < 10 ? 1 : 0),
                             " answers a minute, ", CountLabel(std::llround(pace->computed_tokens_per_second)),
                             " tokens a second computed");
  return texts;
}

// What both pages show of a job.
Json JobValues(const db::JobRow& job) {
  return {{"job_id", job.job_id},
          {"suite", job.suite},
          {"state", db::JobStateName(job.state)},
          {"progress", ProgressText(job)},
          {"bar", Meter(job)},
          {"has_results", HasResults(job)},
          {"error", job.error},
          {"mixed", job.is_mixed}};
}

std::string DatabaseName(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::vector<std::string> VariantNames(const std::vector<db::VariantRecord>& variants) { return NamesOf(variants); }

std::string Times(const db::JobRow& job, const Speed& speed, int64_t now_us) {
  if (job.end_us.has_value()) {
    const double seconds = (*job.end_us - job.start_us.value_or(job.create_us)) / 1e6;
    return absl::StrCat("ended ", TimeAndAgo(*job.end_us, now_us), ", ", RoughDuration(seconds), " after its start");
  }
  if (!job.start_us.has_value()) return absl::StrCat("submitted ", TimeAndAgo(job.create_us, now_us));
  const std::string started = absl::StrCat("started ", TimeAndAgo(*job.start_us, now_us));
  return speed.last_answer.empty() ? started : absl::StrCat(started, " · last answer ", speed.last_answer);
}

std::string Headline(const std::vector<db::JobRow>& jobs, bool is_all) {
  int64_t running = 0, queued = 0, failed = 0;
  for (const db::JobRow& job : jobs) {
    running += job.state == db::JobState::kRunning || job.state == db::JobState::kCancelling ? 1 : 0;
    queued += job.state == db::JobState::kQueued ? 1 : 0;
    failed += job.state == db::JobState::kFailed ? 1 : 0;
  }
  std::vector<std::string> parts = {absl::StrCat(running, " running")};
  if (queued > 0) parts.push_back(absl::StrCat(queued, " queued"));
  if (failed > 0) parts.push_back(absl::StrCat(failed, " failed"));
  return absl::StrCat(absl::StrJoin(parts, ", "), is_all ? " of " : " of the newest ", jobs.size(),
                      jobs.size() == 1 ? " job" : " jobs");
}

// ---- One job ----

const db::TaskMetricRecord* PrimaryMetric(const std::vector<db::TaskMetricRecord>& metrics, const std::string& task) {
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&](const auto& metric) { return metric.task == task && metric.metric_index == 0; });
  return found == metrics.end() ? nullptr : &*found;
}

Json CellValues(const std::vector<stats::Estimate>& estimates, const std::string& variant,
                const db::TaskMetricRecord& metric, int64_t length, const report::AnswerTable& answers) {
  const auto found = std::find_if(estimates.begin(), estimates.end(), [&](const stats::Estimate& estimate) {
    return estimate.variant == variant && estimate.task == metric.task && estimate.metric == metric.metric &&
           estimate.context_length == length;
  });
  if (found == estimates.end()) return {{"mean", ""}, {"interval", ""}};  // the job does not ask this
  const bool is_share = report::IsShare(metric);
  const auto text = [&](double value) { return report::Unsigned(value * (is_share ? 100 : 1), is_share ? 1 : 3); };
  const int64_t recorded = found->answered_count + found->failed_count;
  Json cell = {{"mean", found->mean.has_value() ? text(*found->mean) : "–"}, {"interval", ""}};
  if (found->interval.has_value()) {
    cell["interval"] = absl::StrCat(text(found->interval->low), " to ", text(found->interval->high));
  }
  if (recorded < found->planned_count) {
    cell["is_unfinished"] = true;
    cell["counted"] = absl::StrCat(CountLabel(recorded), " of ", CountLabel(found->planned_count));
  }
  if (found->failed_count > 0) cell["failed"] = absl::StrCat(CountLabel(found->failed_count), " failed");
  const db::AnswerCounts counts = answers.Of(variant, metric.task, length);
  cell["kinds"] = report::CountsNote(counts, /*with_failed=*/false);
  return cell;
}

Json TaskTables(const std::vector<db::CellRow>& cells, const std::vector<db::TaskMetricRecord>& metrics,
                const std::vector<std::string>& variants, const std::vector<stats::Estimate>& estimates,
                const stats::TestedLengths& tested, const report::AnswerTable& answers) {
  std::vector<std::string> tasks;
  std::map<std::string, std::set<int64_t>> lengths_of;  // by task
  for (const db::CellRow& row : cells) {
    if (const auto length = tested.Of(row.cell.task, row.cell.context_length))
      lengths_of[row.cell.task].insert(*length);
    if (std::find(tasks.begin(), tasks.end(), row.cell.task) == tasks.end()) tasks.push_back(row.cell.task);
  }
  Json tables = Json::array();
  for (const std::string& task : tasks) {
    const db::TaskMetricRecord* metric = PrimaryMetric(metrics, task);
    if (metric == nullptr) continue;
    Json labels = Json::array(), rows = Json::array();
    const std::set<int64_t>& lengths = lengths_of[task];
    for (const int64_t length : lengths) labels.push_back(report::LengthLabel(tested, task, length));
    for (const std::string& variant : variants) {
      Json row = {{"variant", variant}, {"cells", Json::array()}};
      for (const int64_t length : lengths)
        row["cells"].push_back(CellValues(estimates, variant, *metric, length, answers));
      rows.push_back(std::move(row));
    }
    tables.push_back({{"task", task},
                      {"metric", absl::StrCat(metric->metric, report::IsShare(*metric) ? ", %" : "")},
                      {"lengths", std::move(labels)},
                      {"rows", std::move(rows)}});
  }
  return tables;
}

// The sentences that the report begins with.
void AddVerdicts(const report::ReportData& data, Json* values) {
  Json verdicts = Json::array();
  for (const report::Verdict& verdict : report::MakeVerdicts(data)) {
    if (data.swept.count(verdict.candidate) > 0) continue;
    Json shown = {{"tone", verdict.tone}, {"headline", verdict.headline}, {"details", Json::array()}};
    if (verdict.tone == "unknown") shown["details"] = verdict.details;  // why there is none
    verdicts.push_back(std::move(shown));
  }
  int64_t cluster_count = 0;
  for (const report::CandidateComparison& comparison : data.comparisons) {
    for (const stats::Comparison& row : comparison.report.comparisons) {
      cluster_count = std::max(cluster_count, row.cluster_count);
    }
  }
  if (cluster_count == 1) {
    (*values)["why_none"] =
        "Each task has one context at each length, and an interval needs at least two: a job with a larger --limit, or "
        "without it, has more.";
  }
  if (!data.swept.empty()) {
    (*values)["verdict_note"] =
        absl::StrCat("The report compares the sweep's ", data.swept.size(), " further variants by temperature.");
  }
  (*values)["has_verdicts"] = !verdicts.empty() || !data.swept.empty();
  (*values)["verdicts"] = std::move(verdicts);
}

// Changes with the rows of a job that pages show.
absl::StatusOr<std::string> KeyOf(const std::string& database_path, db::Reader& reader, const db::JobRow& job) {
  struct stat file = {};
  stat(database_path.c_str(), &file);  // another file of the same name has other rows; a missing one was not opened
  Json key = {file.st_dev,           file.st_ino,      db::JobStateName(job.state),
              job.create_us,         job.spec_sha256,  job.planned_count,
              job.answered_count,    job.failed_count, job.start_us.value_or(0),
              job.end_us.value_or(0)};
  ASSIGN_OR_RETURN(const std::vector<db::ScoreImportRow> imports, reader.ScoreImports(job.job_id));
  for (const db::ScoreImportRow& row : imports)
    key.push_back({row.variant, row.metric, row.source_sha256, row.value_count, row.import_us});
  return key.dump();
}

// What a page shows of all rows of a job.
absl::StatusOr<Json> ComputeResults(const std::string& database_path, int64_t job_id) {
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(database_path));
  ASSIGN_OR_RETURN(const db::JobRow job, reader->Job(job_id));
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader->Variants(job_id));
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, reader->Cells(job_id));
  ASSIGN_OR_RETURN(const std::vector<db::TaskMetricRecord> metrics, reader->Metrics(job_id));
  Json results = {{"recorded_count", job.answered_count + job.failed_count}};
  std::vector<stats::Estimate> estimates;
  stats::TestedLengths tested;
  // Outcomes need every answer, so there are none before a job has succeeded.
  if (job.state == db::JobState::kSucceeded && variants.size() > 1) {
    ReportOptions options;
    options.database_path = database_path;
    options.job_id = job_id;
    options.format = ReportFormat::kMarkdown;  // without the answers of the sample browser
    options.confidence = kConfidence;
    ASSIGN_OR_RETURN(report::ReportData data, report::CollectReportData(*reader, options));
    AddVerdicts(data, &results);
    estimates = std::move(data.estimates);
    tested = std::move(data.tested);
  } else {
    ASSIGN_OR_RETURN(tested, stats::TestedLengths::Read(*reader, job_id));
    ASSIGN_OR_RETURN(estimates, stats::EstimateScores(*reader, job_id, tested, kConfidence));
  }
  std::map<std::string, std::string> names;
  for (const std::string& name : VariantNames(variants)) names[name] = name;
  report::AnswerTable answers;
  RETURN_IF_ERROR(answers.Read(*reader, job_id, names, tested));
  results["tasks"] = TaskTables(cells, metrics, VariantNames(variants), estimates, tested, answers);
  return results;
}

constexpr size_t kVariantsShown = 8, kLengthsShown = 8;

// The first columns and rows of the means of a job, for the list of jobs.
absl::StatusOr<Json> ComputeMeans(const std::string& database_path, int64_t job_id) {
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(database_path));
  ASSIGN_OR_RETURN(const std::vector<db::LengthMeanRow> means, reader->MeansByLength(job_id));
  std::set<int64_t> lengths;
  std::vector<std::string> variants;
  std::map<std::pair<std::string, int64_t>, const db::LengthMeanRow*> at;
  for (const db::LengthMeanRow& row : means) {
    lengths.insert(row.context_length);
    if (std::find(variants.begin(), variants.end(), row.variant) == variants.end()) variants.push_back(row.variant);
    at[{row.variant, row.context_length}] = &row;
  }
  Json table = {{"lengths", Json::array()}, {"rows", Json::array()}};
  const size_t variant_count = variants.size();
  while (lengths.size() > kLengthsShown) lengths.erase(std::prev(lengths.end()));
  if (variant_count > kVariantsShown) variants.resize(kVariantsShown);
  bool has_any = false;
  for (const int64_t length : lengths) table["lengths"].push_back(report::LengthLabel(length));
  for (const std::string& variant : variants) {
    Json row = {{"variant", variant}, {"cells", Json::array()}};
    for (const int64_t length : lengths) {
      const auto found = at.find({variant, length});
      const bool is_there = found != at.end() && found->second->mean.has_value();
      has_any |= is_there;
      row["cells"].push_back(
          {{"mean", is_there ? report::Unsigned(100 * *found->second->mean, 1) : "–"},
           {"is_unfinished", found != at.end() && found->second->recorded_count < found->second->planned_count}});
    }
    table["rows"].push_back(std::move(row));
  }
  table["has_any"] = has_any;
  if (variant_count > kVariantsShown) {
    table["more"] = absl::StrCat("and ", variant_count - kVariantsShown, " more variants: see Details");
  }
  return table;
}

Json Facts(const db::JobRow& job, const std::vector<std::string>& variants, const Speed& speed,
           const std::vector<db::ExecutionRow>& executions, int64_t now_us) {
  Json facts = Json::array();
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) facts.push_back({{"name", name}, {"value", std::move(value)}});
  };
  add("Variants", absl::StrJoin(variants, ", "));
  add("Submitted", TimeAndAgo(job.create_us, now_us));
  if (job.start_us.has_value()) add("Started", TimeAndAgo(*job.start_us, now_us));
  if (job.end_us.has_value()) add("Ended", TimeAndAgo(*job.end_us, now_us));
  add("Last answer", speed.last_answer);
  add("Speed", speed.speed);
  std::map<std::string, int64_t> counts;  // a daemon that was started again is another execution
  for (const db::ExecutionRow& row : executions) {
    const db::ExecutionRecord& execution = row.execution;
    counts[absl::StrCat(execution.device, ", ", execution.backend, " ", execution.instruction_set, ", version ",
                        execution.code_version)] += row.generation_count;
  }
  for (const auto& [execution, count] : counts) {
    add("Computed by", absl::StrCat(execution, ": ", CountLabel(count), Plural(count, " sample", " samples")));
  }
  return facts;
}

}  // namespace

absl::StatusOr<std::string> OverviewPage(const std::string& database_path, int64_t before_id, int64_t now_us,
                                         PageCache& cache) {
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(database_path));
  ASSIGN_OR_RETURN(std::vector<db::JobRow> jobs, reader->Jobs(before_id, kJobsPerPage + 1));
  const bool has_older = jobs.size() > kJobsPerPage;
  if (has_older) jobs.pop_back();
  Json shown = Json::array();
  for (const db::JobRow& job : jobs) {
    Json values = JobValues(job);
    ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader->Variants(job.job_id));
    values["variants"] = absl::StrJoin(VariantNames(variants), ", ");
    ASSIGN_OR_RETURN(const Speed speed, ReadSpeed(database_path, job, now_us));
    values["left"] = speed.left;
    values["speed"] = speed.speed;
    values["times"] = Times(job, speed, now_us);
    if (HasResults(job)) {
      ASSIGN_OR_RETURN(const std::string key, KeyOf(database_path, *reader, job));
      ASSIGN_OR_RETURN(const std::shared_ptr<const PageCache::Page> means,
                       cache.Get(absl::StrCat("means/", job.job_id), key, /*may_be_old=*/!db::IsSettled(job.state),
                                 [&]() -> absl::StatusOr<std::string> {
                                   ASSIGN_OR_RETURN(const Json table, ComputeMeans(database_path, job.job_id));
                                   return table.dump();
                                 }));
      ASSIGN_OR_RETURN(const Json table, ParseJson(means->bytes));
      values["has_means"] = table.at("has_any");
      values["means"] = table;
      values["means"]["job_id"] = job.job_id;
      values["means"]["title"] =
          job.answered_count + job.failed_count < job.planned_count ? "Mean so far, %" : "Mean over tasks, %";
    }
    shown.push_back(std::move(values));
  }
  const std::string headline = Headline(jobs, !has_older && before_id == 0);
  Json values = {{"database", DatabaseName(database_path)},
                 {"headline", before_id == 0 ? headline : absl::StrCat("Jobs before job ", before_id)},
                 {"is_older_page", before_id != 0},
                 {"jobs", std::move(shown)}};
  if (has_older) values["older"] = jobs.back().job_id;
  return FillPage("overview.html", absl::StrCat(headline, " · Varifocal"), before_id == 0, values);
}

absl::StatusOr<std::string> RowsOfJob(const std::string& database_path, int64_t job_id) {
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(database_path));
  ASSIGN_OR_RETURN(const db::JobRow job, reader->Job(job_id));
  return KeyOf(database_path, *reader, job);
}

absl::StatusOr<std::string> JobPage(const std::string& database_path, int64_t job_id, int64_t now_us,
                                    PageCache& cache) {
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(database_path));
  ASSIGN_OR_RETURN(const db::JobRow job, reader->Job(job_id));
  ASSIGN_OR_RETURN(const std::string key, KeyOf(database_path, *reader, job));
  ASSIGN_OR_RETURN(const std::shared_ptr<const PageCache::Page> page,
                   cache.Get(absl::StrCat("jobs/", job_id), key, /*may_be_old=*/!db::IsSettled(job.state),
                             [&]() -> absl::StatusOr<std::string> {
                               ASSIGN_OR_RETURN(const Json results, ComputeResults(database_path, job_id));
                               return results.dump();
                             }));
  ASSIGN_OR_RETURN(const Json results, ParseJson(page->bytes));
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader->Variants(job_id));
  ASSIGN_OR_RETURN(const std::vector<db::ExecutionRow> executions, reader->Executions(job_id));
  ASSIGN_OR_RETURN(const Speed speed, ReadSpeed(database_path, job, now_us));
  const std::vector<std::string> names = VariantNames(variants);

  Json values = JobValues(job);
  values["database"] = DatabaseName(database_path);
  values["left"] = speed.left;
  values["facts"] = Facts(job, names, speed, executions, now_us);
  values["endings"] = {"csv", "json", "md", "tex"};
  values["confidence"] = std::lround(100 * kConfidence);
  values["is_partial"] = job.answered_count + job.failed_count < job.planned_count;
  values["score_title"] = values["is_partial"] ? "Scores so far" : "Scores";
  values.update(results);
  const int64_t recorded = results.at("recorded_count").get<int64_t>();
  if (recorded < job.answered_count + job.failed_count) {
    values["scores_of"] = absl::StrCat(Ago(page->wall_us, now_us), ", over ", CountLabel(recorded),
                                       Plural(recorded, " answer", " answers"));
  }
  std::vector<db::FailureGroup> failures;
  if (job.failed_count > 0) {
    ASSIGN_OR_RETURN(failures, reader->Failures(job_id));
  }
  values["has_failures"] = !failures.empty();
  values["failures"] = Json::array();
  for (const db::FailureGroup& group : failures) {
    values["failures"].push_back({{"code", group.error_code},
                                  {"count", CountLabel(group.sample_count)},
                                  {"message", group.latest_message},
                                  {"time", Ago(group.latest_us, now_us)}});
  }
  const std::string percent = db::IsSettled(job.state) ? "" : absl::StrCat(Percent(job), " % · ");
  return FillPage("job.html", absl::StrCat(percent, "Job ", job_id, ": ", job.suite, " · Varifocal"),
                  !db::IsSettled(job.state), values);
}

std::string ErrorPage(const std::string& title, const std::string& sentence) {
  return FillPage("error.html", absl::StrCat(title, " · Varifocal"), false, {{"title", title}, {"sentence", sentence}});
}

std::string StyleSheet() {
  return absl::StrCat(Embedded_ReportAssets().Text("page.css"), Embedded_DashboardFiles().Text("dashboard.css"));
}

std::string Script() { return Embedded_DashboardFiles().Text("dashboard.js"); }

}  // namespace client
}  // namespace varifocal
