#include "client/report/data/answers_behind.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/data/length_label.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {
namespace {

double ShareOf(const db::AnswerCounts& counts, const db::AnswerKind& kind) {
  return counts.answered_count == 0 ? 0.0 : static_cast<double>(counts.*kind.count) / counts.answered_count;
}

// The shares of the two sides differ enough at some length to explain a difference alone.
bool CanExplain(const db::AnswerKind& kind, const std::vector<AnswerSides>& sides) {
  return std::any_of(sides.begin(), sides.end(), [&](const AnswerSides& of) {
    return std::abs(ShareOf(of.candidate, kind) - ShareOf(of.baseline, kind)) >= kind.imbalance_min;
  });
}

// Likewise beside other kinds: three cut answers of forty count where the other side has none.
bool CanExplainTogether(const db::AnswerKind& kind, const std::vector<AnswerSides>& sides) {
  return CanExplain(kind, sides) || std::any_of(sides.begin(), sides.end(), [&](const AnswerSides& of) {
           const auto [less, more] = std::minmax({ShareOf(of.baseline, kind), ShareOf(of.candidate, kind)});
           return more > 0 && more >= 2 * less;
         });
}

AnswerSides SidesAt(const std::string& baseline, const std::string& candidate, const std::string& task, int64_t length,
                    const AnswerTable& answers) {
  return {answers.Of(baseline, task, length), answers.Of(candidate, task, length), ""};
}

}  // namespace

std::vector<AnswerSides> SidesOf(const stats::Comparison& row, const AnswerTable& answers,
                                 const stats::TestedLengths&) {
  return {SidesAt(row.baseline, row.candidate, row.task, row.context_length, answers)};
}

std::vector<AnswerSides> SidesOf(const stats::SuiteComparison& row, const AnswerTable& answers,
                                 const stats::TestedLengths&) {
  return {SidesAt(row.baseline, row.candidate, "", row.context_length, answers)};
}

std::vector<AnswerSides> SidesOf(const stats::LengthContrast& row, const AnswerTable& answers,
                                 const stats::TestedLengths& tested) {
  std::set<int64_t> lengths = {row.short_length, row.long_length};
  if (row.kind == stats::LengthContrast::Kind::kSlope) {
    for (const int64_t length : answers.Lengths(row.task)) {
      if (length > row.short_length && length < row.long_length) lengths.insert(length);
    }
  }
  std::vector<AnswerSides> sides;
  for (const int64_t length : lengths) {
    sides.push_back(SidesAt(row.baseline, row.candidate, row.task, length, answers));
    sides.back().length = LengthLabel(tested, row.task, length);
  }
  return sides;
}

std::string CountsBehind(uint32_t marks, const std::vector<AnswerSides>& sides) {
  const bool is_one_kind = (marks & (marks - 1)) == 0;
  std::vector<std::string> all;
  for (const AnswerSides& at : sides) {
    for (const db::AnswerCounts* side : {&at.baseline, &at.candidate}) {
      std::vector<std::string> counts;
      for (const db::AnswerKind& kind : db::kAnswerKinds) {
        if ((marks & kind.mark) == 0 || side->*kind.count == 0) continue;
        counts.push_back(
            absl::StrCat(CountLabel(side->*kind.count), is_one_kind ? "" : " ", is_one_kind ? "" : kind.name));
      }
      if (counts.empty()) continue;
      const std::string of = absl::StrCat(absl::StrJoin(counts, ", "), " of ", CountLabel(side->answered_count));
      all.push_back(at.length.empty() ? absl::StrCat(of, " of ", side->variant)
                                      : absl::StrCat(side->variant, " ", of, " at ", at.length));
    }
  }
  return JoinWithAnd(all);
}

std::vector<AnswersBehind> KindsBehind(const stats::Inference& row, const std::vector<AnswerSides>& sides) {
  std::vector<AnswersBehind> behind;
  uint32_t present = 0, together = 0;
  for (const auto& [marks, part] : row.without) present |= marks;
  std::vector<std::string> names;
  for (const db::AnswerKind& kind : db::kAnswerKinds) {
    if ((present & kind.mark) == 0) continue;
    if (row.RestsOn(kind.mark) && CanExplain(kind, sides)) behind.push_back({kind.mark, kind.name, kind.answers});
    if (!CanExplainTogether(kind, sides)) continue;
    together |= kind.mark;
    names.push_back(kind.answers);
  }
  if (!behind.empty() || names.size() < 2 || !row.RestsOn(together)) return behind;
  const std::string last = names.back();
  names.pop_back();
  behind.push_back({together, db::kSeveralKinds, absl::StrCat(absl::StrJoin(names, ", "), " or ", last)});
  return behind;
}

}  // namespace varifocal::report
