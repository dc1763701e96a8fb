// The table of conformance cases: what every backend must compute, checked against the reference backend.
//
// Each row runs one operation on a tested backend and on the oracle with the same repeatable inputs and compares within
// a tolerance derived from the number format and the length of the sums, or compares a backend with itself bit by bit.
// The table is run by GoogleTest (conformance_test.cc) and by selfcheck.cc on a bare machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/conformance/rig.h"

namespace varifocal::kernels {

struct ConformanceCase {
  std::string name;
  // Empty when the tested backend conforms; otherwise one sentence with the worst value and its limit.
  std::function<std::string(Backend& tested, Backend& oracle)> check;
  int head_dim = 0;      // what the backend must have a kernel for; 0: one that every backend has
  bool gathers = false;  // about rows computed by groups, which the backend must have
};

// Whether a backend that refuses some head dims by name can be asked this case.
bool CanBeAsked(const ConformanceCase& c, const Backend& backend);

std::vector<ConformanceCase> AttentionCases();  // cases_attention.cc
std::vector<ConformanceCase> GroupCases();      // cases_groups.cc
std::vector<ConformanceCase> SameBitsCases();   // cases_same_bits.cc
std::vector<ConformanceCase> ProductCases();    // cases_products.cc
std::vector<ConformanceCase> ModelCases();      // cases_model.cc
std::vector<ConformanceCase> StepCases();       // cases_step.cc
std::vector<ConformanceCase> AllCases();

// |out - oracle| and |log-sum-exp - oracle| within a bound derived from the case (cases_attention.cc).
std::string CheckAgainstOracle(const AttentionCase& c, Backend& tested, Backend& oracle);

// Every way to compute that this build and this machine have: "cpu_avx2_f32" and the like, the oracle left out.
struct TestedBackend {
  std::string name;
  BackendOptions options;
};
std::vector<TestedBackend> TestedBackends();
// Float64 over weights of the tested backend's number format.
std::unique_ptr<Backend> MakeOracle(DType dtype);

// |got - want| <= tolerance everywhere, and every number finite.
std::string CompareWithin(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                          const std::string& what);

}  // namespace varifocal::kernels
