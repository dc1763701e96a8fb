#include "eval_tasks/tasks/context_plan.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace varifocal {

void ContextPlan::AskInChat(absl::string_view answer_words) {
  for (PlannedQuestion& question : questions_) {
    const std::string asked =
        question.chat_line.empty() ? question.line.substr(0, question.line.find("\nAnswer:")) : question.chat_line;
    question.line =
        absl::StrCat(asked, "\n\nWrite the answer on the last line of your reply, as \"Answer: \" followed by ",
                     answer_words, " and nothing else.");
  }
}

std::string ContextPlan::MoreText(int, Random&) const { return ""; }

absl::StatusOr<Truncation> ContextPlan::MeasureTruncation(int, const TokenCounter&) const { return Truncation(); }

std::vector<int> PlaceAtDepths(const std::vector<double>& depths, int count) {
  const int planted_count = depths.size();
  VF_CHECK(planted_count <= count);
  std::vector<int> order(planted_count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return depths[a] < depths[b]; });
  std::vector<int> places(planted_count);
  int next_free = 0;
  for (int rank = 0; rank < planted_count; ++rank) {
    const int wanted = static_cast<int>(depths[order[rank]] * count);
    const int last_possible = count - (planted_count - rank);  // leaves an index for each later one
    places[order[rank]] = std::min(std::max(wanted, next_free), last_possible);
    next_free = places[order[rank]] + 1;
  }
  return places;
}

}  // namespace varifocal
