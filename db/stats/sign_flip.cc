#include "db/stats/sign_flip.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"

namespace varifocal::stats {
namespace {

constexpr int kTableBits = 8;

// Signed sums of up to eight differences, by a byte whose bits are the signs.
using SignTable = std::array<double, 1 << kTableBits>;

std::vector<SignTable> MakeTables(const std::vector<double>& differences) {
  std::vector<SignTable> tables((differences.size() + kTableBits - 1) / kTableBits);
  for (size_t t = 0; t < tables.size(); ++t) {
    // Each difference doubles the table: sums with plus follow those with minus.
    SignTable& table = tables[t];
    table[0] = 0;
    for (size_t bit = 0; bit < kTableBits; ++bit) {
      const size_t index = t * kTableBits + bit, known = size_t{1} << bit;
      const double difference = index < differences.size() ? differences[index] : 0;
      for (size_t signs = 0; signs < known; ++signs) {
        table[known + signs] = table[signs] + difference;
        table[signs] -= difference;
      }
    }
  }
  return tables;
}

}  // namespace

SignFlipResult SignFlipTest(const std::vector<double>& cluster_sums, const SignFlipOptions& options) {
  VF_CHECK(options.draws > 0);
  std::vector<double> differences;
  double sum = 0;
  double magnitude = 0;
  for (double difference : cluster_sums) {
    if (difference == 0) continue;
    differences.push_back(difference);
    sum += difference;
    magnitude += std::abs(difference);
  }
  // Sums that are equal on paper differ by rounding: less than C * 2^-53 * magnitude, far below this.
  const double threshold = std::abs(sum) - 1e-10 * magnitude;
  const std::vector<SignTable> tables = MakeTables(differences);

  SignFlipResult result;
  int64_t extreme_count = 0;
  if (differences.size() <= kExactClusterCountMax) {
    result.test = "sign_flip_exact";
    result.draws = int64_t{1} << differences.size();
    for (int64_t signs = 0; signs < result.draws; ++signs) {
      double flipped = 0;
      for (size_t t = 0; t < tables.size(); ++t) flipped += tables[t][signs >> (t * kTableBits) & 0xff];
      extreme_count += std::abs(flipped) >= threshold;
    }
    result.p_value = static_cast<double>(extreme_count) / result.draws;
    return result;
  }
  result.test = "sign_flip_sampled";
  result.draws = options.draws;
  result.seed = options.seed;
  Random random(absl::StrCat("sign_flip ", options.seed));
  for (int64_t draw = 0; draw < options.draws; ++draw) {
    double flipped = 0;
    uint64_t bits = 0;
    for (size_t t = 0; t < tables.size(); ++t) {
      if (t % 8 == 0) bits = random.Next();
      flipped += tables[t][bits & 0xff];
      bits >>= kTableBits;
    }
    extreme_count += std::abs(flipped) >= threshold;
  }
  result.p_value = static_cast<double>(extreme_count + 1) / (options.draws + 1);
  return result;
}

}  // namespace varifocal::stats
