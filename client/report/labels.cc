// The caveats of verdict.h.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "client/report/length_label.h"
#include "client/report/result_rows.h"
#include "client/report/text_format.h"
#include "client/report/verdict.h"

namespace varifocal::report {

std::vector<Label> SourceLabels(const ReportData& data) {
  std::vector<Label> labels;
  for (const db::VariantRecord& variant : data.variants) {
    if (db::IsEndpoint(variant)) {
      labels.push_back(
          {"endpoint", absl::StrCat("The answers of ", variant.name,
                                    " came from a server over the network (see Provenance), whose bits are "
                                    "not promised: the same question may be answered differently again.")});
    }
    if (!db::IsImported(variant)) continue;
    labels.push_back(
        {"imported",
         absl::StrCat("The answers of ", variant.name, " came from another engine, in a file with SHA-256 ",
                      ShortHash(variant.model.weights_sha256), "; scores and statistics were computed here.")});
  }
  for (size_t i = 0; i < data.versus.size(); ++i) {
    const stats::ComparisonReport& report = data.versus[i].report;
    if (!report.is_across_jobs) continue;
    const std::string job = absl::StrCat("job ", data.job.job_id),
                      other = absl::StrCat("job ", data.keys[i + 1].job_id);
    labels.push_back(
        {"two jobs",
         absl::StrCat(data.versus[i].candidate, " was asked in ", other, ": ", CountLabel(report.paired_count),
                      " of its questions ", Plural(report.paired_count, "was", "were"), " asked in ", job,
                      " with the same ", report.tokenizers_differ ? "settings and data" : "prompt", " and ",
                      Plural(report.paired_count, "is", "are"), " paired, left out are ",
                      CountLabel(report.baseline_left_out_count), " of ", job, " and ",
                      CountLabel(report.candidate_left_out_count), " of ", other, ".",
                      report.tasks_with_other_settings.empty()
                          ? ""
                          : absl::StrCat(" The specifications of the two differ in ",
                                         JoinWithAnd(report.tasks_with_other_settings), "."))});
  }
  return labels;
}

namespace {

constexpr size_t kFailureBytesMax = 200;
constexpr size_t kNamedVariantCountMax = 4;

// "baseline gave 55 of 240 at 8K, sharp gave 6 of 240 at 4K and 3 more": by length, since the counts of a whole job hide
// where they are; the largest shares first, where there are many.
class CountedVariants {
 public:
  void Add(const std::string& name, const std::string& length, int64_t count, int64_t answered_count,
           const char* verb = "gave") {
    if (count == 0) return;
    counts_.push_back(
        {static_cast<double>(count) / std::max<int64_t>(1, answered_count),
         absl::StrCat(name, " ", verb, " ", CountLabel(count), " of ", CountLabel(answered_count), " at ", length)});
  }
  bool IsEmpty() const { return counts_.empty(); }
  std::string Text() const {
    std::vector<std::pair<double, std::string>> largest = counts_;
    if (largest.size() > kNamedVariantCountMax)
      std::stable_sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::string> parts;
    for (const auto& [share, part] : largest) parts.push_back(part);
    return ShortList(parts, kNamedVariantCountMax);
  }

 private:
  std::vector<std::pair<double, std::string>> counts_;
};

}  // namespace

std::vector<Label> MakeLabels(const ReportData& data) {
  std::vector<Label> labels;
  std::vector<const db::JobRow*> jobs = {&data.job};
  for (const db::JobRow& job : data.other_jobs) jobs.push_back(&job);
  bool is_mixed = false;
  const auto is_imported = [&](const db::JobRow& job) {  // then nothing can be resumed
    for (size_t i = 0; i < data.keys.size(); ++i) {
      if (data.keys[i].job_id == job.job_id && db::IsImported(data.variants[i])) return true;
    }
    return false;
  };
  for (const db::JobRow* job : jobs) {
    is_mixed |= job->is_mixed;
    const std::string of = jobs.size() > 1 ? absl::StrCat("Job ", job->job_id, ": ") : "";
    if (job->answered_count + job->failed_count < job->planned_count) {
      labels.push_back({"incomplete", absl::StrCat(of, CountLabel(job->answered_count), " of ",
                                                   CountLabel(job->planned_count), " answers are there.")});
    }
    if (job->failed_count > 0) {
      labels.push_back(
          {"failed", absl::StrCat(of, CountLabel(job->failed_count), " of ", CountLabel(job->planned_count),
                                  " samples failed and ", FailuresCountAs(data.HasWorstValue(), data.LacksWorstValue()),
                                  is_imported(*job) ? "." : "; varifocal resume asks them again.")});
    }
  }
  for (const db::FailureGroup& group : data.failures) {
    labels.push_back({group.error_code, absl::StrCat(CountLabel(group.sample_count),
                                                     group.sample_count == 1 ? " failure: " : " failures, the latest: ",
                                                     Shorten(group.latest_message, kFailureBytesMax))});
  }
  for (Label& label : SourceLabels(data)) labels.push_back(std::move(label));
  if (!data.arms.table.arms().arms.empty() && !data.arms.IsOverSeeds() && !data.arms.comparisons.empty()) {
    labels.push_back(
        {"one training run each",
         "The arms were trained once each: intervals are about questions and say nothing about other seeds."});
  }
  if (!data.arms.IsOverSeeds() && !data.arms.notes.empty())
    labels.push_back({"arms", absl::StrJoin(data.arms.notes, " ")});
  if (const std::vector<std::string> notes = LengthNotes(data.tested); !notes.empty()) {
    labels.push_back({"prompt lengths", absl::StrCat("Not every prompt is as long as the length of the suite: ",
                                                     ShortList(notes, kNamedVariantCountMax), ".")});
  }
  std::vector<std::string> beyond;
  for (const db::VariantRecord& variant : data.variants) {
    if (!data.answers.IsExtrapolated(variant.name) || !variant.model.trained_context_length.has_value()) continue;
    beyond.push_back(absl::StrCat(variant.name, " beyond ", LengthLabel(*variant.model.trained_context_length)));
  }
  if (!beyond.empty()) {
    labels.push_back({"extrapolated", absl::StrCat("Contexts longer than the model was trained with: ",
                                                   ShortList(beyond, kNamedVariantCountMax), ".")});
  }
  CountedVariants empty, refused, cut, truncated;
  for (const db::VariantRecord& variant : data.variants) {
    for (int64_t length : data.lengths) {
      const db::AnswerCounts counts = data.answers.Of(variant.name, "", length);
      const std::string label = data.Length("", length);
      empty.Add(variant.name, label, counts.empty_count, counts.answered_count);
      refused.Add(variant.name, label, counts.refused_count, counts.answered_count);
      cut.Add(variant.name, label, counts.cut_count, counts.answered_count);
      truncated.Add(variant.name, label, counts.truncated_count, counts.answered_count, "answered");
    }
  }
  if (!empty.IsEmpty()) {
    labels.push_back({"empty answers", absl::StrCat("Answers of nothing but white space: ", empty.Text(),
                                                    ". They are scored as they are; the tables count them per cell.")});
  }
  if (!refused.IsEmpty()) {
    labels.push_back(
        {"refusals",
         absl::StrCat("Wrong answers that begin like a refusal (\u201CI cannot\u201D, \u201Cnot mentioned\u201D, ..): ",
                      refused.Text(), ". They are scored as they are; the tables count them per cell.")});
  }
  if (!cut.IsEmpty()) {
    labels.push_back({"cut answers", absl::StrCat("Answers that the limit on new tokens ended: ", cut.Text(),
                                                  ". They are scored as they are; the tables count them per cell.")});
  }
  if (!truncated.IsEmpty()) {
    labels.push_back(
        {"truncated prompts",
         absl::StrCat("Prompts that the task truncated to the context length: ", truncated.Text(),
                      ". What was cut may have been needed; the tables count them per cell, each sample has the "
                      "numbers of tokens.")});
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> run_time;  // by how they were trained
  for (const db::VariantRecord& variant : data.variants) {
    if (!IsRunTime(variant)) continue;
    const std::string trained = TrainedLabel(variant);
    auto group =
        std::find_if(run_time.begin(), run_time.end(), [&](const auto& known) { return known.first == trained; });
    if (group == run_time.end()) group = run_time.insert(run_time.end(), {trained, {}});
    group->second.push_back(variant.name);
  }
  if (!run_time.empty()) {
    std::vector<std::string> groups;
    for (const auto& [trained, names] : run_time)
      groups.push_back(
          absl::StrCat(ShortList(names, kNamedVariantCountMax), names.size() > 1 ? " were " : " was ", trained));
    labels.push_back({"run with a setting it was not trained with", absl::StrCat(absl::StrJoin(groups, "; "), ".")});
  }
  for (const CandidateComparison& versus : data.versus) {
    if (!versus.report.tokenizers_differ) continue;
    labels.push_back({"different tokenizers", absl::StrCat(versus.candidate, " and ", data.baseline,
                                                           " were asked the same questions in different prompts.")});
  }
  if (is_mixed) {
    labels.push_back(
        {"mixed executions",
         "The answers come from more than one code version, backend or instruction set (see Provenance)."});
  }
  std::set<std::string> dtypes;
  for (const db::VariantRecord& variant : data.variants) {
    if (!db::IsEndpoint(variant)) dtypes.insert(variant.model.dtype);
  }
  if (dtypes.size() > 1) {
    labels.push_back(
        {"mixed number formats", absl::StrCat("The variants ran in ", absl::StrJoin(dtypes, " and "), ".")});
  }
  return labels;
}

}  // namespace varifocal::report
