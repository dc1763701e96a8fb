// Small helpers of the conformance cases.
#pragma once

#include "kernels/conformance/cases.h"

namespace varifocal::kernels {

template <typename T>
T Take(Result<T> result) {
  VF_CHECK(result.ok(), "a small thing must be had");
  return std::move(*result);
}

inline std::unique_ptr<Weight> MakeWeight(Backend& backend, const std::vector<float>& data, int64_t rows,
                                          int64_t columns, WeightUse use) {
  const HostMatrix matrix = MatrixOf(data, rows, columns);
  return Take(backend.CreateWeight({&matrix, 1}, use));
}

// A sum of `terms` products of numbers below `product`: every term and every addition rounds once.
inline double SumTolerance(int terms, double product) { return (terms + 2) * kUnit * terms * product; }

// Runs the same function on both backends and compares what it returns.
template <typename Run>
std::string Both(Backend& tested, Backend& oracle, double tolerance, const std::string& what, const Run& run) {
  return CompareWithin(run(tested), run(oracle), tolerance, what);
}

}  // namespace varifocal::kernels
