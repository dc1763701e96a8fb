// The tokens that top_k, top_p and min_p leave, their order and their probabilities, against transformers' warpers on logits
// with ties: a uniform number just inside the ends of each token's interval draws that token.
#include "server/engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/files.h"
#include "base/json.h"

namespace varifocal {
namespace {

TEST(SamplerGoldenTest, FiltersLeaveWhatTransformersLeaves) {
  const auto golden = ParseJson(*ReadFile("tests/testdata/goldens/sampling.json", kDataFile));
  ASSERT_TRUE(golden.ok()) << golden.status();
  ASSERT_EQ((*golden)["cases"].size(), 78u);
  int cut_count = 0;
  for (const Json& row : (*golden)["cases"]) {
    const auto logits = row["logits"].get<std::vector<float>>();
    const auto kept = row["kept_logits"].get<std::vector<float>>();
    const auto shares = row["shares"].get<std::vector<double>>();
    const Sampling sampling{.temperature = row["temperature"],
                            .top_p = row.value("top_p", 1.0),
                            .top_k = row.value("top_k", 0),
                            .min_p = row.value("min_p", 0.0)};
    ASSERT_TRUE(CheckSampling(sampling).ok());
    cut_count += kept.size() < logits.size() ? 1 : 0;
    // Of tokens with equal logits that top_p parts, the lower ids stay here and the higher ones there.
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
    kernels::TokenDraw draw = MakeDraw(sampling, 0, 0);
    double begin = 0;
    for (size_t i = 0; i < kept.size(); ++i) {
      const double end = i + 1 == kept.size() ? 1 : begin + shares[i];
      for (const double uniform : {begin + 1e-9, end - 1e-9}) {
        draw.uniform = uniform;
        const kernels::DrawnToken drawn = kernels::DrawToken(logits, draw);
        EXPECT_EQ(drawn.logit, kept[i]) << row.dump() << " at " << uniform;
        EXPECT_EQ(drawn.token, order[i]) << row.dump() << " at " << uniform;
      }
      begin = end;
    }
  }
  EXPECT_GT(cut_count, 50) << "most cases leave tokens out";
}

}  // namespace
}  // namespace varifocal
