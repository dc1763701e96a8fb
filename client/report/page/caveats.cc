#include "client/report/page/caveats.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/data/epochs_note.h"
#include "client/report/data/length_label.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"
#include "db/answer_kinds.h"
#include "db/stats/labels.h"

namespace varifocal::report {
namespace {

constexpr size_t kFailureBytesMax = 200;
constexpr size_t kNamedVariantCountMax = 4;

using Texts = std::vector<std::string>;

std::vector<const db::JobRow*> JobsOf(const ReportData& data) {
  std::vector<const db::JobRow*> jobs = {&data.job};
  for (const db::JobRow& job : data.other_jobs) jobs.push_back(&job);
  return jobs;
}

// "Job 7: " where there are several.
std::string OfJob(const ReportData& data, const db::JobRow& job) {
  return data.other_jobs.empty() ? "" : absl::StrCat("Job ", job.job_id, ": ");
}

Texts Incomplete(const ReportData& data) {
  Texts sentences;
  for (const db::JobRow* job : JobsOf(data)) {
    if (job->answered_count + job->failed_count >= job->planned_count) continue;
    sentences.push_back(Sentence("answers_missing", {{"job", OfJob(data, *job)},
                                                     {"answered", CountLabel(job->answered_count)},
                                                     {"is_one", job->answered_count == 1},
                                                     {"planned", CountLabel(job->planned_count)},
                                                     {"complete", OrNull(data.complete_job_id)}}));
  }
  return sentences;
}

Texts Failed(const ReportData& data) {
  const auto is_imported = [&](const db::JobRow& job) {  // then nothing can be resumed
    for (size_t i = 0; i < data.keys.size(); ++i) {
      if (data.keys[i].job_id == job.job_id && db::IsImported(data.variants[i])) return true;
    }
    return false;
  };
  Texts sentences;
  for (const db::JobRow* job : JobsOf(data)) {
    if (job->failed_count == 0) continue;
    sentences.push_back(Sentence("samples_failed", {{"job", OfJob(data, *job)},
                                                    {"failed", CountLabel(job->failed_count)},
                                                    {"is_one", job->failed_count == 1},
                                                    {"planned", CountLabel(job->planned_count)},
                                                    {"has_worst_value", data.HasWorstValue()},
                                                    {"lacks_worst_value", data.LacksWorstValue()},
                                                    {"can_resume", !is_imported(*job)}}));
  }
  for (const db::FailureGroup& group : data.failures) {
    sentences.push_back(Sentence("failures_by_code", {{"code", group.error_code},
                                                      {"count", CountLabel(group.sample_count)},
                                                      {"is_one", group.sample_count == 1},
                                                      {"message", Shorten(group.latest_message, kFailureBytesMax)}}));
  }
  return sentences;
}

Texts Endpoint(const ReportData& data) {
  Texts sentences;
  for (const db::VariantRecord& variant : data.variants) {
    if (db::IsEndpoint(variant)) sentences.push_back(Sentence("from_endpoint", {{"variant", variant.name}}));
  }
  return sentences;
}

Texts Imported(const ReportData& data) {
  Texts sentences;
  for (const db::VariantRecord& variant : data.variants) {
    if (!db::IsImported(variant)) continue;
    sentences.push_back(
        Sentence("from_import", {{"variant", variant.name}, {"sha256", ShortHash(variant.model.weights_sha256)}}));
  }
  return sentences;
}

Texts TwoJobs(const ReportData& data) {
  Texts sentences;
  for (size_t i = 0; i < data.comparisons.size(); ++i) {
    const stats::ComparisonReport& report = data.comparisons[i].report;
    if (!report.is_across_jobs) continue;
    sentences.push_back(Sentence("across_jobs", {{"candidate", data.comparisons[i].candidate},
                                                 {"job", data.job.job_id},
                                                 {"other_job", data.keys[i + 1].job_id},
                                                 {"paired", CountLabel(report.paired_count)},
                                                 {"is_one", report.paired_count == 1},
                                                 {"tokenizers_differ", report.tokenizers_differ},
                                                 {"left_out", CountLabel(report.baseline_left_out_count)},
                                                 {"other_left_out", CountLabel(report.candidate_left_out_count)},
                                                 {"other_settings", JoinWithAnd(report.tasks_with_other_settings)}}));
  }
  return sentences;
}

Texts Epochs(const ReportData& data) {
  Texts sentences;
  for (const db::JobRow* job : JobsOf(data)) {
    const Json note = EpochsNote(data.epochs.at(job->job_id), OfJob(data, *job));
    if (!note.is_null()) sentences.push_back(Sentence("epochs", note));
  }
  return sentences;
}

Texts OneRunEach(const ReportData& data) {
  if (data.arms.table.arms().arms.empty() || data.arms.IsOverSeeds() || data.arms.comparisons.empty()) return {};
  const auto runs_itself = [&](const db::VariantRecord& variant) {
    return variant.model.weights_sha256 == data.variants.front().model.weights_sha256;
  };
  const bool is_one = std::all_of(data.variants.begin(), data.variants.end(), runs_itself);
  return {Sentence(is_one ? "model_trained_once" : "arms_trained_once")};
}

Texts Arms(const ReportData& data) {
  if (data.arms.IsOverSeeds() || data.arms.notes.empty()) return {};
  return {absl::StrJoin(data.arms.notes, " ")};
}

Texts PromptLengths(const ReportData& data) {
  const std::vector<std::string> notes = LengthNotes(data.tested);
  if (notes.empty()) return {};
  return {Sentence("prompts_differ", {{"list", ShortList(notes, kNamedVariantCountMax)}})};
}

Texts Extrapolated(const ReportData& data) {
  std::vector<std::string> beyond;
  for (const db::VariantRecord& variant : data.variants) {
    if (!data.answers.IsExtrapolated(variant.name) || !variant.model.trained_context_length.has_value()) continue;
    beyond.push_back(absl::StrCat(variant.name, " beyond ", LengthLabel(*variant.model.trained_context_length)));
  }
  if (beyond.empty()) return {};
  return {Sentence("beyond_training", {{"list", ShortList(beyond, kNamedVariantCountMax)}})};
}

// "baseline 55 of 240 at 8K, sharp 6 of 240 at 4K and 3 more": by length, since the counts of a whole job hide where
// they are; the largest shares first, where there are many.
Texts AnswersOf(const db::AnswerKind& kind, const ReportData& data) {
  std::vector<std::pair<double, std::string>> counts;
  for (const db::VariantRecord& variant : data.variants) {
    for (const int64_t length : data.lengths) {
      const db::AnswerCounts answers = data.answers.Of(variant.name, "", length);
      if (answers.*kind.count == 0) continue;
      counts.push_back({static_cast<double>(answers.*kind.count) / std::max<int64_t>(1, answers.answered_count),
                        absl::StrCat(variant.name, " ", CountLabel(answers.*kind.count), " of ",
                                     CountLabel(answers.answered_count), " at ", data.Length("", length))});
    }
  }
  if (counts.empty()) return {};
  if (counts.size() > kNamedVariantCountMax)
    std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> parts;
  for (const auto& [share, part] : counts) parts.push_back(part);
  return {Sentence("answers_of_kind",
                   {{"meaning", Capitalized(kind.meaning)}, {"list", ShortList(parts, kNamedVariantCountMax)}})};
}

Texts ChosenMetric(const ReportData& data) {
  if (data.chosen_metric.empty()) return {};
  return {Sentence("chosen_metric", {{"metric", data.chosen_metric}})};
}

// Differences between such variants are of the machine or the order of answers, not of the models.
Texts SameModel(const ReportData& data) {
  Texts sentences;
  for (const CandidateComparison& comparison : data.comparisons) {
    const auto find = [&](const std::string& name) {
      return std::find_if(data.variants.begin(), data.variants.end(), [&](const auto& v) { return v.name == name; });
    };
    const auto baseline = find(data.baseline), candidate = find(comparison.candidate);
    if (baseline == data.variants.end() || candidate == data.variants.end()) continue;
    if (!IsSameFunction(*baseline, *candidate)) continue;
    sentences.push_back(Sentence("same_model", {{"candidate", comparison.candidate}, {"baseline", data.baseline}}));
  }
  return sentences;
}

Texts RunTimeSettings(const ReportData& data) {
  std::vector<std::pair<std::string, std::vector<std::string>>> run_time;  // by how they were trained
  for (const db::VariantRecord& variant : data.variants) {
    if (!HasRunTimeAttention(variant)) continue;
    const std::string trained = TrainedLabel(variant);
    auto group =
        std::find_if(run_time.begin(), run_time.end(), [&](const auto& known) { return known.first == trained; });
    if (group == run_time.end()) group = run_time.insert(run_time.end(), {trained, {}});
    group->second.push_back(variant.name);
  }
  if (run_time.empty()) return {};
  std::vector<std::string> groups;
  for (const auto& [trained, names] : run_time)
    groups.push_back(
        absl::StrCat(ShortList(names, kNamedVariantCountMax), names.size() > 1 ? " were " : " was ", trained));
  return {absl::StrCat(absl::StrJoin(groups, "; "), ".")};
}

Texts Tokenizers(const ReportData& data) {
  Texts sentences;
  for (const CandidateComparison& comparison : data.comparisons) {
    if (!comparison.report.tokenizers_differ) continue;
    sentences.push_back(
        Sentence("tokenizers_differ", {{"candidate", comparison.candidate}, {"baseline", data.baseline}}));
  }
  return sentences;
}

Texts Executions(const ReportData& data) {
  const std::vector<const db::JobRow*> jobs = JobsOf(data);
  if (std::none_of(jobs.begin(), jobs.end(), [](const db::JobRow* job) { return job->is_mixed; })) return {};
  return {Sentence("mixed_executions")};
}

Texts NumberFormats(const ReportData& data) {
  std::set<std::string> dtypes;
  for (const db::VariantRecord& variant : data.variants) {
    if (!db::IsEndpoint(variant)) dtypes.insert(variant.model.dtype);
  }
  if (dtypes.size() < 2) return {};
  return {Sentence("mixed_number_formats", {{"list", absl::StrJoin(dtypes, " and ")}})};
}

struct Caveat {
  const char* word;
  std::function<Texts(const ReportData&)> sentences;  // none where it does not hold
  bool is_source = false;                             // on the origin of answers: in captions of tables too
};

const std::vector<Caveat>& Caveats() {
  static const std::vector<Caveat>* const caveats = [] {
    auto* all = new std::vector<Caveat>{
        {"metric", &ChosenMetric, /*is_source=*/true},
        {"the same model", &SameModel, /*is_source=*/true},
        {stats::kIncompleteLabel, &Incomplete},
        {"failed", &Failed},
        {stats::kEndpointLabel, &Endpoint, /*is_source=*/true},
        {stats::kImportedLabel, &Imported, /*is_source=*/true},
        {"two jobs", &TwoJobs, /*is_source=*/true},
        {"several answers", &Epochs, /*is_source=*/true},
        {"one training run each", &OneRunEach},
        {"arms", &Arms},
        {"prompt lengths", &PromptLengths},
        {stats::kExtrapolatedLabel, &Extrapolated},
    };
    for (const db::AnswerKind& kind : db::kAnswerKinds)
      all->push_back({kind.answers, [&kind](const ReportData& data) { return AnswersOf(kind, data); }});
    const std::vector<Caveat> others = {
        {"run with a setting it was not trained with", &RunTimeSettings},
        {"different prompts", &Tokenizers},
        {"mixed executions", &Executions},
        {"mixed number formats", &NumberFormats},
    };
    all->insert(all->end(), others.begin(), others.end());
    return all;
  }();
  return *caveats;
}

std::vector<Label> LabelsOf(const ReportData& data, bool of_sources_alone) {
  std::vector<Label> labels;
  for (const Caveat& caveat : Caveats()) {
    if (of_sources_alone && !caveat.is_source) continue;
    for (std::string& sentence : caveat.sentences(data)) labels.push_back({caveat.word, std::move(sentence)});
  }
  return labels;
}

}  // namespace

std::vector<Label> MakeLabels(const ReportData& data) { return LabelsOf(data, /*of_sources_alone=*/false); }
std::vector<Label> SourceLabels(const ReportData& data) { return LabelsOf(data, /*of_sources_alone=*/true); }

}  // namespace varifocal::report
