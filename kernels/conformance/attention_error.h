// The error of prefill attention against float64, with a bound derived from the inputs.
//
// With p_j the exact weights of a row's keys, o its exact output and e_j a bound of the relative error of the computed
// weight of key j, the error of the output is at most
//
//   sum p_j e_j |v_j - o| / (1 - sum p_j e_j)  +  r sum p_j |v_j|  +  2 n u,
//
// where r is the rounding of a weight before the product with its value and 2 n u that of sums of n terms. The error of
// a weight is that of its score, scale sum |q_i k_i| (r + (D + 2) u), plus that of exp2.
#pragma once

#include "kernels/backend.h"

namespace varifocal::kernels {

struct AttentionError {
  double bound = 0;           // the largest of any output
  double share_of_bound = 0;  // the largest ratio of an error to its bound; above 1 is a failure
  double worst = 0, rms = 0;  // from float64 over q, k and v as the backend rounds them
  double with_inputs = 0;     // the worst from float64 over q, k and v before rounding
};

// Two query heads over one KV head, causal, `rows` rows; q and k uniform in [-2, 2), v in [-1, 1).
AttentionError MeasureAttentionError(Backend& tested, int head_dim, int rows);

}  // namespace varifocal::kernels
