// Attention against the oracle, at every boundary: pages, tiles, splits, grouped heads, windows, scales.

#include <algorithm>
#include <climits>
#include <cmath>
#include <tuple>

#include "base/wide_product.h"
#include "kernels/conformance/attention_error.h"
#include "kernels/conformance/cases.h"

namespace varifocal::kernels {
namespace {

// Scores of a row before scaling, from the inputs as the backend rounds them.
struct RowScores {
  double best = -1e300, second = -1e300;
  bool near_zero = false;  // one of them may have the other sign: |q.k| is within its rounding
};
RowScores ScoresOf(const AttentionCase& c, const Backend& backend, int sequence, int position, int head) {
  const std::vector<float> row = ProductInput(backend, AttentionInput(c, sequence, position));
  RowScores scores;
  for (int key = 0; key <= position; ++key) {
    const std::vector<float> other = ProductInput(backend, AttentionInput(c, sequence, key));
    const size_t k = WideProduct(c.query_heads + head / (c.query_heads / c.kv_heads), c.head_dim);
    double dot = 0, size = 0;
    for (int i = 0; i < c.head_dim; ++i) {
      const double product = static_cast<double>(row[head * c.head_dim + i]) * other[k + i];
      dot += product;
      size += std::fabs(product);
    }
    scores.near_zero |= std::fabs(dot) <= size * ((c.head_dim + 2) * kUnit + OperandUnit(backend));
    if (dot > scores.best) {
      scores.second = scores.best;
      scores.best = dot;
    } else {
      scores.second = std::max(scores.second, dot);
    }
  }
  return scores;
}

// Scores so large that one key, or the sink, has all the weight: wherever the gap to the second key exceeds the rounding of
// a score, the output is that key's value. With a cap all scores are at it or at its negative: wherever no sign is in doubt,
// the output is the oracle's.
std::string CheckSharp(const AttentionCase& c, Backend& tested, Backend& oracle) {
  const AttentionRun got = RunAttentionCase(tested, c, {}), want = RunAttentionCase(oracle, c, {});
  // Of both keys.
  const double rounding = (2 * (c.head_dim + 2) * kUnit + 6 * OperandUnit(tested)) * c.head_dim;
  const bool has_sink = c.sink != kNoSink;
  AttentionCase at_cap = c;
  at_cap.scale = c.soft_cap / c.head_dim;
  const double of_weights = c.soft_cap > 0 ? AttentionTolerance(at_cap, OperandUnit(tested)) : 0;
  int compared = 0;
  for (size_t s = 0; s < c.sequences.size(); ++s) {
    for (size_t i = 0; i < got.outs[s].size(); i += c.head_dim) {
      const int position = i / (c.query_heads * c.head_dim);
      const int head = static_cast<int>(i / c.head_dim) % c.query_heads;
      const std::vector<float> a(got.outs[s].begin() + i, got.outs[s].begin() + i + c.head_dim);
      std::vector<float> b(want.outs[s].begin() + i, want.outs[s].begin() + i + c.head_dim);
      const RowScores scores = ScoresOf(c, tested, s, position, head);
      const bool one_key = position == 0 || scores.best - scores.second > rounding;
      const bool clear =
          c.soft_cap > 0 ? !scores.near_zero : one_key && (!has_sink || std::fabs(scores.best) > rounding);
      if (!clear) b = a;  // only finiteness can be checked
      compared += clear;
      RETURN_COMPLAINT(CompareWithin(a, b, 1e-6 + of_weights + OperandUnit(tested) + OutputUnit(tested),
                                     "row " + std::to_string(position)));
    }
  }
  return compared > 0 ? "" : "no row had a clear best key";
}

std::vector<AttentionCase> AttentionTable() {
  std::vector<AttentionCase> table;
  // Lengths around pages (128), key tiles (8, 16), lanes (16, 48).
  for (const int length : {1, 2, 7, 8, 9, 15, 16, 17, 47, 48, 49, 127, 128, 129, 255, 257, 300})
    table.push_back({.name = "length_" + std::to_string(length), .sequences = {{length, 3}}});
  for (const int dim : {1,  2,  3,  6,  8,   10,  13,  16,  20,  24,  32,  33,  40,  48,  63, 64,
                        72, 80, 88, 96, 100, 112, 127, 128, 192, 248, 250, 255, 256, 500, 512}) {
    table.push_back({.name = "head_dim_" + std::to_string(dim),
                     .head_dim = dim,
                     .query_heads = 2,
                     .kv_heads = 1,
                     .sequences = {{140, 2}}});
  }
  for (const auto& [heads, kv] : {std::pair{1, 1}, {4, 4}, {4, 1}, {6, 2}, {8, 1}, {7, 1}, {16, 4}}) {
    table.push_back({.name = "heads_" + std::to_string(heads) + "_over_" + std::to_string(kv),
                     .head_dim = 16,
                     .query_heads = heads,
                     .kv_heads = kv,
                     .sequences = {{131, 2}}});
  }
  for (const int window : {1, 2, 8, 9, 100, 127, 128, 129, 1000})
    table.push_back({.name = "window_" + std::to_string(window), .sequences = {{290, 4}}, .window = window});
  table.push_back({.name = "several_sequences", .sequences = {{1, 2}, {130, 3}, {17, 1}, {256, 0}, {3, 5}}});
  table.push_back({.name = "scale_per_row", .sequences = {{200, 3}, {50, 3}}, .row_scales = true});
  table.push_back({.name = "scale_per_head", .sequences = {{200, 3}, {50, 3}}, .head_scales = true});
  table.push_back({.name = "scale_per_row_and_head",
                   .query_heads = 6,
                   .kv_heads = 2,
                   .sequences = {{200, 3}, {50, 3}},
                   .row_scales = true,
                   .head_scales = true});
  table.push_back({.name = "rows_that_see_nothing", .sequences = {{140, 1}}, .blind_rows = 20});
  table.push_back({.name = "large_scores", .sequences = {{260, 2}}, .amplitude = 8.0f});
  // Caps below, near and far above the scores; masked pairs, rows without keys and scales of rows among them.
  for (const float cap : {0.5f, 5.0f, 50.0f}) {
    table.push_back({.name = "soft_cap_" + std::to_string(static_cast<int>(10 * cap)),
                     .sequences = {{290, 4}, {50, 3}},
                     .window = 100,
                     .row_scales = true,
                     .amplitude = 5.0f,
                     .soft_cap = cap});
  }
  table.push_back({.name = "soft_cap_tiny_scores", .sequences = {{260, 2}}, .amplitude = 1e-20f, .soft_cap = 50.0f});
  table.push_back({.name = "soft_cap_blind", .sequences = {{140, 1}}, .blind_rows = 20, .soft_cap = 2.0f});
  table.push_back({.name = "soft_cap_temperature_1e30",
                   .sequences = {{260, 2}},
                   .scale = 0.17677669529663687 / 1e30,
                   .soft_cap = 2.0f});
  // Sinks below, among and above the scores, and so far above that the weights of keys are zero beside it.
  for (const float sink : {-200.0f, 0.0f, 20.0f, 200.0f}) {
    table.push_back({.name = "sink_" + std::to_string(static_cast<int>(sink)),
                     .sequences = {{260, 2}, {3, 2}},
                     .amplitude = 2.0f,
                     .sink = sink});
  }
  table.push_back({.name = "sinks_per_head",
                   .query_heads = 6,
                   .kv_heads = 2,
                   .sequences = {{290, 4}, {50, 3}},
                   .row_scales = true,
                   .head_scales = true,
                   .amplitude = 5.0f,
                   .head_sinks = true});
  table.push_back({.name = "sinks_in_a_window_under_a_cap",
                   .sequences = {{290, 4}, {50, 3}},
                   .window = 100,
                   .amplitude = 5.0f,
                   .soft_cap = 2.0f,
                   .head_sinks = true});
  table.push_back({.name = "sinks_blind", .sequences = {{140, 1}}, .blind_rows = 20, .head_sinks = true});
  table.push_back(
      {.name = "sink_temperature_1e30", .sequences = {{260, 2}}, .scale = 0.17677669529663687 / 1e30, .sink = 1.0f});
  table.push_back({.name = "sinks_head_dim_100",
                   .head_dim = 100,
                   .query_heads = 2,
                   .kv_heads = 1,
                   .sequences = {{140, 2}},
                   .head_sinks = true});
  table.push_back({.name = "tiny_scores", .sequences = {{260, 2}}, .amplitude = 1e-20f});
  table.push_back({.name = "temperature_0.4", .sequences = {{260, 2}}, .scale = 0.17677669529663687 / 0.4});
  table.push_back({.name = "temperature_1e30", .sequences = {{260, 2}}, .scale = 0.17677669529663687 / 1e30});
  // Decode at the end of a split of 2,048 keys and over three; of the prompt, whose rows fill the pages, the last ones see keys.
  for (const auto& [name, prefill, amplitude] : {std::tuple{"decode_at_a_split", 2047, 1.0f},
                                                 {"decode_across_splits", 4095, 1.0f},
                                                 {"decode_across_splits_large_scores", 4095, 5.0f}}) {
    table.push_back({.name = name,
                     .head_dim = 16,
                     .query_heads = 2,
                     .kv_heads = 1,
                     .sequences = {{prefill, 3}},
                     .blind_rows = prefill - 20,
                     .amplitude = amplitude});
  }
  table.push_back({.name = "decode_across_splits_capped_with_sinks",
                   .head_dim = 16,
                   .query_heads = 2,
                   .kv_heads = 1,
                   .sequences = {{4095, 3}},
                   .blind_rows = 4075,
                   .amplitude = 5.0f,
                   .soft_cap = 2.0f,
                   .head_sinks = true});
  return table;
}

}  // namespace

// The bound on |out - oracle| for weights p_i = exp(s_i) / sum and values in [-1, 1].
//
// A score is a sum of D products and a scaling, so its error is at most (D + 2) u |q| |k| scale; the relative error of a
// weight is twice that (its own score and the largest one) plus 3e-7 of exp2; sums of n terms add n u each, in numerator
// and denominator. In bf16 the scaled query rounds once more (a score by |q| |k| scale 2^-8, Cauchy-Schwarz), and every
// weight once before the product with its value; its exp2 may be a cubic, 1e-4. Values are at most 1, so the relative
// error of the weights is the absolute error of the output.
double AttentionTolerance(const AttentionCase& c, double operand_unit) {
  int longest = 1;
  for (const auto& s : c.sequences) longest = std::max(longest, s.prefill + s.decode);
  const double norm = c.amplitude * std::sqrt(c.head_dim);
  double scale = 0;
  for (int position = 0; position < longest; ++position) scale = std::max<double>(scale, RowScale(c, 0, position));
  const double score = ((c.head_dim + 2) * kUnit + operand_unit) * norm * norm * scale;
  return 2 * score + (operand_unit > 0 ? 1e-4 : 3e-7) + 2 * longest * kUnit + operand_unit;
}

std::string CheckAgainstOracle(const AttentionCase& c, Backend& tested, Backend& oracle) {
  const AttentionRun got = RunAttentionCase(tested, c, {}), want = RunAttentionCase(oracle, c, {});
  const double tolerance = AttentionTolerance(c, OperandUnit(tested));
  for (size_t s = 0; s < got.outs.size(); ++s) {
    std::string error = CompareWithin(got.outs[s], want.outs[s], tolerance + OutputUnit(tested),
                                      "out of sequence " + std::to_string(s));
    // The log-sum-exp is a score plus a logarithm: its own rounding is relative to its size.
    double size = 1;
    for (const float lse : want.log_sum_exps[s]) size = std::max<double>(size, lse > kEmptyLse ? std::fabs(lse) : 1);
    if (error.empty()) {
      error = CompareWithin(got.log_sum_exps[s], want.log_sum_exps[s], tolerance + 2 * kUnit * size,
                            "log-sum-exp of sequence " + std::to_string(s));
    }
    if (!error.empty()) return error;
  }
  return "";
}

std::vector<ConformanceCase> AttentionCases() {
  std::vector<ConformanceCase> cases;
  for (const AttentionCase& c : AttentionTable()) {
    cases.push_back({"attention_" + c.name,
                     [c](Backend& tested, Backend& oracle) { return CheckAgainstOracle(c, tested, oracle); },
                     c.head_dim});
  }
  for (const int head_dim : {64, 96, 256}) {
    cases.push_back({"attention_error_head_dim_" + std::to_string(head_dim),
                     [head_dim](Backend& tested, Backend&) {
                       const AttentionError error = MeasureAttentionError(tested, head_dim, 200);
                       return error.share_of_bound <= 1
                                  ? std::string()
                                  : "an error is " + std::to_string(error.share_of_bound) + " of its bound";
                     },
                     head_dim});
  }
  for (const auto& [name, temperature] : {std::pair{"1e-30", 1e-30}, {"1e-12", 1e-12}, {"1e-45", 1e-45}}) {
    const AttentionCase c{.name = name,
                          .query_heads = 2,
                          .kv_heads = 1,
                          .sequences = {{150, 2}},
                          .scale = 0.17677669529663687 / temperature};
    const auto add = [&](const std::string& kind, const AttentionCase& sharp) {
      cases.push_back({"attention_temperature_" + c.name + kind,
                       [sharp](Backend& tested, Backend& oracle) { return CheckSharp(sharp, tested, oracle); }, 0,
                       sharp.groups.gather_from != INT32_MAX});
    };
    add("", c);
    AttentionCase other = c;
    other.sink = 0;
    add("_sink", other);
    other.soft_cap = 2.0f;
    add("_sink_soft_cap", other);
    other.sink = kNoSink;
    add("_soft_cap", other);
    for (const int gather_from : {INT32_MAX, 100}) {
      other.groups = {.group_count = 8, .top_k = 2, .window = 20, .gather_from = gather_from};
      for (const bool row_keys : {false, true}) {
        other.row_keys = row_keys;
        add(std::string("_soft_cap_groups") + (row_keys ? "_rows" : "") + (gather_from == INT32_MAX ? "" : "_gathered"),
            other);
      }
    }
  }
  return cases;
}

}  // namespace varifocal::kernels
