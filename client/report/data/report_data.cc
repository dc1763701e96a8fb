#include "client/report/data/report_data.h"

#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/report/data/length_label.h"
#include "client/report/data/text_format.h"
#include "db/stats/family.h"
#include "db/stats/grouped_pairs.h"
#include "db/trained_temperature.h"
#include "db/variant_names.h"
#include "eval_tasks/overrides.h"

namespace varifocal::report {
namespace {

// The job of the report: that of the baseline if named, the requested one, or the newest.
absl::Status ChooseJob(db::Reader& reader, const ReportOptions& options, std::vector<db::JobVariant>& named,
                       ReportData& data) {
  std::optional<int64_t> job_id = options.job_id;
  if (!named.front().name.empty()) {  // a baseline is named: it and the candidates find their jobs together
    ASSIGN_OR_RETURN(named, db::FindJobVariants(reader, job_id, std::move(named)));
    job_id = named.front().job_id;
  }
  if (job_id.has_value()) {
    ASSIGN_OR_RETURN(data.job, reader.Job(*job_id));
  } else {
    ASSIGN_OR_RETURN(data.job, reader.LatestJob());
  }
  for (db::JobVariant& variant : named) variant.job_id = variant.job_id > 0 ? variant.job_id : data.job.job_id;
  return absl::OkStatus();
}

// The baseline first, then the candidates in the order asked for (or the job's).
absl::Status ChooseVariants(db::Reader& reader, const ReportOptions& options, ReportData& data) {
  std::vector<db::JobVariant> named = {db::ParseJobVariant(options.baseline)};
  for (const std::string& name : options.candidates) named.push_back(db::ParseJobVariant(name));
  RETURN_IF_ERROR(ChooseJob(reader, options, named, data));
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> own, reader.Variants(data.job.job_id));
  if (own.empty()) return FailedPrecondition("job ", data.job.job_id, " has no variants");
  if (named.front().name.empty()) named.front().name = own.front().name;
  if (options.candidates.empty()) {
    for (const db::VariantRecord& variant : own) {
      if (variant.name != named.front().name) named.push_back({data.job.job_id, variant.name});
    }
  }
  for (const db::JobVariant& key : named) {
    ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> all, reader.Variants(key.job_id));
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& v) { return v.name == key.name; });
    if (found == all.end()) {
      return InvalidArgument(db::NoSuchVariant(key.job_id, key.name, all),
                             "; one of another job is named with it, such as 3/", key.name);
    }
    db::VariantRecord variant = *found;
    variant.name = db::JobVariantLabel(key, data.job.job_id);
    if (std::any_of(data.variants.begin(), data.variants.end(),
                    [&](const auto& v) { return v.name == variant.name; })) {
      return InvalidArgument("the variant \"", variant.name, "\" is named twice");
    }
    data.variants.push_back(std::move(variant));
    data.keys.push_back(key);
    const auto is_known = [&](const db::JobRow& job) { return job.job_id == key.job_id; };
    if (is_known(data.job) || std::any_of(data.other_jobs.begin(), data.other_jobs.end(), is_known)) continue;
    ASSIGN_OR_RETURN(db::JobRow job, reader.Job(key.job_id));
    data.other_jobs.push_back(std::move(job));
  }
  data.baseline = data.variants.front().name;
  const bool is_newest = !options.job_id.has_value() && db::ParseJobVariant(options.baseline).job_id == 0;
  if (is_newest && data.other_jobs.empty()) {
    ASSIGN_OR_RETURN(const std::optional<db::JobRow> complete,
                     db::CompleteJobBefore(reader, data.job, NamesOf(data.keys)));
    if (complete.has_value()) data.complete_job_id = complete->job_id;
  }
  return absl::OkStatus();
}

// Beside ours the mean over tasks by RULER's own threshold, where every task has RULER's scorer.
absl::Status ReadEffectiveLengths(db::Reader& reader, int64_t job_id, const std::vector<db::TaskMetricRecord>& metrics,
                                  const std::map<std::string, std::string>& labels, ReportData& data) {
  std::vector<stats::EffectiveLengthOptions> thresholds = {data.effective_length_options};
  const bool is_ruler = std::all_of(metrics.begin(), metrics.end(), [](const db::TaskMetricRecord& metric) {
    return metric.metric_index != 0 || absl::StartsWith(metric.metric, stats::kRulerMetricPrefix);
  });
  if (!metrics.empty() && is_ruler && !thresholds[0].score.has_value()) {
    thresholds.push_back(thresholds[0]);
    thresholds[1].score = stats::kRulerEffectiveScore;
  }
  ASSIGN_OR_RETURN(std::vector<std::vector<stats::EffectiveLength>> lengths,
                   stats::EffectiveLengths(reader, job_id, thresholds, data.tested));
  for (size_t i = 0; i < lengths.size(); ++i) {
    for (stats::EffectiveLength& row : lengths[i]) {
      const auto label = labels.find(row.variant);
      if (label == labels.end() || (i == 1 && !row.task.empty())) continue;
      row.variant = label->second;
      (i == 0 ? data.effective_lengths : data.ruler_lengths).push_back(std::move(row));
    }
  }
  return absl::OkStatus();
}

// The estimates of one job's displayed variants.
absl::Status ReadJob(db::Reader& reader, int64_t job_id, double confidence, ReportData& data,
                     std::set<int64_t>& lengths) {
  ASSIGN_OR_RETURN(const stats::TestedLengths own, stats::TestedLengths::Read(reader, job_id));
  data.tested.AddMissing(own);
  std::map<std::string, std::string> labels;  // of the shown ones, by name in the database
  for (size_t i = 0; i < data.keys.size(); ++i) {
    if (data.keys[i].job_id == job_id) labels[data.keys[i].name] = data.variants[i].name;
  }
  RETURN_IF_ERROR(data.answers.Read(reader, job_id, labels, data.tested));
  RETURN_IF_ERROR(data.groups.Read(reader, job_id, labels, data.tested));
  RETURN_IF_ERROR(data.thinking.Read(reader, job_id, labels, data.tested));
  RETURN_IF_ERROR(data.attention.Read(reader, job_id, labels, data.tested));
  ASSIGN_OR_RETURN(const std::vector<db::TaskMetricRecord> metrics, reader.Metrics(job_id));
  for (const db::TaskMetricRecord& metric : metrics) {
    const bool is_known = std::any_of(data.metrics.begin(), data.metrics.end(), [&](const auto& known) {
      return known.task == metric.task && known.metric == metric.metric;
    });
    if (!is_known) data.metrics.push_back(metric);
  }
  ASSIGN_OR_RETURN(const std::vector<db::ExecutionRow> executions, reader.Executions(job_id));
  for (const db::ExecutionRow& row : executions) {
    const auto known = std::find_if(data.executions.begin(), data.executions.end(),
                                    [&](const auto& other) { return other.execution_id == row.execution_id; });
    if (known == data.executions.end()) {
      data.executions.push_back(row);
    } else {
      known->generation_count += row.generation_count;
    }
  }
  ASSIGN_OR_RETURN(const std::vector<db::ScoreImportRow> imports, reader.ScoreImports(job_id));
  for (db::ScoreImportRow row : imports) {
    if (labels.count(row.variant) == 0) continue;
    row.variant = labels[row.variant];
    data.score_imports.push_back(std::move(row));
  }
  ASSIGN_OR_RETURN(std::vector<stats::Estimate> estimates,
                   stats::EstimateScores(reader, job_id, data.tested, confidence));
  for (stats::Estimate& estimate : estimates) {
    if (labels.count(estimate.variant) == 0) continue;
    estimate.variant = labels[estimate.variant];
    data.estimates.push_back(std::move(estimate));
  }
  RETURN_IF_ERROR(ReadEffectiveLengths(reader, job_id, metrics, labels, data));
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, reader.Cells(job_id));
  for (const db::CellRow& cell : cells) {
    if (std::find(data.tasks.begin(), data.tasks.end(), cell.cell.task) == data.tasks.end()) {
      data.tasks.push_back(cell.cell.task);
    }
    if (const auto length = data.tested.Of(cell.cell.task, cell.cell.context_length)) lengths.insert(*length);
  }
  return absl::OkStatus();
}

absl::Status ReadFailures(db::Reader& reader, const db::JobRow& job, ReportData& data) {
  if (job.failed_count == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<db::FailureGroup> failures, reader.Failures(job.job_id));
  for (db::FailureGroup& group : failures) data.failures.push_back(std::move(group));
  return absl::OkStatus();
}

// A comparison without pairs is reported as a problem instead of failing the whole report.
absl::Status Compare(db::Reader& reader, ReportData& data) {
  stats::CompareOptions options;
  options.with_max_t = data.with_max_t;
  options.source = std::make_shared<stats::PairSource>();
  options.source->tested[data.job.job_id] = data.tested;
  options.confidence = data.confidence;
  options.margin = data.margin;
  ASSIGN_OR_RETURN(std::vector<stats::CandidateReport> family,
                   stats::CompareFamily(reader, data.keys[0], {data.keys.begin() + 1, data.keys.end()}, options));
  // Tasks in the order of the suite, the mean over them last: in tables as in charts.
  const auto place = [&](const std::string& task) {
    return task.empty() ? data.tasks.end() : std::find(data.tasks.begin(), data.tasks.end(), task);
  };
  const auto by_task = [&](const auto& a, const auto& b) { return place(a.task) < place(b.task); };
  for (auto first = data.effective_lengths.begin(); first != data.effective_lengths.end();) {
    const auto last = std::find_if(first, data.effective_lengths.end(),
                                   [&](const auto& row) { return row.variant != first->variant; });
    std::stable_sort(first, last, by_task);
    first = last;
  }
  for (size_t i = 0; i < family.size(); ++i) {
    stats::ComparisonReport& report = family[i].report;
    std::stable_sort(report.comparisons.begin(), report.comparisons.end(), by_task);
    std::stable_sort(report.contrasts.begin(), report.contrasts.end(), by_task);
    data.comparisons.push_back({data.variants[i + 1].name, std::move(report), std::move(family[i].problem)});
  }
  return absl::OkStatus();
}

std::string Temperature(const Json& value) {
  if (value.is_number()) return absl::StrCat("t = ", value.dump());
  if (!value.is_array() || value.empty()) return "t = ?";
  double low = 1e300, high = -1e300;
  for (const Json& item : value) {
    if (!item.is_number()) return "t = ?";
    low = std::min(low, item.get<double>());
    high = std::max(high, item.get<double>());
  }
  return absl::StrCat("t per layer from ", Json(low).dump(), " to ", Json(high).dump());
}

// A value of an attention setting; of a list its smallest and largest number. Whole numbers name layers, others are
// values by layer.
std::string SettingValue(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return absl::StrCat(value.get<double>());  // six digits
  if (!value.is_array() || value.empty()) return value.dump();
  const auto [low, high] = std::minmax_element(value.begin(), value.end());
  return absl::StrCat(low->dump(), " to ", high->dump(), low->is_number_integer() ? "" : " by layer");
}

// The attention keys of a checkpoint in words, whatever variants they name: "trained with focal attention (constant,
// temperature 0.4)". Empty for the baseline.
std::string TrainedLabel(const std::string& attention_json) {
  const auto parsed = ParseJson(attention_json);
  if (!parsed.ok() || !parsed->is_object()) return "";
  std::vector<std::string> variants;
  for (const auto& [key, setting] : parsed->items()) {
    std::vector<std::string> parts;
    if (!setting.is_object()) continue;
    if (setting.contains("mode")) parts.push_back(SettingValue(setting["mode"]));
    for (const auto& [name, value] : setting.items()) {
      if (name != "mode") parts.push_back(absl::StrCat(name, " ", SettingValue(value)));
    }
    variants.push_back(absl::StrCat(absl::StrReplaceAll(key, {{"_", " "}}), " (", absl::StrJoin(parts, ", "), ")"));
  }
  return variants.empty() ? "" : absl::StrCat("trained with ", absl::StrJoin(variants, " and "));
}

}  // namespace

namespace {

bool HasPrimaryMetric(const ReportData& data, bool with_worst_value) {
  return std::any_of(data.tasks.begin(), data.tasks.end(), [&](const std::string& task) {
    const db::TaskMetricRecord* metric = data.primary_metric(task);
    return metric != nullptr && metric->worst_value.has_value() == with_worst_value;
  });
}

}  // namespace

bool ReportData::HasWorstValue() const { return HasPrimaryMetric(*this, true); }
bool ReportData::LacksWorstValue() const { return HasPrimaryMetric(*this, false); }

bool ReportData::IsEnded() const {
  const auto is_ended = [](const db::JobRow& of) {
    return db::IsSettled(of.state) || (of.planned_count > 0 && of.answered_count + of.failed_count >= of.planned_count);
  };
  return is_ended(job) && std::all_of(other_jobs.begin(), other_jobs.end(), is_ended);
}

std::vector<std::string> ReportData::VariantNames() const { return NamesOf(variants); }

int ReportData::ColorOf(const std::string& name) const {
  const bool is_swept = swept.contains(name);
  int color = 0;
  for (const db::VariantRecord& other : variants) {
    if (other.name == name) break;
    color += swept.contains(other.name) == is_swept;
  }
  return is_swept ? color + static_cast<int>(variants.size() - swept.size()) : color;
}

const db::VariantRecord& ReportData::variant(const std::string& name) const {
  for (const db::VariantRecord& variant : variants) {
    if (variant.name == name) return variant;
  }
  return variants.front();
}

const db::TaskMetricRecord& ReportData::metric(const std::string& task, const std::string& name) const {
  for (const db::TaskMetricRecord& metric : metrics) {
    if (metric.task == task && metric.metric == name) return metric;
  }
  return metrics.front();
}

const db::TaskMetricRecord* ReportData::primary_metric(const std::string& task) const {
  for (const db::TaskMetricRecord& metric : metrics) {
    if (metric.task == task && metric.metric_index == 0) return &metric;
  }
  return nullptr;
}

std::string ReportData::Length(const std::string& task, int64_t length) const {
  return LengthLabel(tested, task, length);
}

bool ReportData::IsIncomplete(const std::string& variant, const std::string& task, int64_t length) const {
  const db::TaskMetricRecord* metric = primary_metric(task);
  const auto cell = std::find_if(estimates.begin(), estimates.end(), [&](const stats::Estimate& estimate) {
    return estimate.variant == variant && estimate.task == task && estimate.context_length == length &&
           metric != nullptr && estimate.metric == metric->metric;
  });
  return cell == estimates.end() || cell->is_incomplete;
}

absl::StatusOr<ReportData> ReadReportData(db::Reader& reader, const ReportOptions& options) {
  ReportData data;
  data.confidence = options.confidence;
  data.margin = options.margin;
  data.with_max_t = options.with_max_t;
  data.effective_length_options = {options.confidence, options.effective_share, options.effective_score};
  data.database_path = options.database_path;
  data.chosen_metric = options.metric;
  if (!options.metric.empty()) RETURN_IF_ERROR(reader.SetPrimaryMetric(options.metric));
  reader.SetEpochStatistic(options.epoch_statistic);
  RETURN_IF_ERROR(ChooseVariants(reader, options, data));
  std::set<int64_t> lengths;
  RETURN_IF_ERROR(ReadJob(reader, data.job.job_id, options.confidence, data, lengths));
  RETURN_IF_ERROR(ReadFailures(reader, data.job, data));
  for (const db::JobRow& job : data.other_jobs) {
    RETURN_IF_ERROR(ReadJob(reader, job.job_id, options.confidence, data, lengths));
    RETURN_IF_ERROR(ReadFailures(reader, job, data));
  }
  data.lengths.assign(lengths.begin(), lengths.end());
  for (const db::JobVariant& key : data.keys) {
    ASSIGN_OR_RETURN(data.epochs[key.job_id], reader.Epochs(key.job_id));
  }
  RETURN_IF_ERROR(Compare(reader, data));
  return data;
}

bool IsShare(const db::TaskMetricRecord& metric) { return metric.worst_value == 0.0 && metric.best_value == 1.0; }

bool IsSameFunction(const db::VariantRecord& a, const db::VariantRecord& b) {
  const auto settings = [](const db::VariantRecord& variant) {
    std::vector<std::string> parts = absl::StrSplit(variant.name, '@');
    std::set<std::string> settings(parts.begin() + 1, parts.end());
    const std::optional<double> trained = db::TrainedTemperature(variant.model.attention_json);
    if (trained.has_value()) settings.erase(absl::StrCat(kFocalTemperature, "=", *trained));
    return settings;
  };
  return !db::IsEndpoint(a) && !db::IsImported(a) && a.model.function_json.has_value() &&
         a.model.function_json == b.model.function_json && a.model.weights_sha256 == b.model.weights_sha256 &&
         a.model.tokenizer_sha256 == b.model.tokenizer_sha256 && a.model.dtype == b.model.dtype &&
         settings(a) == settings(b);
}

bool IsRunTime(const db::VariantRecord& variant) {
  return variant.focal_temperature_json.has_value() || absl::StrContains(variant.name, '@');
}

namespace {

// "t=0.7", "log-n=4096"; not the switch of a chat template.
std::vector<std::string> AttentionSettings(const db::VariantRecord& variant) {
  std::vector<std::string> settings = absl::StrSplit(variant.name, '@');
  settings.erase(settings.begin());
  std::erase_if(settings, [](const std::string& setting) {
    const OverrideInfo* info = OverrideOfSetting(setting);
    return info != nullptr && info->kind == OverrideKind::kChatSwitch;
  });
  return settings;
}

}  // namespace

bool HasRunTimeAttention(const db::VariantRecord& variant) {
  return variant.focal_temperature_json.has_value() || !AttentionSettings(variant).empty();
}

std::string AttentionLabel(const db::VariantRecord& variant) {
  const std::string trained = TrainedLabel(variant.model.attention_json);
  std::vector<std::string> run;
  if (variant.focal_temperature_json.has_value()) {
    const auto temperature = ParseJson(*variant.focal_temperature_json);
    run.push_back(Temperature(temperature.ok() ? *temperature : Json()));
  }
  for (const std::string& setting : AttentionSettings(variant)) {
    const OverrideInfo* info = OverrideOfSetting(setting);
    if (info != nullptr && info->may_be_list) continue;  // the column above has it
    run.push_back(absl::StrReplaceAll(setting, {{"=", " = "}}));
  }
  if (run.empty()) return trained.empty() ? "softmax as usual" : trained;
  return absl::StrCat("run with ", absl::StrJoin(run, " and "), ", ", trained.empty() ? "trained without" : trained);
}

std::string RopeOf(const db::ModelRecord& model) {
  const auto function = ParseJson(model.function_json.value_or(""));
  if (!function.ok() || !function->is_object()) return "";
  return FindString(*function, "ropes").value_or(std::nullopt).value_or("");
}

std::string TrainedLabel(const db::VariantRecord& variant) {
  bool has_rotation = false, has_other = false;
  std::vector<std::string> lacking;
  for (const std::string& setting : AttentionSettings(variant)) {
    const OverrideInfo* info = FindOverride(setting.substr(0, setting.find('=')));
    (info != nullptr && IsRotation(*info) ? has_rotation : has_other) = true;
    if (info == nullptr || *info->feature == 0) continue;
    if (std::find(lacking.begin(), lacking.end(), info->feature) == lacking.end()) lacking.push_back(info->feature);
  }
  std::vector<std::string> parts;
  if (has_other || !has_rotation) {
    const std::string trained = TrainedLabel(variant.model.attention_json);
    if (lacking.empty()) lacking.push_back("focal attention");
    parts.push_back(trained.empty() ? absl::StrCat("trained without ", absl::StrJoin(lacking, " and ")) : trained);
  }
  if (has_rotation) {
    const std::string rope = RopeOf(variant.model);
    parts.push_back(rope.empty() ? "trained with a rotation that is not recorded"
                                 : absl::StrCat("trained with the rotation ", rope));
  }
  return absl::StrJoin(parts, " and ");
}

std::string AdjustmentLabel(const ReportData& data) {
  if (!data.with_max_t) return "Holm";
  for (const CandidateComparison& comparison : data.comparisons) {
    for (const stats::SuiteComparison& row : comparison.report.suite) {
      if (row.is_max_t) return "max-t for means over tasks, Holm for cells";
    }
  }
  return "Holm: max-t needs every planned answer of the job";
}

ResultContext ContextOf(const ReportData& data, const CandidateComparison& comparison) {
  size_t index = 0;
  while (index + 1 < data.variants.size() && data.variants[index].name != comparison.candidate) ++index;
  return {data.keys[0].job_id,
          data.keys[index].job_id,
          db::IsImported(data.variants[0]),
          db::IsImported(data.variants[index]),
          &data.answers,
          &data.groups,
          &data.tested,
          &data.thinking,
          data.epochs.at(data.keys[0].job_id),
          data.epochs.at(data.keys[index].job_id)};
}

}  // namespace varifocal::report
