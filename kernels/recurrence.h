// Layers with a recurrent state in place of keys and values: a gated delta rule, a selective state space (Mamba-2), or a
// short convolution alone.
//
// Channels pass a causal convolution of W inputs each (zeros before position 0):
//
//   conv(x)_t[c] = sum_j weight[j][c] x_{t-W+1+j}[c] + bias[c]
//
// kDeltaRule: a row of x is [q | k | v | z | b | a], of K heads of width dk (q, k), H heads of width dv (v, z) and H
// numbers (b, a); channels are q, k and v. Key head h of K serves the H / K consecutive value heads from h H / K on.
//
//   q, k, v = silu(conv(q, k, v));  q = q / (|q| sqrt(dk));  k = k / |k|;  |u| = sqrt(sum u^2 + 1e-6)
//   decay = e^(-e^decay_log softplus(a + decay_bias));  beta = 1 / (1 + e^-b)
//   S = decay S;  S = S + k (beta (v - S^T k))^T;  o = S^T q          S is [dk, dv], one per value head
//   out = norm(o) silu(z)
//
// kStateSpace: a row of x is [C | B | u | z | d], of K groups of width dk (C, B), H heads of width dv (u, z) and H
// numbers (d); channels are C, B and u. Group g serves heads as key head g above.
//
//   C, B, u = silu(conv(C, B, u));  step = max(softplus(d + decay_bias), step_min);  decay = e^(-e^decay_log step)
//   S = decay S;  S = S + B (step u)^T;  o = S^T C + skip u           S is [dk, dv], one per head
//   out = norm(o silu(z)), or norm(o) silu(z)
//
// z and d are multiplied by a number each before.
//
// norm(x) = x / sqrt(mean(x^2) + epsilon) * weight, each mean over one of the groups of equal width that the outputs are
// split into; without groups it is x.
//
// kConvolution: a row of x is [B | C | u], of dv channels each.
//
//   out = C conv(B u)
//
// The state after a row is S and the last W - 1 inputs of every channel. It depends on the rows before in their order
// alone: rows are always taken one after the other, so the bits of a result do not depend on how a sequence is cut into
// steps. There is no other form for long steps.
//
// Source:  Yang, Kautz, Hatamizadeh, Gated Delta Networks (2024), equation 10; Dao, Gu, Transformers are SSMs (2024),
//          section 2 and figure 6; transformers 5.24, qwen3_next, lfm2, granitemoehybrid.
#pragma once

#include <cstddef>

#include "base/wide_product.h"

namespace varifocal::kernels {

enum class RecurrenceKind { kNone, kDeltaRule, kConvolution, kStateSpace };

// A backend convolves a row of one step at once.
inline constexpr int kConvolutionMax = 16;

struct RecurrenceShape {
  RecurrenceKind kind = RecurrenceKind::kNone;
  int conv_width = 0;        // W, at most kConvolutionMax
  int key_head_count = 0;    // K; 0 of a convolution
  int value_head_count = 0;  // H; 1 of a convolution
  int key_dim = 0;           // dk
  int value_dim = 0;         // dv
  int norm_group_count = 0;  // groups of norm; 0: there is none
  bool gate_first = false;   // the norm is of gated outputs
  float step_min = 0;        // kStateSpace: a smaller step is this

  int key_width() const { return key_head_count * key_dim; }
  int value_width() const { return value_head_count * value_dim; }  // of an output row
  int channel_count() const { return 2 * key_width() + value_width(); }
  int gates_of_head() const { return kind == RecurrenceKind::kDeltaRule ? 2 : 1; }  // numbers of a row of x
  bool has_matrices() const { return matrix_numbers() > 0; }
  // Of a row of x.
  int input_width() const {
    if (kind == RecurrenceKind::kConvolution) return 3 * value_width();
    return channel_count() + value_width() + gates_of_head() * value_head_count;
  }
  size_t tail_numbers() const {
    return kind == RecurrenceKind::kNone ? 0 : WideProduct(conv_width - 1, channel_count());
  }
  size_t matrix_numbers() const { return WideProduct(key_dim, value_dim); }  // S of one head
  // Of a layer's state: the tail [W - 1][channels], the oldest input first, then S of each head.
  size_t state_numbers() const { return tail_numbers() + value_head_count * matrix_numbers(); }
};

}  // namespace varifocal::kernels
