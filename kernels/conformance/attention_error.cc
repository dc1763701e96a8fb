#include "kernels/conformance/attention_error.h"

#include <algorithm>
#include <cmath>

#include "base/wide_product.h"
#include "kernels/conformance/cases.h"

namespace varifocal::kernels {
namespace {

constexpr int kHeads = 2;

// Exact outputs of one row and head over `inputs` (q [H, D], k [D], v [D] per position), and their bounds.
struct ExactRow {
  std::vector<double> out, bound;
};

ExactRow Attend(const std::vector<std::vector<float>>& inputs, int dim, int position, int head, double operand_unit) {
  const int keys = position + 1;
  const double scale = 1 / std::sqrt(dim);
  const float* query = inputs[position].data() + head * dim;
  std::vector<double> weights(keys), errors(keys);
  double top = -1e300, total = 0, mean_error = 0;
  for (int j = 0; j < keys; ++j) {
    const float* key = inputs[j].data() + kHeads * dim;
    double score = 0, size = 0;
    for (int i = 0; i < dim; ++i) {
      const double product = static_cast<double>(query[i]) * key[i];
      score += product;
      size += std::fabs(product);
    }
    weights[j] = score * scale;
    errors[j] = std::expm1(size * scale * (operand_unit + (dim + 2) * kUnit)) + (operand_unit > 0 ? 1e-4 : 3e-7);
    top = std::max(top, weights[j]);
  }
  for (double& weight : weights) total += weight = std::exp(weight - top);
  for (int j = 0; j < keys; ++j) mean_error += (weights[j] /= total) * errors[j];
  ExactRow row{std::vector<double>(dim), std::vector<double>(dim)};
  for (int i = 0; i < dim; ++i) {
    const auto value = [&](int j) { return static_cast<double>(inputs[j][(kHeads + 1) * dim + i]); };
    double moved = 0, sizes = 0;
    for (int j = 0; j < keys; ++j) row.out[i] += weights[j] * value(j);
    for (int j = 0; j < keys; ++j) {
      moved += weights[j] * errors[j] * std::fabs(value(j) - row.out[i]);
      sizes += weights[j] * std::fabs(value(j));
    }
    row.bound[i] = moved / (1 - mean_error) + operand_unit * sizes + 2 * keys * kUnit * sizes;
  }
  return row;
}

}  // namespace

AttentionError MeasureAttentionError(Backend& tested, int head_dim, int rows) {
  const AttentionCase c{.name = "error",
                        .head_dim = head_dim,
                        .query_heads = kHeads,
                        .kv_heads = 1,
                        .sequences = {{rows, 0}},
                        .amplitude = 2.0f,
                        .independent_heads = true};
  const std::vector<float> got = RunAttentionCase(tested, c, {}).outs[0];
  std::vector<std::vector<float>> exact, rounded;
  for (int position = 0; position < rows; ++position) {
    exact.push_back(AttentionInput(c, 0, position));
    rounded.push_back(ProductInput(tested, exact.back()));
  }
  AttentionError error;
  double squares = 0;
  for (int position = 0; position < rows; ++position) {
    for (int head = 0; head < kHeads; ++head) {
      const ExactRow want = Attend(rounded, head_dim, position, head, OperandUnit(tested));
      const ExactRow truth = Attend(exact, head_dim, position, head, 0);
      const float* out = got.data() + WideProduct(position * kHeads + head, head_dim);
      for (int i = 0; i < head_dim; ++i) {
        const double off = std::fabs(out[i] - want.out[i]);
        const double bound = want.bound[i] + (OutputUnit(tested) + kUnit) * std::fabs(want.out[i]);
        error.bound = std::max(error.bound, bound);
        error.share_of_bound = std::max(error.share_of_bound, off / bound);
        error.worst = std::max(error.worst, off);
        error.with_inputs = std::max(error.with_inputs, std::fabs(out[i] - truth.out[i]));
        squares += off * off;
      }
    }
  }
  error.rms = std::sqrt(squares / (static_cast<double>(rows) * kHeads * head_dim));
  return error;
}

}  // namespace varifocal::kernels
