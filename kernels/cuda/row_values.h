// The elements of a product as its row-wise kernels read them: splits added in order, bf16 widened, bias added; one number,
// or four with loads of 16 bytes. And sums over a block, which has kThreads threads.
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/decode_steps.h"
#include "kernels/cuda/fused_choice.h"
#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// Sum over the block's 256 threads, the same in every thread.
VF_DEVICE float BlockSum(float value) {
  VF_SHARED float parts[kWarps];
  value = WarpSum(value);
  if (LaneIndex() == 0) parts[WarpIndex()] = value;
  SyncThreads();
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += parts[w];
  SyncThreads();
  return sum;
}

VF_DEVICE float ProductAt(const ProductView& product, int row, int column) {
  const size_t at = WideProduct(row, product.columns) + column;
  if (product.is_bf16) return WidenLow(static_cast<const uint16_t*>(product.data)[at]);
  const float* data = static_cast<const float*>(product.data);
  float sum = data[at];
  for (int split = 1; split < product.split_count; ++split) sum += data[split * product.split_stride + at];
  return sum;
}

constexpr int kSplitsAtOnce = 6;

// Four neighbouring numbers; the column and the product's width are multiples of 4.
VF_DEVICE FourFloats FourProductsAt(const ProductView& product, int row, int column) {
  const size_t at = WideProduct(row, product.columns) + column;
  if (product.is_bf16) {
    const TwoWords words = LoadAligned<TwoWords>(static_cast<const uint16_t*>(product.data) + at);
    return {{WidenLow(words.at[0]), WidenHigh(words.at[0]), WidenLow(words.at[1]), WidenHigh(words.at[1])}};
  }
  const float* data = static_cast<const float*>(product.data) + at;
  const auto part = [&](int split) {
    return LoadAligned<FourFloats>(data + InOrder(DecodeStep::kOrderOfParts, split, product.split_count) *
                                              product.split_stride);
  };
  FourFloats sum = part(0);
  // All splits of a group are loaded before the first is added: with few blocks no other warp hides a load's latency.
  for (int first = 1; first < product.split_count; first += kSplitsAtOnce) {
    FourFloats parts[kSplitsAtOnce];
    VF_UNROLL
    for (int s = 0; s < kSplitsAtOnce; ++s) {
      if (first + s < product.split_count) parts[s] = part(first + s);
    }
    VF_UNROLL
    for (int s = 0; s < kSplitsAtOnce; ++s) {
      if (first + s >= product.split_count) break;
      VF_UNROLL
      for (int i = 0; i < 4; ++i) sum.at[i] += parts[s].at[i];
    }
  }
  return sum;
}
// Of a row; null: none.
VF_DEVICE const float* BiasOf(const ProductView& product, int row) {
  if (product.bias_rows == nullptr) return product.bias;
  return product.bias + WideProduct(product.bias_rows[row], product.columns);
}
VF_DEVICE FourFloats FourBiasedAt(const ProductView& product, int row, int column) {
  FourFloats values = FourProductsAt(product, row, column);
  if (product.bias == nullptr) return values;
  const FourFloats bias = LoadAligned<FourFloats>(BiasOf(product, row) + column);
  VF_UNROLL
  for (int i = 0; i < 4; ++i) values.at[i] += bias.at[i];
  return values;
}
VF_DEVICE float BiasedAt(const ProductView& product, int row, int column) {
  const float value = ProductAt(product, row, column);
  return product.bias == nullptr ? value : value + BiasOf(product, row)[column];
}

VF_DEVICE TwoWords PackFour(const FourFloats& values) {
  return {{PackBf16(values.at[0], values.at[1]), PackBf16(values.at[2], values.at[3])}};
}

// One over the root of a row's mean square.
VF_DEVICE float InverseOf(float squares, int width, float epsilon) { return 1.0f / sqrtf(squares / width + epsilon); }

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
