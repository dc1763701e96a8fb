// Attention at the head dims of models (64 and more), for which devices have other kernels than for the small ones of the
// conformance table: against float64, and the same bits over chunks, neighbours, pages, left-over NaNs, and every position of a
// row in its tile.

#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/checks/checks.h"

namespace varifocal::kernels::cuda {
namespace {

std::string CheckWalks(const AttentionCase& c, Backend& tested) {
  const AttentionRun base = RunAttentionCase(tested, c, {});
  const std::pair<const char*, AttentionWalk> walks[] = {
      {"chunks of 7, 129, ..", {.chunks = {7, 129, 1, 64, 33}}},
      {"chunks of 100 among left-over numbers", {.chunks = {100}, .poison_pages = true}},
      {"being alone, on other pages", {.one_sequence_at_a_time = true, .page_order_seed = 9, .poison_pages = true}}};
  for (const auto& [what, walk] : walks) {
    const size_t different = CountDifferentBits(base, RunAttentionCase(tested, c, walk));
    if (different != 0) return SameBitsVerdict(different, what);
  }
  return "";
}

std::string CheckOracleAndWalks(const AttentionCase& c, Backend& tested, Backend& oracle) {
  const std::string verdict = CheckAgainstOracle(c, tested, oracle);
  return verdict.empty() ? CheckWalks(c, tested) : verdict;
}

// One prompt's rows move through all positions of a tile of 128, behind a first chunk of every third size.
std::string CheckPositions(int dim, Backend& tested) {
  const AttentionCase c{.name = "positions",
                        .head_dim = dim,
                        .query_heads = 1,
                        .kv_heads = 1,
                        .sequences = {{132, 0}},
                        .amplitude = 5.0f};
  const AttentionRun base = RunAttentionCase(tested, c, {});
  for (int first = 1; first < 128; first += 3) {
    const size_t different = CountDifferentBits(base, RunAttentionCase(tested, c, {.chunks = {first, 132 - first}}));
    if (different != 0) return SameBitsVerdict(different, "a first chunk of " + std::to_string(first));
  }
  return "";
}

}  // namespace

AttentionCase WideBitsCase(int dim, bool windowed, bool groups) {
  AttentionCase c{.name = "wide",
                  .head_dim = dim,
                  .query_heads = 2,
                  .kv_heads = 1,
                  .sequences = {{300, 1}, {129, 1}, {1, 1}, {128, 1}, {62, 0}},
                  .window = windowed ? 100 : 0,
                  .row_scales = true,
                  .amplitude = 6.0f,  // row maxima change often
                  .head_sinks = windowed};
  if (groups) c.groups = {.group_count = 8, .top_k = 2, .window = 20};
  return c;
}

std::vector<ConformanceCase> WideBitsCases() {
  std::vector<ConformanceCase> cases;
  const auto add = [&](const std::string& name, int dim, bool windowed, bool groups, bool is_slow) {
    cases.push_back({.name = "wide_bits_" + name + std::to_string(dim),
                     .check =
                         [=](Backend& tested, Backend& oracle) {
                           return CheckOracleAndWalks(WideBitsCase(dim, windowed, groups), tested, oracle);
                         },
                     .head_dim = dim,
                     .is_slow = is_slow});
  };
  for (const int dim : {64, 80, 96, 112, 128, 192, 256}) {
    add("", dim, false, false, dim != 64);
    add("window_", dim, true, false, dim != 128);
    add("groups_", dim, false, true, dim != 80);
    cases.push_back({.name = "wide_bits_positions_" + std::to_string(dim),
                     .check = [=](Backend& tested, Backend&) { return CheckPositions(dim, tested); },
                     .head_dim = dim,
                     .is_slow = dim != 64});
  }
  return cases;
}

std::vector<ConformanceCase> WideGatheredCases() {
  std::vector<ConformanceCase> cases;
  for (const int dim : {80, 96, 112, 128, 192}) {
    AttentionCase c = WideBitsCase(dim, false, true);
    c.groups.gather_from = 50;
    cases.push_back({.name = "wide_gathered_" + std::to_string(dim),
                     .check = [c](Backend& tested, Backend& oracle) { return CheckOracleAndWalks(c, tested, oracle); },
                     .head_dim = dim,
                     .gathers = true,
                     .is_slow = dim != 128});
  }
  return cases;
}

}  // namespace varifocal::kernels::cuda
