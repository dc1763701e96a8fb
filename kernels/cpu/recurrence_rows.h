// Rows of layers with a recurrent state: convolution, gated delta rule or state space, gates.
#pragma once

#include "kernels/cpu/vector_math.h"

namespace varifocal::kernels::cpu {

// The first `count` of sixteen lanes, zeros beyond them.
template <typename S>
inline typename S::V LoadSome(const float* from, int count) {
  if (count >= kLanes) return S::Load(from);
  float lanes[kLanes] = {};
  for (int i = 0; i < count; ++i) lanes[i] = from[i];
  return S::Load(lanes);
}

template <typename S>
inline void StoreSome(float* to, typename S::V v, int count) {
  if (count >= kLanes) return S::Store(to, v);
  float lanes[kLanes];
  S::Store(lanes, v);
  for (int i = 0; i < count; ++i) to[i] = lanes[i];
}

template <typename S>
inline typename S::V Sigmoid(typename S::V x) {
  const typename S::V one = S::Set1(1.0f);
  return S::Div(one, S::Add(one, Exp<S>(S::Sub(S::Zero(), x))));
}

template <typename S>
void ConvolveRow(const ConvolvedRow& args) {
  for (int c = 0; c < args.channel_count; c += kLanes) {
    const int count = std::min(args.channel_count - c, kLanes);
    typename S::V sum = S::Zero();
    for (int j = 0; j < args.width; ++j) {
      if (args.inputs[j] == nullptr) continue;
      const float* weights = args.weights + WideProduct(j, args.channel_count) + c;
      sum = S::Fma(LoadSome<S>(weights, count), LoadSome<S>(args.inputs[j] + c, count), sum);
    }
    if (args.bias != nullptr) sum = S::Add(sum, LoadSome<S>(args.bias + c, count));
    if (args.silu) sum = S::Mul(sum, Sigmoid<S>(sum));
    StoreSome<S>(args.out + c, sum, count);
  }
}

template <typename S>
void GateRow(const GatedRow& args) {
  for (int64_t i = 0; i < args.count; i += kLanes) {
    const int count = static_cast<int>(std::min<int64_t>(args.count - i, kLanes));
    typename S::V gate = LoadSome<S>(args.gate + i, count);
    if (args.multiplier != 1.0f) gate = S::Mul(gate, S::Set1(args.multiplier));
    typename S::V factor = args.form == GateForm::kPlain ? gate : Sigmoid<S>(gate);
    if (args.form == GateForm::kSilu) factor = S::Mul(gate, factor);
    StoreSome<S>(args.x + i, S::Mul(LoadSome<S>(args.x + i, count), factor), count);
  }
}

// Sums over the key dim in its order, one chain per column.
template <typename S>
void StepDeltaRows(const DeltaRows& args) {
  constexpr int kVectors = kDeltaColumns / kLanes;
  int counts[kVectors];
  for (int n = 0; n < kVectors; ++n) counts[n] = std::max(0, args.columns - n * kLanes);
  for (int row = 0; row < args.row_count; ++row) {
    const float* mixed = args.mixed + row * args.mixed_stride;
    const float *query = mixed + args.query_at, *key = mixed + args.key_at;
    const float* gates = args.gates + row * args.gate_stride;
    const typename S::V decay = S::Set1(gates[0]), beta = S::Set1(gates[1]);
    typename S::V memory[kVectors], change[kVectors], out[kVectors];
#pragma GCC unroll 2
    for (int n = 0; n < kVectors; ++n) memory[n] = S::Zero();
    for (int i = 0; args.reads_memory && i < args.key_dim; ++i) {
      const typename S::V k = S::Set1(key[i]);
#pragma GCC unroll 2
      for (int n = 0; n < kVectors; ++n) {
        memory[n] = S::Fma(S::Mul(S::Load(args.state + i * kDeltaColumns + n * kLanes), decay), k, memory[n]);
      }
    }
    for (int n = 0; n < kVectors; ++n) {
      const typename S::V value = LoadSome<S>(mixed + args.value_at + n * kLanes, counts[n]);
      change[n] = S::Mul(S::Sub(value, memory[n]), beta);
      out[n] = S::Zero();
    }
    for (int i = 0; i < args.key_dim; ++i) {
      const typename S::V k = S::Set1(key[i]), q = S::Set1(query[i]);
#pragma GCC unroll 2
      for (int n = 0; n < kVectors; ++n) {
        float* at = args.state + i * kDeltaColumns + n * kLanes;
        const typename S::V state = S::Fma(k, change[n], S::Mul(S::Load(at), decay));
        S::Store(at, state);
        out[n] = S::Fma(state, q, out[n]);
      }
    }
    for (int n = 0; n < kVectors; ++n) StoreSome<S>(args.out + row * args.out_stride + n * kLanes, out[n], counts[n]);
  }
}

}  // namespace varifocal::kernels::cpu
