// What follows a product: gates, activations, norms and the residual, four numbers at a time.
#pragma once

#include "kernels/cuda/device_activation.h"
#include "kernels/cuda/row_values.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// Eight neighbouring numbers; the column and the product's width are multiples of 8.
struct EightFloats {
  FourFloats low, high;
};
VF_DEVICE EightFloats EightProductsAt(const ProductView& product, int row, int column) {
  if (!product.is_bf16) return {FourProductsAt(product, row, column), FourProductsAt(product, row, column + 4)};
  const size_t at = WideProduct(row, product.columns) + column;
  const FourWords words = LoadAligned<FourWords>(static_cast<const uint16_t*>(product.data) + at);
  const auto four = [&](int first) {
    return FourFloats{{WidenLow(words.at[first]), WidenHigh(words.at[first]), WidenLow(words.at[first + 1]),
                       WidenHigh(words.at[first + 1])}};
  };
  return {four(0), four(2)};
}

// Four hidden units: the gates and ups of eight neighbouring columns.
VF_DEVICE FourFloats GatedAt(const FinishParams& p, int row, int column) {
  const auto [low, high] = EightProductsAt(p.product, row, column);
  float gates[4] = {low.at[0], low.at[2], high.at[0], high.at[2]};
  float ups[4] = {low.at[1], low.at[3], high.at[1], high.at[3]};
  const float* bias = BiasOf(p.product, row);
  FourFloats out;
  VF_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (bias != nullptr) {
      gates[i] += bias[column / 2 + i];
      ups[i] += bias[p.product.columns / 2 + column / 2 + i];
    }
    out.at[i] = ActivateGate(p.activation, p.terms, gates[i], ups[i]);
  }
  return out;
}

// Four finished numbers of a product without gates.
VF_DEVICE TwoWords FinishedAt(const FinishParams& p, int row, int column) {
  FourFloats value = FourBiasedAt(p.product, row, column);
  VF_UNROLL
  for (int i = 0; i < 4; ++i) value.at[i] = Activate(p.activation, p.terms, value.at[i]);
  return PackFour(value);
}

VF_DEVICE FourFloats AddedToResidual(const ResidualParams& p, const FourFloats& sum, const FourFloats& value) {
  FourFloats added;
  VF_UNROLL
  for (int n = 0; n < 4; ++n) added.at[n] = p.scale * (sum.at[n] + p.multiplier * value.at[n]);
  return added;
}

// A row's number normed: where there is no mean, it is 0.
VF_DEVICE float Normed(float number, float mean, float inverse, float weight) {
  return (number - mean) * inverse * weight;
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
