// Row-wise kernels: embedding, norms, and epilogues of products.
//
// Rows whose width is a multiple of 4 are read and written 16 bytes at a time (kWide).
//
// Sums have a fixed order: a thread's stride, a warp's butterfly, the warps in order. It depends only on the width.

#include <math.h>

#include "base/wide_product.h"
#include "kernels/cuda/epilogues.h"
#include "kernels/cuda/prefetch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

VF_KERNEL(kThreads, 1) EmbedKernel(const EmbedParams p) {
  FollowPreviousLaunch();
  const int row = BlockX();
  const uint16_t* token = p.table + p.tokens[row] * p.table_stride;
  const uint16_t* position = p.positions == nullptr ? nullptr : p.positions + p.row_positions[row] * p.positions_stride;
  for (int i = ThreadX(); i < p.width; i += kThreads) {
    float value = WidenLow(token[i]) * p.multiplier;
    if (position != nullptr) value += WidenLow(position[i]);
    p.out[WideProduct(row, p.width) + i] = value;
  }
}

// The mean and one over the root of a row; `at` gives its elements, four at a time where kWide.
struct Moments {
  float mean = 0, inverse = 0;
};
template <bool kWide, typename At>
VF_DEVICE float SumOverRow(int width, const At& at, float mean, bool squared) {
  float sum = 0;
  const auto add = [&](float x) {
    const float centred = x - mean;
    sum += squared ? centred * centred : x;
  };
  if constexpr (kWide) {
    for (int i = ThreadX() * 4; i < width; i += kThreads * 4) {
      const FourFloats four = at.Four(i);
      VF_UNROLL
      for (int n = 0; n < 4; ++n) add(four.at[n]);
    }
  } else {
    for (int i = ThreadX(); i < width; i += kThreads) add(at(i));
  }
  return BlockSum(sum);
}
template <bool kWide, typename At>
VF_DEVICE Moments RowMoments(int width, bool layer, float epsilon, const At& at) {
  Moments moments;
  if (layer) moments.mean = SumOverRow<kWide>(width, at, 0, false) / static_cast<float>(width);
  const float squares = SumOverRow<kWide>(width, at, moments.mean, true);
  moments.inverse = InverseOf(squares, width, epsilon);
  return moments;
}

struct AtPointer {
  const float* x;
  VF_DEVICE float operator()(int i) const { return x[i]; }
  VF_DEVICE FourFloats Four(int i) const { return LoadAligned<FourFloats>(x + i); }
};
struct AtProduct {
  const ProductView* product;
  int row;
  VF_DEVICE float operator()(int i) const { return BiasedAt(*product, row, i); }
  VF_DEVICE FourFloats Four(int i) const { return FourBiasedAt(*product, row, i); }
};

// out = norm(x) for one row; x itself where there is no weight.
template <bool kWide>
VF_DEVICE void WriteNorm(const NormParams& p, const float* x, uint16_t* out) {
  const bool scaled = p.weight != nullptr;
  const Moments moments = scaled ? RowMoments<kWide>(p.width, p.layer, p.epsilon, AtPointer{x}) : Moments{};
  const auto value = [&](float number, float weight) { return Normed(number, moments.mean, moments.inverse, weight); };
  if constexpr (kWide) {
    for (int i = ThreadX() * 4; i < p.width; i += kThreads * 4) {
      FourFloats four = LoadAligned<FourFloats>(x + i);
      if (scaled) {
        const FourFloats weight = LoadAligned<FourFloats>(p.weight + i);
        VF_UNROLL
        for (int n = 0; n < 4; ++n) four.at[n] = value(four.at[n], weight.at[n]);
        if (p.bias != nullptr) {
          const FourFloats bias = LoadAligned<FourFloats>(p.bias + i);
          VF_UNROLL
          for (int n = 0; n < 4; ++n) four.at[n] += bias.at[n];
        }
      }
      StoreAligned(out + i, PackFour(four));
    }
  } else {
    for (int i = ThreadX(); i < p.width; i += kThreads) {
      float number = scaled ? value(x[i], p.weight[i]) : x[i];
      if (scaled && p.bias != nullptr) number += p.bias[i];
      out[i] = RoundBf16(number);
    }
  }
}

template <bool kWide>
VF_KERNEL(kThreads, 1)
NormKernel(const NormParams p) {
  FollowPreviousLaunch();
  const int row = BlockX();
  WriteNorm<kWide>(p, p.x + WideProduct(p.rows == nullptr ? row : p.rows[row], p.width),
                   p.out + WideProduct(row, p.width));
}

// A thread reads for the norm what it has written itself.
template <bool kWide>
VF_KERNEL(kThreads, 1)
ResidualKernel(VF_PARAMS(ResidualParams) p) {
  PrefetchAhead(p.ahead);
  FollowPreviousLaunch();
  const int row = BlockX(), width = p.product.columns;
  const AtProduct at{&p.product, row};
  const bool normed = p.norm_weight != nullptr;
  const Moments moments = normed ? RowMoments<kWide>(width, false, p.norm_epsilon, at) : Moments{};
  float* residual = p.residual + WideProduct(row, width);
  if constexpr (kWide) {
    for (int i = ThreadX() * 4; i < width; i += kThreads * 4) {
      FourFloats four = at.Four(i), sum = LoadAligned<FourFloats>(residual + i);
      if (normed) {
        const FourFloats weight = LoadAligned<FourFloats>(p.norm_weight + i);
        VF_UNROLL
        for (int n = 0; n < 4; ++n) four.at[n] = four.at[n] * moments.inverse * weight.at[n];
      }
      StoreAligned(residual + i, AddedToResidual(p, sum, four));
    }
  } else {
    for (int i = ThreadX(); i < width; i += kThreads) {
      const float value = normed ? at(i) * moments.inverse * p.norm_weight[i] : at(i);
      residual[i] = p.scale * (residual[i] + p.multiplier * value);
    }
  }
  if (p.next.out != nullptr) WriteNorm<kWide>(p.next, residual, p.next.out + WideProduct(row, width));
}

// The weighted products of a row, in order.
template <bool kWide>
VF_KERNEL(kThreads, 1)
MixtureSumKernel(VF_PARAMS(MixtureSumParams) p) {
  FollowPreviousLaunch();
  const int row = BlockX(), width = p.product.columns, first = row * p.per_row;
  float* residual = p.residual + WideProduct(row, width);
  if constexpr (kWide) {
    for (int i = ThreadX() * 4; i < width; i += kThreads * 4) {
      FourFloats sum{}, to = LoadAligned<FourFloats>(residual + i);
      for (int n = first; n < first + p.per_row; ++n) {
        const FourFloats product = FourBiasedAt(p.product, n, i);
        VF_UNROLL
        for (int at = 0; at < 4; ++at) sum.at[at] += p.weights[n] * product.at[at];
      }
      VF_UNROLL
      for (int at = 0; at < 4; ++at) to.at[at] += p.multiplier * sum.at[at];
      StoreAligned(residual + i, to);
    }
  } else {
    for (int i = ThreadX(); i < width; i += kThreads) {
      float sum = 0;
      for (int n = first; n < first + p.per_row; ++n) sum += p.weights[n] * BiasedAt(p.product, n, i);
      residual[i] += p.multiplier * sum;
    }
  }
  if (p.next.out != nullptr) WriteNorm<kWide>(p.next, residual, p.next.out + WideProduct(row, width));
}

// Epilogue of a product: a gate and its up are neighbours.
template <bool kWide>
VF_KERNEL(kThreads, 1)
FinishKernel(VF_PARAMS(FinishParams) p) {
  PrefetchAhead(p.ahead);
  FollowPreviousLaunch();
  const int row = BlockX(), columns = p.product.columns;
  const int column = (BlockY() * kThreads + ThreadX()) * FinishColumns(p.mode, kWide);
  if (column >= columns) return;
  if (p.mode == FinishMode::kGated) {
    const int f = column / 2, width = columns / 2;
    uint16_t* out = p.out + WideProduct(row, width) + f;
    if constexpr (kWide) {
      const TwoWords low = PackFour(GatedAt(p, row, column)), high = PackFour(GatedAt(p, row, column + 8));
      StoreAligned(out, FourWords{{low.at[0], low.at[1], high.at[0], high.at[1]}});
    } else {
      float gate = ProductAt(p.product, row, column), up = ProductAt(p.product, row, column + 1);
      if (const float* bias = BiasOf(p.product, row); bias != nullptr) {
        gate += bias[f];
        up += bias[width + f];
      }
      *out = RoundBf16(ActivateGate(p.activation, p.terms, gate, up));
    }
    return;
  }
  uint16_t* out = p.out + WideProduct(row, columns) + column;
  if constexpr (kWide) {
    const TwoWords low = FinishedAt(p, row, column), high = FinishedAt(p, row, column + 4);
    StoreAligned(out, FourWords{{low.at[0], low.at[1], high.at[0], high.at[1]}});
  } else {
    for (int c = 0; c < 2 && column + c < columns; ++c) {
      out[c] = RoundBf16(Activate(p.activation, p.terms, BiasedAt(p.product, row, column + c)));
    }
  }
}

}  // namespace

int LaunchEmbed(const EmbedParams& p, LaunchStream stream) {
  return VF_LAUNCH(EmbedKernel, p.row_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchNorm(const NormParams& p, LaunchStream stream) {
  const auto kernel = IsWide(p) ? NormKernel<true> : NormKernel<false>;
  return VF_LAUNCH(kernel, p.row_count, 1, 1, kThreads, 0, stream, p);
}

namespace {

// A kernel with a row per block, and the next norm. The order of the norm's sum follows from how it is read: a norm that
// differs in that has a launch of its own.
template <typename Kernel, typename Params>
int LaunchWithNext(Kernel kernel, bool wide, const Params& p, LaunchStream stream) {
  const bool together = p.next.out == nullptr || IsWide(p.next) == wide;
  Params alone = p;
  if (!together) alone.next.out = nullptr;
  const int code = VF_LAUNCH(kernel, p.row_count, 1, 1, kThreads, 0, stream, alone);
  return code != 0 || together ? code : LaunchNorm(p.next, stream);
}

}  // namespace

int LaunchResidual(const ResidualParams& p, LaunchStream stream) {
  const bool wide = IsWide(p);
  return LaunchWithNext(wide ? ResidualKernel<true> : ResidualKernel<false>, wide, p, stream);
}
int LaunchMixtureSum(const MixtureSumParams& p, LaunchStream stream) {
  const bool wide = IsWide(p.product) && IsAligned(p.residual, 16);
  return LaunchWithNext(wide ? MixtureSumKernel<true> : MixtureSumKernel<false>, wide, p, stream);
}
int LaunchFinish(const FinishParams& p, LaunchStream stream) {
  const bool wide = IsWide(p);
  const auto kernel = wide ? FinishKernel<true> : FinishKernel<false>;
  const int blocks = CeilDivide(p.product.columns, FinishColumns(p.mode, wide) * kThreads);
  return VF_LAUNCH(kernel, p.row_count, blocks, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
