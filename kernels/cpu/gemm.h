// Matrix products over packed weights: a few rows times one panel of 64 columns, the whole inner dimension in one tile.
//
// Every output is one chain of multiply-adds over words k = 0, 1, ..., so its bits depend on its row and column alone,
// not on the number of rows or the phase.
//
// Shapes:  panel [64/strip][K/per][strip] in words, a strip being kGemmVectors vectors: what a register tile of kGemmRows
//          rows reads is contiguous. Tiles of fewer rows are wider and read several strips.
#pragma once

#include "kernels/cpu/vector_math.h"

namespace varifocal::kernels::cpu {

// Columns of a panel that are adjacent in memory.
template <typename S>
inline constexpr int kStripColumns = kLanes* S::kGemmVectors;

// Vectors of columns of a tile of `rows` rows: as many as its registers hold, up to the whole panel.
template <typename S>
constexpr int TileVectors(int rows) {
  int vectors = kPanel / kLanes;
  while (vectors > S::kGemmVectors && rows * vectors > S::kGemmRows * S::kGemmVectors) vectors /= 2;
  return vectors;
}

// Steps of the inner dimension by which full tiles prefetch their strip from L2. A tile of few rows multiplies less between
// its loads, so that a prefetch delays it.
inline constexpr int kPrefetchSteps = 24;

// tile [kRows][64], rows tile_stride apart, = x [kRows, inner] times panel.
template <typename S, int kRows>
inline void PanelTile(const float* x, size_t x_stride, const float* panel, int64_t inner, float* tile,
                      size_t tile_stride) {
  constexpr int kVectors = TileVectors<S>(kRows), kStrip = kStripColumns<S>;
  for (int column = 0; column < kPanel; column += kVectors * kLanes) {
    typename S::V sum[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = S::Zero();
    }
    const float* from = panel + column * inner;
    const auto step = [&](int64_t k) __attribute__((always_inline)) {
      if constexpr (kRows == S::kGemmRows) {
        for (int i = 0; i < kStrip; i += kLanes) __builtin_prefetch(from + kPrefetchSteps * kStrip + i);
      }
      typename S::V weight[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        weight[v] = S::Load(from + v * kLanes / kStrip * kStrip * inner + v * kLanes % kStrip);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const typename S::V input = S::Set1(x[r * x_stride + k]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[r][v] = S::Dot(input, weight[v], sum[r][v]);
      }
      from += kStrip;
    };
    if constexpr (kRows == S::kGemmRows) {
#pragma GCC unroll 4
      for (int64_t k = 0; k < inner; ++k) step(k);
    } else {  // unrolled, one row of bf16 with AVX2 would spill sums and be 0.67 times as fast
      for (int64_t k = 0; k < inner; ++k) step(k);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) S::Store(tile + r * tile_stride + column + v * kLanes, sum[r][v]);
    }
  }
}

template <typename S>
inline void PanelTileRows(int rows, const float* x, size_t x_stride, const float* panel, int64_t inner, float* tile,
                          size_t tile_stride) {
  static_assert(S::kGemmRows <= 6);
  switch (rows) {
    case 1:
      return PanelTile<S, 1>(x, x_stride, panel, inner, tile, tile_stride);
    case 2:
      return PanelTile<S, 2>(x, x_stride, panel, inner, tile, tile_stride);
    case 3:
      return PanelTile<S, 3>(x, x_stride, panel, inner, tile, tile_stride);
    case 4:
      return PanelTile<S, 4>(x, x_stride, panel, inner, tile, tile_stride);
    case 5:
      return PanelTile<S, 5>(x, x_stride, panel, inner, tile, tile_stride);
    default:
      return PanelTile<S, 6>(x, x_stride, panel, inner, tile, tile_stride);
  }
}

// x Phi(x) = max(x, 0) - |x| Phi(-|x|), with Phi(-y) = e^(-y^2/2) t P(t), t = 1 / (1 + 0.265 y): a minimax fit of P of
// degree 8 by relative error, 1.2e-8 before rounding.
template <typename S>
inline typename S::V GeluErf(typename S::V x) {
  constexpr float kTail[9] = {1.057415644e-01f, 1.052466526e-01f,  1.027010724e-01f,
                              6.031272287e-02f, 1.379540921e-01f,  -1.163641755e-01f,
                              2.178164542e-01f, -1.442294138e-01f, 3.082103279e-02f};
  const typename S::V y = S::Max(S::Sub(S::Zero(), x), x), one = S::Set1(1.0f);
  const typename S::V t = S::Div(one, S::Fma(S::Set1(0.265f), y, one));
  typename S::V tail = S::Set1(kTail[8]);
#pragma GCC unroll 8
  for (int i = 7; i >= 0; --i) tail = S::Fma(tail, t, S::Set1(kTail[i]));
  tail = S::Mul(S::Mul(tail, t), Exp<S>(S::Mul(S::Mul(y, y), S::Set1(-0.5f))));
  return S::Sub(S::Max(S::Zero(), x), S::Mul(y, tail));
}

// e^x - 1 - x of x <= 0. Near 0 the three would cancel: there the series, to 2e-8.
template <typename S>
inline typename S::V ExpBeyondLinear(typename S::V x) {
  constexpr float kSeries[7] = {1.0f / 2, 1.0f / 6, 1.0f / 24, 1.0f / 120, 1.0f / 720, 1.0f / 5040, 1.0f / 40320};
  typename S::V series = S::Set1(kSeries[6]);
#pragma GCC unroll 6
  for (int i = 5; i >= 0; --i) series = S::Fma(series, x, S::Set1(kSeries[i]));
  const typename S::V apart = S::Sub(S::Sub(Exp<S>(x), S::Set1(1.0f)), x);
  return S::SelectGreater(x, S::Set1(-0.5f), S::Mul(S::Mul(x, x), series), apart);
}

template <typename S, Activation kActivation>
inline typename S::V Activated(typename S::V x, const ActivationTerms& terms) {
  if constexpr (kActivation == Activation::kNone) {
    return x;
  } else if constexpr (kActivation == Activation::kGeluErf) {
    return GeluErf<S>(x);
  } else if constexpr (kActivation == Activation::kRelu) {
    return S::Max(S::Zero(), x);  // this order propagates NaN
  } else if constexpr (kActivation == Activation::kReluSquared) {
    const typename S::V positive = S::Max(S::Zero(), x);
    return S::Mul(positive, positive);
  } else if constexpr (kActivation == Activation::kSilu) {
    return S::Div(x, S::Add(S::Set1(1.0f), Exp<S>(S::Sub(S::Zero(), x))));
  } else if constexpr (kActivation == Activation::kSlopedSilu) {
    return S::Div(x, S::Add(S::Set1(1.0f), Exp<S>(S::Mul(x, S::Set1(-terms.a)))));
  } else if constexpr (kActivation == Activation::kXielu) {
    const typename S::V p = S::Max(S::Zero(), x), n = S::Min(S::Zero(), x);
    const typename S::V below = ExpBeyondLinear<S>(n);
    const typename S::V above = S::Mul(S::Mul(p, p), S::Set1(terms.a));
    return S::Fma(S::Set1(terms.c), x, S::Fma(S::Set1(terms.b), below, above));
  } else {
    // x/2 (1 + tanh u) = x / (1 + e^(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
    const typename S::V cubic = S::Mul(S::Mul(x, x), S::Mul(x, S::Set1(0.044715f)));
    const typename S::V u = S::Mul(S::Add(x, cubic), S::Set1(-2.0f * 0.797884561f));
    return S::Div(x, S::Add(S::Set1(1.0f), Exp<S>(u)));
  }
}

template <typename S, Activation kActivation>
inline typename S::V ActivatedGate(typename S::V gate, typename S::V up, const ActivationTerms& terms) {
  if constexpr (kActivation == Activation::kClampedGate) {
    const typename S::V one = S::Set1(1.0f), limit = S::Set1(terms.b);
    const typename S::V g = S::Min(limit, gate), u = S::Max(S::Set1(-terms.b), S::Min(limit, up));
    return S::Div(S::Mul(S::Add(u, one), g), S::Add(one, Exp<S>(S::Mul(g, S::Set1(-terms.a)))));
  } else {
    return S::Mul(Activated<S, kActivation>(gate, terms), up);
  }
}

// sums[64] += bias, where there is one.
template <typename S>
inline void AddBias(const float* bias, int columns, float* sums) {
  int i = 0;
  for (; i + kLanes <= columns; i += kLanes) S::Store(sums + i, S::Add(S::Load(sums + i), S::Load(bias + i)));
  for (; i < columns; ++i) sums[i] += bias[i];
}

// The sums of `rows` rows, [rows][64] in `tile`, into `out`, of which args.columns exist.
template <typename S, Epilogue kEpilogue, Activation kActivation>
inline void FinishRowsAs(const GemmPanel& args, int rows, float* tile, float* out) {
  constexpr int kWidth = kEpilogue == Epilogue::kGated ? kPanel / 2 : kPanel;
  const bool whole = args.columns == kWidth;
  for (int r = 0; r < rows; ++r, tile += kPanel, out += args.out_stride) {
    float partial[kPanel];
    float* to = whole ? out : partial;
    if (kEpilogue == Epilogue::kResidual && !whole) {
      for (int i = 0; i < kPanel; ++i) partial[i] = i < args.columns ? out[i] : 0;
    }
    if (args.bias != nullptr) {
      AddBias<S>(args.bias, args.columns, tile);
      if (kEpilogue == Epilogue::kGated) AddBias<S>(args.up_bias, args.columns, tile + kPanel / 2);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kWidth; i += kLanes) {
      typename S::V y = S::Load(tile + i);
      if constexpr (kEpilogue == Epilogue::kResidual) {
        y = S::Fma(S::Set1(args.multiplier), y, S::Load(to + i));
      } else if constexpr (kEpilogue == Epilogue::kGated) {
        y = ActivatedGate<S, kActivation>(y, S::Load(tile + i + kPanel / 2), args.terms);
      } else {
        y = Activated<S, kActivation>(y, args.terms);
      }
      S::Store(to + i, y);
    }
    if (!whole) {
      for (int i = 0; i < args.columns; ++i) out[i] = partial[i];
    }
  }
}

// Chosen once for the rows of a tile: a choice per vector took a quarter of the time of a product of 128 inputs.
template <typename S, Epilogue kEpilogue>
inline void FinishRowsWith(const GemmPanel& args, int rows, float* tile, float* out) {
  switch (args.activation) {
    case Activation::kNone:
      return FinishRowsAs<S, kEpilogue, Activation::kNone>(args, rows, tile, out);
    case Activation::kSilu:
      return FinishRowsAs<S, kEpilogue, Activation::kSilu>(args, rows, tile, out);
    case Activation::kSlopedSilu:
      return FinishRowsAs<S, kEpilogue, Activation::kSlopedSilu>(args, rows, tile, out);
    case Activation::kGeluErf:
      return FinishRowsAs<S, kEpilogue, Activation::kGeluErf>(args, rows, tile, out);
    case Activation::kGeluTanh:
      return FinishRowsAs<S, kEpilogue, Activation::kGeluTanh>(args, rows, tile, out);
    case Activation::kRelu:
      return FinishRowsAs<S, kEpilogue, Activation::kRelu>(args, rows, tile, out);
    case Activation::kReluSquared:
      return FinishRowsAs<S, kEpilogue, Activation::kReluSquared>(args, rows, tile, out);
    case Activation::kXielu:
      return FinishRowsAs<S, kEpilogue, Activation::kXielu>(args, rows, tile, out);
    case Activation::kClampedGate:
      if constexpr (kEpilogue == Epilogue::kGated)
        return FinishRowsAs<S, kEpilogue, Activation::kClampedGate>(args, rows, tile, out);
  }
}

template <typename S>
inline void FinishRows(const GemmPanel& args, int rows, float* tile, float* out) {
  switch (args.epilogue) {
    case Epilogue::kResidual:  // without an activation
      return FinishRowsAs<S, Epilogue::kResidual, Activation::kNone>(args, rows, tile, out);
    case Epilogue::kStore:
      return FinishRowsWith<S, Epilogue::kStore>(args, rows, tile, out);
    case Epilogue::kGated:
      return FinishRowsWith<S, Epilogue::kGated>(args, rows, tile, out);
  }
}

template <typename S>
void MultiplyPanel(const GemmPanel& args) {
  alignas(64) float tile[S::kGemmRows * kPanel];
  // Sums that are stored as they are go directly into `out`.
  const bool direct = args.epilogue == Epilogue::kStore && args.activation == Activation::kNone &&
                      args.bias == nullptr && args.columns == kPanel;
  for (int row = 0; row < args.row_count; row += S::kGemmRows) {
    const int rows = args.row_count - row < S::kGemmRows ? args.row_count - row : S::kGemmRows;
    float* out = args.out + row * args.out_stride;
    PanelTileRows<S>(rows, args.x + row * args.x_stride, args.x_stride, args.panel, args.inner, direct ? out : tile,
                     direct ? args.out_stride : kPanel);
    if (!direct) FinishRows<S>(args, rows, tile, out);
  }
}

}  // namespace varifocal::kernels::cpu
