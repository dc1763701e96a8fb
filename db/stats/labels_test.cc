// The table of labels: words are unique, each has a sentence, and a row has those whose
// condition holds, in the order of the table.
#include "db/stats/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace varifocal::stats {
namespace {

TEST(Labels, EveryWordIsExplainedOnce) {
  std::set<std::string> words;
  for (const Label& label : LabelTable()) {
    EXPECT_TRUE(words.insert(label.word).second) << label.word;
    EXPECT_FALSE(label.sentence.empty() || absl::EndsWith(label.sentence, ".")) << label.sentence;
    EXPECT_FALSE(label.holds({})) << label.word << " holds for nothing";
  }
  for (const db::AnswerKind& kind : db::kAnswerKinds) EXPECT_TRUE(words.contains(absl::StrCat("rests_on_", kind.name)));
}

TEST(Labels, ARowHasThoseWhoseConditionHolds) {
  Inference inference;
  inference.failures_decide = inference.is_fragile = inference.is_variance_borrowed = inference.can_infer = true;
  LabelledRow row;
  row.inference = &inference;
  row.is_secondary = row.is_incomplete = row.is_imported = row.is_endpoint = true;
  row.rests_on = {db::kSeveralKinds, "empty"};
  row.sides.resize(2);
  row.sides[1].extrapolated_count = row.sides[0].truncated_count = 1;
  EXPECT_THAT(LabelsOf(row),
              testing::ElementsAre("secondary", "incomplete", "failures", "rests_on_empty", "rests_on_several",
                                   "fragile", "few_differ", "extrapolated", "truncated", "imported", "endpoint"));
  inference.outcome = Outcome::kBetter;
  EXPECT_THAT(LabelsOf(row), testing::Not(testing::Contains("few_differ"))) << "it was decided all the same";
  row.inference = nullptr;
  row.rests_on.clear();
  EXPECT_THAT(LabelsOf(row),
              testing::ElementsAre("secondary", "incomplete", "extrapolated", "truncated", "imported", "endpoint"));
}

}  // namespace
}  // namespace varifocal::stats
