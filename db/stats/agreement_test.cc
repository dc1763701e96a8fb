// Agreement of two raters: kappa against statsmodels, its interval against numpy and scipy
// (recipes/goldens/make_agreement.py), and where it is undefined.
#include "db/stats/agreement.h"

#include <fstream>

#include "base/json.h"
#include "gtest/gtest.h"

namespace varifocal::stats {
namespace {

TEST(AgreementTest, EqualsStatsmodels) {
  std::ifstream file("tests/testdata/goldens/agreement/golden.json");
  const Json golden = Json::parse(file);
  ASSERT_EQ(golden["rows"].size(), 5u);
  for (const Json& row : golden["rows"]) {
    std::vector<RatedAnswer> answers;
    for (size_t i = 0; i < row["first"].size(); ++i)
      answers.push_back({row["cluster"][i], row["first"][i], row["second"][i]});
    const Agreement agreement = AgreementOf(answers);
    EXPECT_NEAR(*agreement.kappa, row["kappa"].get<double>(), 1e-12);
    EXPECT_NEAR(*agreement.lower, row["lower"].get<double>(), 1e-9);
    EXPECT_NEAR(*agreement.upper, row["upper"].get<double>(), 1e-9);
    EXPECT_DOUBLE_EQ(agreement.equal_share, row["equal_share"]);
    EXPECT_EQ(agreement.answer_count, std::ssize(answers));
  }
}

TEST(AgreementTest, WhereNothingVariesThereIsNoKappa) {
  EXPECT_FALSE(AgreementOf({}).kappa.has_value());
  const Agreement constant = AgreementOf({{"a", 1, 1}, {"b", 1, 1}});
  EXPECT_FALSE(constant.kappa.has_value());
  EXPECT_EQ(constant.equal_share, 1);
}

TEST(AgreementTest, PerfectAgreementAndOneContextHaveNoInterval) {
  const Agreement perfect = AgreementOf({{"a", 1, 1}, {"a", 0, 0}, {"b", 1, 1}, {"b", 0, 0}});
  EXPECT_EQ(*perfect.kappa, 1);
  EXPECT_FALSE(perfect.lower.has_value());
  const Agreement single = AgreementOf({{"a", 1, 1}, {"a", 0, 1}, {"a", 0, 0}});
  EXPECT_TRUE(single.kappa.has_value());
  EXPECT_FALSE(single.lower.has_value());
}

TEST(AgreementTest, OppositeRatersAreBelowZero) { EXPECT_EQ(*AgreementOf({{"a", 1, 0}, {"b", 0, 1}}).kappa, -1); }

}  // namespace
}  // namespace varifocal::stats
