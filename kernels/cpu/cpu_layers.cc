#include "kernels/cpu/cpu_layers.h"

#include <algorithm>

#include "base/wide_product.h"
#include "kernels/cpu/layer_rows.h"
#include "kernels/cpu/packed_weight.h"

namespace varifocal::kernels::cpu {

bool RunNormResidual(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                     const NormResidualArgs& args) {
  const int rows = workspace.flat.row_count();
  const int64_t width = workspace.shape.model_dim;
  const float* x = HostData<float>(args.x, WideProduct(rows, width));
  const float* weight = HostData<float>(args.norm_weight, width);
  float* residual = HostData<float>(args.residual, WideProduct(rows, width));
  return EachLayerRow(pool, workspace.flat, [&](int row, int) {
    float* normed = workspace.projected.get() + WideProduct(row, width);
    kernels.norm_row({.x = x + WideProduct(row, width),
                      .weight = weight,
                      .width = width,
                      .epsilon = args.norm_epsilon,
                      .out = normed});
    float* to = residual + WideProduct(row, width);
    for (int64_t i = 0; i < width; ++i) to[i] = (to[i] + args.multiplier * normed[i]) * args.scale;
  });
}

bool RunLayerInputs(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                    const LayerInputsArgs& args) {
  const auto& table = static_cast<const PackedWeight&>(*args.table);
  const int rows = workspace.flat.row_count(), layers = args.layer_count;
  const int64_t width = table.columns() / layers;
  VF_CHECK(std::ssize(args.tokens) == rows, "one token per row");
  VF_CHECK(layers == workspace.shape.layer_input_count && width == workspace.shape.layer_input_width,
           "the workspace was planned for these inputs");
  const float* projected = HostData<float>(args.projected, rows * table.columns());
  const float* weight = HostData<float>(args.norm_weight, width);
  float* out = HostData<float>(args.out, rows * table.columns());
  return EachLayerRow(pool, workspace.flat, [&](int row, int thread) {
    VF_CHECK(args.tokens[row] >= 0 && args.tokens[row] < table.rows(), "token id outside the vocabulary");
    float* of_token = workspace.scratch(thread);
    table.ReadRow(args.tokens[row], of_token);
    for (int l = 0; l < layers; ++l, of_token += width) {
      float* to = out + (WideProduct(l, rows) + row) * width;
      kernels.norm_row({.x = projected + row * table.columns() + l * width,
                        .weight = weight,
                        .width = width,
                        .epsilon = args.norm_epsilon,
                        .out = to});
      for (int64_t i = 0; i < width; ++i) to[i] = args.factor * (to[i] + args.multiplier * of_token[i]);
    }
  });
}

}  // namespace varifocal::kernels::cpu
