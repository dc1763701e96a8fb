#include "kernels/cuda/cuda_products.h"

#include <algorithm>

#include "base/wide_product.h"

namespace varifocal::kernels::cuda {
namespace {

// Of our own kernels.
MatmulParams ParamsOf(const uint16_t* x, int rows, const CudaWeight& weight, int64_t first, int64_t count, int splits,
                      void* out) {
  return {.x = x,
          .weight = weight.data() + first * weight.stride(),
          .x_stride = weight.columns(),
          .weight_stride = weight.stride(),
          .rows = rows,
          .outputs = static_cast<int>(count),
          .inner = static_cast<int>(weight.columns()),
          .split_count = splits,
          .split_steps = SplitSteps(weight.columns(), splits),
          .out = out};
}

}  // namespace

int CudaProducts::PlanFor(const CudaWeight& weight, int64_t outputs, ProductType type, const uint16_t* x) {
  return reinterpret_cast<uintptr_t>(x) % kChunkBytes == 0 ? weight.Plan(device_, outputs, type) : -1;
}

bool CudaProducts::TakesSm90(const CudaWeight& weight, int64_t count, const uint16_t* x) const {
  return choice_.UsesSm90(count, weight.columns()) && reinterpret_cast<uintptr_t>(x) % kChunkBytes == 0;
}

Error CudaProducts::BySm90(const uint16_t* x, int rows, const CudaWeight& weight, int64_t first, int64_t count,
                           const ProductSm90Params& with) {
  ProductSm90Params p = with;
  const int outputs = static_cast<int>(count);
  p.grid = PlanSm90Product(rows, outputs, device_.properties().multiprocessor_count,
                           p.epilogue == ProductEpilogue::kHeads ? p.heads.pool.head_dim : 0);
  p.rows = rows;
  p.outputs = outputs;
  p.inner = static_cast<int>(weight.columns());
  const int64_t stride = WideProduct(weight.stride(), sizeof(uint16_t));
  const TensorMapSpec x_matrix{.data = x,
                               .rows = rows,
                               .columns = weight.columns(),
                               .row_bytes = static_cast<int64_t>(weight.columns() * sizeof(uint16_t)),
                               .box_rows = kSm90ProductRows};
  const TensorMapSpec weight_matrix{.data = weight.data() + first * weight.stride(),
                                    .rows = count,
                                    .columns = weight.columns(),
                                    .row_bytes = stride,
                                    .box_rows = p.grid.tile_outputs};
  int code = device_.runtime().EncodeTensorMap(x_matrix, &p.x_map);
  if (code == 0) code = device_.runtime().EncodeTensorMap(weight_matrix, &p.weight_map);
  if (code == 0) code = device_.kernels().product_sm90(p, device_.stream());
  return device_.Check(code, "starting a product");
}

Error CudaProducts::ToScratch(CudaWorkspace& workspace, const uint16_t* x, int rows, const CudaWeight& weight,
                              ProductType type, ProductView* product) {
  VF_CHECK(rows == workspace.flat.row_count(), "a product of the step's rows");
  if (Error error = Place(workspace, weight, type, product); !error.ok()) return error;
  return Queue(workspace, x, weight, type, *product);
}

Error CudaProducts::Place(CudaWorkspace& workspace, const CudaWeight& weight, ProductType type, ProductView* product) {
  const bool decode = workspace.flat.batch.phase == Phase::kDecode;
  if (decode) type = ProductType::kF32;
  const int splits = decode ? DecodeSplitK(weight.rows(), weight.columns()) : 1;
  const size_t elements = WideProduct(workspace.flat.row_count(), weight.rows());
  auto scratch = workspace.Products(elements * splits * (type == ProductType::kF32 ? 4 : 2));
  if (!scratch.ok()) return scratch.error();
  *product = {.data = *scratch,
              .is_bf16 = type == ProductType::kBf16,
              .split_count = splits,
              .split_stride = elements,
              .columns = static_cast<int>(weight.rows())};
  return {};
}

Error CudaProducts::Queue(CudaWorkspace& workspace, const uint16_t* x, const CudaWeight& weight, ProductType type,
                          const ProductView& product) {
  const int rows = workspace.flat.row_count();
  void* out = const_cast<void*>(product.data);
  if (workspace.flat.batch.phase != Phase::kDecode) return InOnePiece(x, rows, weight, 0, weight.rows(), type, out);
  return QueueSplits(workspace, InSplits(workspace, x, rows, weight, 0, weight.rows(), product.split_count, out));
}

Error CudaProducts::Head(CudaWorkspace& workspace, int rows, const CudaWeight& weight, int splits,
                         HeadStatsParams* stats) {
  const uint16_t* x = workspace.head_rows.as<uint16_t>();
  const size_t elements = WideProduct(rows, stats->count);
  auto scratch = workspace.Products(elements * splits * sizeof(float));
  if (!scratch.ok()) return scratch.error();
  stats->product = static_cast<float*>(*scratch);
  stats->split_count = splits;
  stats->split_stride = elements;
  if (workspace.flat.batch.phase == Phase::kDecode) {
    stats->slice_stride = kHeadSlice;
    stats->row_stride = stats->count;
    return QueueSplits(workspace, InSplits(workspace, x, rows, weight, stats->first, stats->count, splits, *scratch));
  }
  // The library's algorithm, and so a row's bits, depend on the number of outputs: a product for each slice.
  stats->slice_stride = WideProduct(rows, kHeadSlice);
  stats->row_stride = 0;
  for (int begin = 0; begin < stats->count; begin += kHeadSlice) {
    const int count = std::min(kHeadSlice, stats->count - begin);
    float* out = stats->product + begin / kHeadSlice * stats->slice_stride;
    if (Error error = InOnePiece(x, rows, weight, stats->first + begin, count, ProductType::kF32, out); !error.ok())
      return error;
  }
  return {};
}

MatmulParams CudaProducts::InSplits(CudaWorkspace& workspace, const uint16_t* x, int rows, const CudaWeight& weight,
                                    int64_t first, int64_t count, int splits, void* out) {
  const uint16_t* rows_of_weight = weight.data() + first * weight.stride();
  workspace.weights.Read(weight.life(), rows_of_weight, WideProduct(count, weight.stride()) * sizeof(uint16_t));
  return ParamsOf(x, rows, weight, first, count, splits, out);
}

Error CudaProducts::QueueSplits(CudaWorkspace& workspace, const MatmulParams& p) {
  return device_.Check(device_.kernels().matmul_decode(p, workspace.stream()), "starting a product");
}

Error CudaProducts::InOnePiece(const uint16_t* x, int rows, const CudaWeight& weight, int64_t first, int64_t count,
                               ProductType type, void* out) {
  if (TakesSm90(weight, count, x)) {
    const auto epilogue = type == ProductType::kF32 ? ProductEpilogue::kF32 : ProductEpilogue::kBf16;
    return BySm90(x, rows, weight, first, count, {.epilogue = epilogue, .out = out});
  }
  const uint16_t* rows_of_weight = weight.data() + first * weight.stride();
  if (const int plan = PlanFor(weight, count, type, x); plan >= 0) {
    return device_.Check(device_.runtime().products()->Multiply(plan, rows, x, rows_of_weight, 1.0f, 0.0f, out),
                         "starting a product");
  }
  const MatmulParams p = ParamsOf(x, rows, weight, first, count, 1, out);
  return device_.Check(device_.kernels().matmul_prefill(p, type, device_.stream()), "starting a product");
}

}  // namespace varifocal::kernels::cuda
