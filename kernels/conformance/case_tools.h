// Helpers of the conformance cases.
#pragma once

#include <algorithm>

#include "kernels/conformance/cases.h"

namespace varifocal::kernels {

// The step with what it leaves out: one sequence, one row of the head, one head of 16, a block and a vocabulary of 16.
inline StepShape SmallStep(StepShape shape) {
  for (int* one : {&shape.sequence_count_max, &shape.head_row_count_max, &shape.query_head_count, &shape.kv_head_count})
    *one = std::max(*one, 1);
  for (int* size : {&shape.model_dim, &shape.head_dim, &shape.ffn_dim, &shape.vocab_size}) {
    if (*size == 0) *size = 16;
  }
  return shape;
}
// Room for `rows` of one sequence of so many positions, in a model of one head.
inline StepShape OneHeadStep(int rows, int positions, int width = 16) {
  return SmallStep({.row_count_max = rows, .context_length_max = positions, .model_dim = width});
}
inline std::unique_ptr<Workspace> SmallWorkspace(Backend& backend, StepShape shape) {
  return Take(backend.CreateWorkspace(SmallStep(std::move(shape))));
}

inline std::unique_ptr<Weight> MakeWeight(Backend& backend, const std::vector<float>& data, int64_t rows,
                                          int64_t columns, WeightUse use) {
  const HostMatrix matrix = MatrixOf(data, rows, columns);
  return Take(backend.CreateWeight({&matrix, 1}, use));
}

// A sum of `terms` products of numbers below `product`: every term and every addition rounds once.
inline double SumTolerance(int terms, double product) { return (terms + 2) * kUnit * terms * product; }

// The complaint about bits that must be equal, empty when none differs.
inline std::string SameBitsVerdict(size_t different, const std::string& what) {
  return different == 0 ? "" : what + " changed " + std::to_string(different) + " numbers, where 0 may change";
}

// Runs the same function on both backends and compares what it returns.
template <typename Run>
std::string Both(Backend& tested, Backend& oracle, double tolerance, const std::string& what, const Run& run) {
  return CompareWithin(run(tested), run(oracle), tolerance, what);
}

}  // namespace varifocal::kernels
