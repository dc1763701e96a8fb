#include "db/stats/tested_lengths.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/match.h"
#include "base/status_macros.h"

namespace varifocal::stats {
namespace {

// What one task asked at one length.
struct Asked {
  int64_t nominal = 0;
  db::PromptCountsRow prompts;
  bool is_finished = false;
  std::optional<std::vector<std::string>> hashes;  // read when needed
};

bool Reaches(int64_t tokens, int64_t length) { return tokens >= kReachedShare * length; }

// They have the same prompts, or those that one has made so far, or could make, are among the other's.
absl::StatusOr<bool> HaveSamePrompts(db::Reader& reader, int64_t job_id, Asked& a, Asked& b) {
  if (a.prompts.prompt_count == 0 || b.prompts.prompt_count == 0) return false;
  if (a.prompts.tokens_min > b.prompts.tokens_max || b.prompts.tokens_min > a.prompts.tokens_max) return false;
  for (Asked* asked : {&a, &b}) {
    if (asked->hashes.has_value()) continue;
    ASSIGN_OR_RETURN(asked->hashes, reader.PromptHashes(job_id, asked->prompts.task, asked->nominal));
  }
  std::vector<std::string> common;
  std::set_intersection(a.hashes->begin(), a.hashes->end(), b.hashes->begin(), b.hashes->end(),
                        std::back_inserter(common));
  const auto is_within = [&](const Asked& asked) { return common.size() == asked.hashes->size(); };
  if (is_within(a) && is_within(b)) return true;
  const auto has_missing = [](const Asked& asked) {
    return !asked.is_finished || asked.prompts.prompt_count < asked.prompts.sample_count;
  };
  return !common.empty() && ((is_within(a) && has_missing(a)) || (is_within(b) && has_missing(b)));
}

}  // namespace

bool TestedLength::HasReaching() const { return Reaches(tokens_max + new_tokens, nominal.front()); }

bool TestedLength::IsFilled() const {
  return is_reached && nominal.size() < 2 && (tokens_max == 0 || Reaches(tokens_min + new_tokens, length));
}

absl::StatusOr<TestedLengths> TestedLengths::Read(db::Reader& reader, int64_t job_id) {
  TestedLengths result;
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, reader.Cells(job_id));
  ASSIGN_OR_RETURN(const std::vector<db::PromptCountsRow> counts, reader.CountPrompts(job_id, kReachedShare));
  ASSIGN_OR_RETURN(const std::vector<db::TaskMetricRecord> metrics, reader.Metrics(job_id));
  std::set<std::string> labelled;
  for (const db::TaskMetricRecord& metric : metrics) {
    if (absl::StartsWith(metric.metric, kRulerMetricPrefix)) labelled.insert(metric.task);
  }
  std::map<std::string, std::map<int64_t, Asked>> tasks;
  std::map<std::pair<std::string, int64_t>, int64_t> planned;
  std::set<int64_t> taken;  // no two lengths have one name
  for (const db::CellRow& cell : cells) {
    tasks[cell.cell.task][cell.cell.context_length].nominal = cell.cell.context_length;
    int64_t& count = planned[{cell.cell.task, cell.cell.context_length}];
    count = std::max(count, cell.cell.planned_count);
    taken.insert(cell.cell.context_length);
  }
  for (const db::PromptCountsRow& row : counts) {
    Asked& asked = tasks[row.task][row.context_length];
    asked.nominal = row.context_length;
    asked.prompts = row;
    asked.is_finished = row.sample_count >= planned[{row.task, row.context_length}];
  }
  std::map<int64_t, int64_t> longest;  // by length of the suite, of tests that do not reach it
  for (auto& [task, lengths] : tasks) {
    std::vector<Asked*> firsts;
    for (auto& [nominal, asked] : lengths) {
      Asked* same = nullptr;
      for (Asked* first : firsts) {
        ASSIGN_OR_RETURN(const bool is_same, HaveSamePrompts(reader, job_id, *first, asked));
        if (is_same) same = same == nullptr ? first : same;
      }
      if (same == nullptr) {
        firsts.push_back(&asked);
        same = &asked;
      }
      result.first_[{task, nominal}] = same->nominal;
      TestedLength& test = result.tested_[{task, same->nominal}];
      const db::PromptCountsRow& row = asked.prompts;
      test.nominal.push_back(nominal);
      test.tokens_min = test.tokens_max == 0 ? row.tokens_min : std::min(test.tokens_min, row.tokens_min);
      test.tokens_max = std::max(test.tokens_max, row.tokens_max);
      if (same != &asked) continue;
      test.length = nominal;
      test.is_reached = labelled.contains(task) || 2 * row.reached_count >= row.prompt_count;
      test.new_tokens = row.reach_max - row.tokens_max;
      if (!test.is_reached) longest[nominal] = std::max(longest[nominal], row.tokens_max);
    }
  }
  for (auto& [nominal, name] : longest) {
    while (!taken.insert(name).second) ++name;
  }
  for (auto& [key, test] : result.tested_) {
    if (!test.is_reached) test.length = longest.at(key.second);
  }
  return result;
}

void TestedLengths::AddMissing(const TestedLengths& other) {
  for (const auto& [key, first] : other.first_) {
    if (first_.contains(key)) continue;
    first_[key] = first;
    const std::pair place{key.first, first};
    if (!tested_.contains(place)) tested_[place] = other.tested_.at(place);
  }
}

std::optional<int64_t> TestedLengths::Of(const std::string& task, int64_t nominal) const {
  const auto first = first_.find({task, nominal});
  if (first == first_.end()) return nominal;
  if (first->second != nominal) return std::nullopt;
  return tested_.at({task, nominal}).length;
}

TestedLength TestedLengths::At(const std::string& task, int64_t length) const {
  TestedLength all;
  all.length = length;
  for (const auto& [key, test] : tested_) {
    if (test.length != length || (!task.empty() && key.first != task)) continue;
    all.is_reached = test.is_reached;
    for (int64_t nominal : test.nominal) {
      const auto place = std::lower_bound(all.nominal.begin(), all.nominal.end(), nominal);
      if (place == all.nominal.end() || *place != nominal) all.nominal.insert(place, nominal);
    }
    if (test.tokens_max == 0) continue;
    all.tokens_min = all.tokens_max == 0 ? test.tokens_min : std::min(all.tokens_min, test.tokens_min);
    all.tokens_max = std::max(all.tokens_max, test.tokens_max);
  }
  return all;
}

std::vector<std::pair<std::string, TestedLength>> TestedLengths::NotFilled() const {
  std::vector<std::pair<std::string, TestedLength>> tests;
  for (const auto& [key, test] : tested_) {
    if (!test.IsFilled()) tests.emplace_back(key.first, test);
  }
  return tests;
}

}  // namespace varifocal::stats
