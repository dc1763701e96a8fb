#include "eval_tasks/metrics/retrieval.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace varifocal {
namespace {

int LabelOf(const std::string& document, const DocumentLabels& labels) {
  const auto found = labels.find(document);
  return found == labels.end() ? 0 : found->second;
}

bool IsRelevant(const std::string& document, const DocumentLabels& labels) { return LabelOf(document, labels) >= 1; }

int RelevantCount(const DocumentLabels& labels) {
  int count = 0;
  for (const auto& [document, label] : labels) count += label >= 1;
  return count;
}

int RelevantAmong(const std::vector<std::string>& ranking, const DocumentLabels& labels, size_t depth) {
  int count = 0;
  for (size_t i = 0; i < std::min(depth, ranking.size()); ++i) count += IsRelevant(ranking[i], labels);
  return count;
}

double Discounted(int label, size_t index) { return label > 0 ? label / std::log2(static_cast<double>(index + 2)) : 0; }

}  // namespace

double NdcgAt(const std::vector<std::string>& ranking, const DocumentLabels& labels, size_t depth) {
  double gain = 0, ideal_gain = 0;
  for (size_t i = 0; i < std::min(depth, ranking.size()); ++i) gain += Discounted(LabelOf(ranking[i], labels), i);
  std::vector<int> ideal;
  for (const auto& [document, label] : labels) ideal.push_back(label);
  std::sort(ideal.begin(), ideal.end(), std::greater<>());
  for (size_t i = 0; i < std::min(depth, ideal.size()); ++i) ideal_gain += Discounted(ideal[i], i);
  return ideal_gain > 0 ? gain / ideal_gain : 0;
}

double MeanAveragePrecisionAt(const std::vector<std::string>& ranking, const DocumentLabels& labels, size_t depth) {
  const int relevant_count = RelevantCount(labels);
  if (relevant_count == 0) return 0;
  double sum = 0;
  int found_count = 0;
  for (size_t i = 0; i < std::min(depth, ranking.size()); ++i) {
    if (IsRelevant(ranking[i], labels)) sum += ++found_count / static_cast<double>(i + 1);
  }
  return sum / relevant_count;
}

double RecallAt(const std::vector<std::string>& ranking, const DocumentLabels& labels, size_t depth) {
  const int relevant_count = RelevantCount(labels);
  return relevant_count == 0 ? 0 : RelevantAmong(ranking, labels, depth) / static_cast<double>(relevant_count);
}

double PrecisionAt(const std::vector<std::string>& ranking, const DocumentLabels& labels, size_t depth) {
  return RelevantAmong(ranking, labels, depth) / static_cast<double>(depth);
}

double ReciprocalRank(const std::vector<std::string>& ranking, const DocumentLabels& labels) {
  for (size_t i = 0; i < ranking.size(); ++i) {
    if (IsRelevant(ranking[i], labels)) return 1.0 / (i + 1);
  }
  return 0;
}

}  // namespace varifocal
