// InspectAttention against the oracle, which has every weight of a row: statistics, masses of segments, and the guarantee
// that inspection changes no output.
//
// The controls inspect with a mask, a temperature or head scales that the layer did not use: their statistics must not
// agree, or the comparison is vacuous.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/conformance/cases.h"

namespace varifocal::kernels {
namespace {

// In f32 the bound of docs/measuring.md; where scores are larger or operands are bf16, the bound of the weights.
double WeightTolerance(const AttentionCase& c, const Backend& tested) {
  const double bound = AttentionTolerance(c, OperandUnit(tested));
  return OperandUnit(tested) == 0 && c.amplitude <= 1 ? 1e-5 : bound;
}

std::string Difference(const std::string& what, int sequence, int position, size_t head, double got, double want) {
  return what + " of sequence " + std::to_string(sequence) + ", row " + std::to_string(position) + ", head " +
         std::to_string(head) + " is " + std::to_string(got) + ", in the oracle " + std::to_string(want);
}

std::string Compare(const AttentionRun& got, const AttentionRun& want, double tolerance, int head_count) {
  const size_t segments = std::size(kInspectedBoundaries) - 1;
  size_t compared = 0;
  for (size_t s = 0; s < want.inspected.size(); ++s) {
    for (size_t r = 0; r < want.inspected[s].size(); ++r) {
      const InspectedRow &a = got.inspected[s][r], &b = want.inspected[s][r];
      const int sequence = s;
      for (size_t h = 0; h < b.heads.size(); ++h) {
        const HeadAttention &x = a.heads[h], &y = b.heads[h];
        // A relative error e of the weights moves the entropy by at most e (1 + ln n).
        const double entropy_tolerance = 2 * tolerance * (1 + std::log(std::max(1, y.visible_count)));
        const double lse_tolerance = tolerance + 2 * kUnit * std::fabs(y.log_sum_exp);
        const auto wrong = [](double p, double q, double bound) { return !(std::fabs(p - q) <= bound); };
        if (x.visible_count != y.visible_count)
          return Difference("the number of keys", sequence, b.position, h, x.visible_count, y.visible_count);
        if (wrong(x.scale, y.scale, 0)) return Difference("the scale", sequence, b.position, h, x.scale, y.scale);
        if (wrong(x.log_sum_exp, y.log_sum_exp, lse_tolerance))
          return Difference("log-sum-exp", sequence, b.position, h, x.log_sum_exp, y.log_sum_exp);
        // The very number that Attend returned for the row.
        const double attended = want.log_sum_exps[s][(b.position * head_count) + h];
        if (y.visible_count > 0 && wrong(y.log_sum_exp, attended, 1e-6 * (1 + std::fabs(attended))))
          return Difference("log-sum-exp of Attend", sequence, b.position, h, y.log_sum_exp, attended);
        if (wrong(x.entropy, y.entropy, entropy_tolerance))
          return Difference("entropy", sequence, b.position, h, x.entropy, y.entropy);
        if (wrong(x.largest_weight, y.largest_weight, tolerance))
          return Difference("the largest weight", sequence, b.position, h, x.largest_weight, y.largest_weight);
        if (wrong(x.sink_weight, y.sink_weight, tolerance))
          return Difference("the sink's weight", sequence, b.position, h, x.sink_weight, y.sink_weight);
        for (size_t i = 0; i < segments; ++i) {
          const double p = a.masses[h * segments + i], q = b.masses[h * segments + i];
          if (wrong(p, q, tolerance))
            return Difference("mass of segment " + std::to_string(i), sequence, b.position, h, p, q);
          ++compared;
        }
      }
    }
  }
  return compared > 0 ? "" : "no row was inspected";
}

std::string CheckInspection(const AttentionCase& c, Backend& tested, Backend& oracle) {
  const AttentionWalk walk{.inspect = InspectedRows::kMiddleAndLast};
  const AttentionRun got = RunAttentionCase(tested, c, walk);
  const size_t different = CountDifferentBits(got, RunAttentionCase(tested, c, {}));
  if (different != 0) return "inspection changed " + std::to_string(different) + " numbers of the outputs";
  return Compare(got, RunAttentionCase(oracle, c, walk), WeightTolerance(c, tested), c.query_heads);
}

// Statistics of the last row of each prompt, for any chunks, neighbours and pages.
std::string CheckSameBits(const AttentionCase& c, Backend& tested) {
  const auto last_rows = [&](const AttentionWalk& walk) {
    const AttentionRun run = RunAttentionCase(tested, c, walk);
    std::vector<double> numbers;
    for (size_t s = 0; s < run.inspected.size(); ++s) {
      for (const InspectedRow& row : run.inspected[s]) {
        if (row.position != c.sequences[s].prefill - 1) continue;
        for (const HeadAttention& head : row.heads)
          numbers.insert(numbers.end(), {head.log_sum_exp, head.entropy, head.largest_weight, head.sink_weight});
        numbers.insert(numbers.end(), row.masses.begin(), row.masses.end());
        break;
      }
    }
    return numbers;
  };
  constexpr InspectedRows kLast = InspectedRows::kLastOfPrompt;
  const std::vector<double> base = last_rows({.inspect = kLast});
  if (base.empty()) return "no last row was inspected";
  for (const AttentionWalk& walk :
       {AttentionWalk{.chunks = {48}, .inspect = kLast}, AttentionWalk{.last_prompt_row_alone = true, .inspect = kLast},
        AttentionWalk{.one_sequence_at_a_time = true, .page_order_seed = 7, .poison_pages = true, .inspect = kLast}}) {
    const std::vector<double> other = last_rows(walk);
    if (other.size() != base.size() || std::memcmp(other.data(), base.data(), base.size() * sizeof(double)) != 0)
      return "chunks, neighbours or pages changed the statistics of a row";
  }
  return "";
}

std::string CheckControl(const AttentionCase& wrong, const AttentionCase& right, Backend& tested, Backend& oracle) {
  const AttentionWalk walk{.inspect = InspectedRows::kMiddleAndLast};
  const std::string found = Compare(RunAttentionCase(tested, wrong, walk), RunAttentionCase(oracle, right, walk),
                                    WeightTolerance(right, tested), right.query_heads);
  return !found.empty() ? "" : "statistics of another attention were taken for those of the layer";
}

std::vector<AttentionCase> InspectionTable() {
  const std::vector<AttentionCase::Sequence> mixed = {{290, 3}, {129, 2}, {1, 3}, {128, 1}};
  std::vector<AttentionCase> table = {
      {.name = "causal", .sequences = mixed},
      {.name = "window", .sequences = mixed, .window = 100},
      {.name = "temperature_0.4", .sequences = mixed, .scale = 0.17677669529663687 / 0.4},
      {.name = "scale_per_row_and_head",
       .query_heads = 6,
       .kv_heads = 2,
       .sequences = mixed,
       .row_scales = true,
       .head_scales = true},
      {.name = "large_scores", .sequences = mixed, .amplitude = 8.0f},
      {.name = "soft_cap", .sequences = mixed, .window = 100, .amplitude = 5.0f, .soft_cap = 2.0f},
      {.name = "sinks",
       .sequences = mixed,
       .window = 100,
       .row_scales = true,
       .amplitude = 5.0f,
       .soft_cap = 2.0f,
       .head_sinks = true},
      {.name = "sink_above_all", .sequences = mixed, .sink = 200.0f},
      {.name = "sink_of_rows_that_see_nothing", .sequences = {{140, 1}, {20, 1}}, .blind_rows = 80, .sink = 1.0f},
      {.name = "rows_that_see_nothing", .sequences = {{140, 1}, {20, 1}}, .blind_rows = 80},
      {.name = "head_dim_100", .head_dim = 100, .query_heads = 2, .kv_heads = 1, .sequences = {{140, 2}}},
      {.name = "across_splits",
       .head_dim = 16,
       .query_heads = 2,
       .kv_heads = 1,
       .sequences = {{4120, 2}},
       .blind_rows = 4080},
      {.name = "collected_keys", .sequences = mixed, .row_keys = true},
  };
  for (const bool row_keys : {false, true}) {
    AttentionCase groups{.name = row_keys ? "groups_collected" : "groups",
                         .sequences = {{600, 3}, {129, 2}, {1, 3}},
                         .row_scales = true,
                         .groups = {.group_count = 8, .top_k = 2, .window = 20, .gather_from = 150},
                         .row_keys = row_keys};
    table.push_back(groups);
    groups.name += "_in_a_window";
    groups.window = 200;
    table.push_back(groups);
    groups.name += "_capped_sinks";
    groups.soft_cap = 2.0f;
    groups.head_sinks = true;
    table.push_back(groups);
  }
  return table;
}

}  // namespace

std::vector<ConformanceCase> InspectionCases() {
  std::vector<ConformanceCase> cases;
  for (const AttentionCase& c : InspectionTable()) {
    cases.push_back({"inspection_" + c.name,
                     [c](Backend& tested, Backend& oracle) {
                       const std::string error = CheckInspection(c, tested, oracle);
                       return !error.empty() ? error : CheckSameBits(c, tested);
                     },
                     c.head_dim});
  }
  const AttentionCase right{.sequences = {{290, 3}}, .groups = {.group_count = 8, .top_k = 2, .window = 20}};
  AttentionCase no_groups = right, other_window = right, warmer = right, head_scaled = right, with_sink = right;
  no_groups.groups = {};
  other_window.groups.window = 21;
  warmer.scale = 0.17677669529663687 / 1.05;
  head_scaled.head_scales = true;
  with_sink.sink = 3.0f;
  for (const auto& [name, wrong] : {std::pair{"without_groups", no_groups},
                                    {"other_window", other_window},
                                    {"other_temperature", warmer},
                                    {"head_scales", head_scaled},
                                    {"sink", with_sink}}) {
    cases.push_back(
        {std::string("inspection_control_") + name, [wrong = wrong, right](Backend& tested, Backend& oracle) {
           return CheckControl(wrong, right, tested, oracle);
         }});
  }
  return cases;
}

}  // namespace varifocal::kernels
