#include "kernels/reference/reference_layers.h"

#include "base/wide_product.h"

namespace varifocal::kernels {

void ReferenceNormResidual(const FlatBatch& flat, const StepShape& shape, const NormResidualArgs& args) {
  const int rows = flat.row_count();
  const int64_t width = shape.model_dim;
  const float* x = HostData<float>(args.x, rows * width);
  const float* weight = HostData<float>(args.norm_weight, width);
  float* residual = HostData<float>(args.residual, rows * width);
  std::vector<double> normed(width);
  for (int t = 0; t < rows; ++t, x += width, residual += width) {
    Normalize(NormKind::kRms, x, weight, nullptr, width, args.norm_epsilon, normed.data());
    for (int64_t i = 0; i < width; ++i) residual[i] = args.scale * (residual[i] + args.multiplier * normed[i]);
  }
}

void ReferenceLayerInputs(const FlatBatch& flat, const LayerInputsArgs& args) {
  const auto& table = static_cast<const ReferenceWeight&>(*args.table);
  const int rows = flat.row_count();
  const int64_t width = table.columns() / args.layer_count;
  VF_CHECK(std::ssize(args.tokens) == rows, "one token per row");
  const float* projected = HostData<float>(args.projected, rows * table.columns());
  const float* weight = HostData<float>(args.norm_weight, width);
  float* out = HostData<float>(args.out, rows * table.columns());
  std::vector<double> normed(width);
  for (int t = 0; t < rows; ++t) {
    VF_CHECK(args.tokens[t] >= 0 && args.tokens[t] < table.rows(), "token id outside the vocabulary");
    for (int l = 0; l < args.layer_count; ++l) {
      const float* x = projected + t * table.columns() + l * width;
      const float* of_token = table.row(args.tokens[t]) + l * width;
      Normalize(NormKind::kRms, x, weight, nullptr, width, args.norm_epsilon, normed.data());
      float* to = out + (WideProduct(l, rows) + t) * width;
      for (int64_t i = 0; i < width; ++i) to[i] = args.factor * (normed[i] + args.multiplier * of_token[i]);
    }
  }
}

}  // namespace varifocal::kernels
