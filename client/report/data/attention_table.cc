#include "client/report/data/attention_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/status_macros.h"

namespace varifocal::report {
namespace {

// A mean over rows, each with a weight; none where no row has the number.
class WeightedMean {
 public:
  void Add(const std::optional<double>& value, double weight) {
    if (!value.has_value()) return;
    sum_ += weight * *value;
    weight_ += weight;
  }
  std::optional<double> Value() const { return weight_ > 0 ? std::optional(sum_ / weight_) : std::nullopt; }

 private:
  double sum_ = 0, weight_ = 0;
};

}  // namespace

absl::Status AttentionTable::Read(db::Reader& reader, int64_t job_id, const std::map<std::string, std::string>& labels,
                                  const stats::TestedLengths& tested) {
  ASSIGN_OR_RETURN(std::vector<db::AttentionMeansRow> rows, reader.AttentionMeans(job_id));
  if (rows.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const db::JobRow job, reader.Job(job_id));
  const auto spec = ParseJson(job.spec_json);
  const Json inspected = spec.ok() && spec->is_object() ? spec->value("inspected_rows", Json()) : Json();
  for (db::AttentionMeansRow& row : rows) {
    const auto label = labels.find(row.variant);
    const std::optional<int64_t> length = tested.Of(row.task, row.context_length);
    if (label == labels.end() || !length.has_value()) continue;
    row.context_length = *length;
    inspected_rows_[label->second] = inspected.is_string() ? inspected.get<std::string>() : "last";
    rows_[label->second].push_back(std::move(row));
  }
  return absl::OkStatus();
}

std::vector<int64_t> AttentionTable::Lengths(const std::string& variant) const {
  std::set<int64_t> lengths;
  const auto found = rows_.find(variant);
  if (found == rows_.end()) return {};
  for (const db::AttentionMeansRow& row : found->second) lengths.insert(row.context_length);
  return {lengths.begin(), lengths.end()};
}

std::set<std::string> AttentionTable::Tasks(const std::string& variant) const {
  std::set<std::string> tasks;
  const auto found = rows_.find(variant);
  if (found == rows_.end()) return tasks;
  for (const db::AttentionMeansRow& row : found->second) tasks.insert(row.task);
  return tasks;
}

std::optional<AttentionMasses> AttentionTable::Of(const std::string& variant, int64_t length,
                                                  std::optional<int64_t> layer, std::optional<int64_t> head) const {
  const auto found = rows_.find(variant);
  if (found == rows_.end()) return std::nullopt;
  AttentionMasses masses;
  WeightedMean evidence, distractors, question, right, wrong, first, largest, scale, entropy;
  std::map<std::string, int64_t> answer_counts;  // by task
  for (const db::AttentionMeansRow& row : found->second) {
    if (row.context_length != length || (layer && row.layer != *layer) || (head && row.head != *head)) continue;
    const double weight = row.answer_count;
    answer_counts[row.task] = row.answer_count;
    evidence.Add(row.evidence_mass, weight);
    distractors.Add(row.distractor_mass, weight);
    question.Add(row.question_mass, weight);
    right.Add(row.evidence_mass_right, weight);
    wrong.Add(row.evidence_mass_wrong, weight);
    first.Add(row.first_mass, weight);
    largest.Add(row.largest_weight, weight);
    scale.Add(row.scale, weight);
    entropy.Add(row.entropy, weight);
  }
  if (answer_counts.empty()) return std::nullopt;
  for (const auto& [task, count] : answer_counts) masses.answer_count += count;
  masses.evidence = evidence.Value();
  masses.distractors = distractors.Value();
  masses.question = question.Value();
  masses.evidence_right = right.Value();
  masses.evidence_wrong = wrong.Value();
  masses.first = first.Value().value_or(0);
  masses.largest_weight = largest.Value().value_or(0);
  masses.scale = scale.Value().value_or(0);
  masses.effective_keys = std::exp(entropy.Value().value_or(0));
  return masses;
}

std::optional<AttentionHead> AttentionTable::StrongestHead(const std::string& variant) const {
  const std::vector<int64_t> lengths = Lengths(variant);
  if (lengths.empty()) return std::nullopt;
  std::optional<AttentionHead> strongest;
  double most = 0;
  for (const db::AttentionMeansRow& row : rows_.at(variant)) {
    if (row.context_length != lengths.front()) continue;
    const std::optional<AttentionMasses> masses = Of(variant, lengths.front(), row.layer, row.head);
    if (masses->evidence.value_or(0) <= most) continue;
    most = *masses->evidence;
    strongest = {row.layer, row.head};
  }
  return strongest;
}

int64_t AttentionTable::LayerCount(const std::string& variant) const {
  int64_t count = 0;
  const auto found = rows_.find(variant);
  if (found == rows_.end()) return 0;
  for (const db::AttentionMeansRow& row : found->second) count = std::max(count, row.layer + 1);
  return count;
}

std::string AttentionTable::InspectedRows(const std::string& variant) const {
  const auto found = inspected_rows_.find(variant);
  return found == inspected_rows_.end() ? "" : found->second;
}

}  // namespace varifocal::report
