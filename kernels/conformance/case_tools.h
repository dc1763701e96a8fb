// Helpers of the conformance cases.
#pragma once

#include "kernels/conformance/cases.h"

namespace varifocal::kernels {

template <typename T>
T Take(Result<T> result) {
  VF_CHECK(result.ok(), "test fixture allocation failed");
  return std::move(*result);
}

// Room for `rows` of one sequence of so many positions, in a model of one head.
inline StepShape OneHeadStep(int rows, int positions, int width = 16) {
  return {.row_count_max = rows,
          .sequence_count_max = 1,
          .head_row_count_max = 1,
          .context_length_max = positions,
          .model_dim = width,
          .query_head_count = 1,
          .kv_head_count = 1,
          .head_dim = 16,
          .ffn_dim = 16,
          .vocab_size = 16};
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
