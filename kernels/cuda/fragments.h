// Matrix fragment layouts: the element in each register of each lane, for mma.m16n8k16 and ldmatrix, bf16 inputs, f32
// sums.
//
// Lane l has row g = l / 4 and column pair t = l % 4. A register has two neighbouring values, the lower column
// in its lower half.
//
// Source:  PTX ISA 9.0, sections on "Matrix Fragments for mma.m16n8k16" and "ldmatrix".
#pragma once

#include "kernels/cuda/simt.h"

namespace varifocal::kernels::cuda {

struct FragmentIndex {
  int row = 0;
  int column = 0;
};

// A [16, 16], registers 0..3, half 0 or 1.
VF_HD constexpr FragmentIndex FragmentA(int lane, int word, int half) {
  return {lane / 4 + (word % 2) * 8, (lane % 4) * 2 + half + (word / 2) * 8};
}
// B [16, 8] (k, n), registers 0..1.
VF_HD constexpr FragmentIndex FragmentB(int lane, int word, int half) {
  return {(lane % 4) * 2 + half + word * 8, lane / 4};
}
// C and D [16, 8], f32 registers 0..3.
VF_HD constexpr FragmentIndex FragmentC(int lane, int word) {
  return {lane / 4 + (word / 2) * 8, (lane % 4) * 2 + word % 2};
}
// Element of an 8x8 matrix that ldmatrix loads into a lane; `transposed` for .trans.
VF_HD constexpr FragmentIndex FragmentLoaded(int lane, int half, bool transposed) {
  return transposed ? FragmentIndex{(lane % 4) * 2 + half, lane / 4} : FragmentIndex{lane / 4, (lane % 4) * 2 + half};
}

// Which row of a [16 rows, 16 columns] piece a lane addresses for LoadMatrices, and which 8-column half, so that the
// four registers come out as A's: matrices (rows 0-7, 8-15) of the low columns, then of the high ones.
VF_HD constexpr FragmentIndex LoadAsA(int lane) { return {lane % 16, lane / 16}; }
// The same for two adjacent B operands whose source is stored [n, k] (keys by dims): registers 0, 1 are B of rows
// 0-7 (n), registers 2, 3 of rows 8-15.
VF_HD constexpr FragmentIndex LoadAsB(int lane) { return {lane % 8 + (lane / 16) * 8, (lane / 8) % 2}; }
// And for a source stored [k, n] (keys by dims, read transposed): registers 0, 1 are B of columns 0-7 (n), 2, 3 of
// 8-15.
VF_HD constexpr FragmentIndex LoadAsBTransposed(int lane) { return {lane % 16, lane / 16}; }

}  // namespace varifocal::kernels::cuda
