#include "eval_tasks/attention_inspection.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;

Sample SampleOf(size_t token_count) {
  Sample sample;
  sample.token_ids.assign(token_count, 7);
  sample.evidence = {{.token_begin = 40, .token_end = 45}, {.token_begin = 60, .token_end = 61}};
  sample.question = {
      {.token_begin = static_cast<int64_t>(token_count) - 9, .token_end = static_cast<int64_t>(token_count)}};
  return sample;
}

TEST(AttentionInspectionTest, SpansAndBinsAreSumsOfTheirTokens) {
  for (const size_t token_count : {100, 256, 257, 3000}) {
    const Sample sample = SampleOf(token_count);
    // Token i has the weight i + 1 of all.
    const double total = token_count * (token_count + 1) / 2;
    const auto mass_of = [&](int64_t begin, int64_t end) { return ((end - begin) * (begin + 1 + end)) / 2.0 / total; };
    const std::vector<int32_t> boundaries = InspectionBoundaries(sample);
    EXPECT_EQ(boundaries.front(), 0);
    EXPECT_EQ(boundaries.back(), static_cast<int32_t>(token_count));
    std::vector<double> masses;
    for (size_t i = 0; i + 1 < boundaries.size(); ++i) masses.push_back(mass_of(boundaries[i], boundaries[i + 1]));
    const HeadInspection head = SummarizeHead(sample, boundaries, masses);
    EXPECT_NEAR(head.first_mass, mass_of(0, 1), 1e-12);
    EXPECT_NEAR(*head.evidence_mass, mass_of(40, 45) + mass_of(60, 61), 1e-12);
    EXPECT_NEAR(*head.question_mass, mass_of(token_count - 9, token_count), 1e-12);
    EXPECT_FALSE(head.distractor_mass.has_value()) << "the sample has none";
    const std::vector<double> bins = DecodeStrip(head.strip).value();
    ASSERT_EQ(bins.size(), std::min<size_t>(token_count, kStripBins));
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      const double exact = mass_of(bin * token_count / bins.size(), (bin + 1) * token_count / bins.size());
      if (exact < 0x1p-15) continue;
      EXPECT_NEAR(bins[bin] / exact, 1, 0.022) << token_count << " bin " << bin;
    }
  }
}

TEST(AttentionInspectionTest, StripsKeepPowersOfTwoAndRejectOtherTexts) {
  EXPECT_EQ(EncodeStrip({1.0, 0.5, 0x1p-15, 0.0, 0x1p-17, 1.0000001}), "ffef0f0000ff");
  EXPECT_THAT(DecodeStrip("ffef0f00").value(), ElementsAre(1.0, 0.5, 0x1p-15, 0.0));
  for (const char* wrong : {"f", "fg", "FF", "ff "}) {
    EXPECT_EQ(DecodeStrip(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
TEST(AttentionInspectionTest, RowsAreTheLastOnesOrTheQuestions) {
  Sample sample;
  sample.token_ids.assign(100, 7);
  sample.question = {{.token_begin = 90, .token_end = 96}};
  EXPECT_EQ(InspectedRowCount(sample, ""), 1);
  EXPECT_EQ(InspectedRowCount(sample, "8"), 8);
  EXPECT_EQ(InspectedRowCount(sample, "question"), 10) << "and what the prompt has after it";
  sample.question[0].token_begin = 20;
  EXPECT_EQ(InspectedRowCount(sample, "question"), kInspectedRowsMax);
  sample.question.clear();
  EXPECT_EQ(InspectedRowCount(sample, "question"), 0) << "nothing is inspected";
  sample.token_ids.resize(3);
  EXPECT_EQ(InspectedRowCount(sample, "8"), 3);
}

}  // namespace varifocal
