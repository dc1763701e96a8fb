// The table of conformance cases: what every backend must compute, checked against the reference backend.
//
// Each row runs one operation on a tested backend and on the oracle with the same deterministic inputs and compares
// within a tolerance derived from the number format and the length of the sums, or compares two runs of a backend bit by
// bit. The table is run by GoogleTest (conformance_test.cc), of which a covering design without the label `slow`, and by
// selfcheck.cc on a machine without GoogleTest.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/conformance/covering.h"
#include "kernels/conformance/test_harness.h"

namespace varifocal::kernels {

struct ConformanceCase {
  std::string name;
  // Empty when the tested backend conforms; otherwise one sentence with the worst value and its limit.
  std::function<std::string(Backend& tested, Backend& oracle)> check;
  int head_dim = 0;      // head dim that the backend must support; 0: one that every backend supports
  bool gathers = false;  // the backend must compute rows by groups
  // What it varies, where the case is one of a product; empty: the case is a level of its own.
  Levels levels = {};
  bool is_slow = false;  // in no covering design
};

// Whether the backend supports the case's head dim and groups.
bool IsSupportedBy(const ConformanceCase& c, const Backend& backend);

std::vector<ConformanceCase> AttentionCases();   // cases_attention.cc
std::vector<ConformanceCase> GroupCases();       // cases_groups.cc
std::vector<ConformanceCase> InspectionCases();  // cases_inspection.cc
std::vector<ConformanceCase> SameBitsCases();    // cases_same_bits.cc
std::vector<ConformanceCase> ProductCases();     // cases_products.cc
std::vector<ConformanceCase> ModelCases();       // cases_model.cc
std::vector<ConformanceCase> LatentCases();      // cases_latent.cc
std::vector<ConformanceCase> MixtureCases();     // cases_mixture.cc
std::vector<ConformanceCase> LayerCases();       // cases_layers.cc
std::vector<ConformanceCase> StreamCases();      // cases_streams.cc
std::vector<ConformanceCase> RecurrenceCases();  // cases_recurrence.cc
std::vector<ConformanceCase> StepCases();        // cases_step.cc
std::vector<ConformanceCase> AllCases();

// Bound of the relative error of a weight, for a backend whose OperandUnit is this (cases_attention.cc).
double AttentionTolerance(const AttentionCase& c, double operand_unit);
// |out - oracle| and |log-sum-exp - oracle| within a bound derived from the case (cases_attention.cc).
std::string CheckAgainstOracle(const AttentionCase& c, Backend& tested, Backend& oracle);

// The levels of a case that varies an attention.
Levels LevelsOf(const AttentionCase& c);

// Every backend configuration of this build and machine, such as "cpu_avx2_f32", except the oracle.
struct TestedBackend {
  std::string name;
  BackendOptions options;
};
std::vector<TestedBackend> TestedBackends();

// The levels of each case on each backend, backend after backend: the case's, the number format and the instruction set. None
// where the backend does not support the case.
std::vector<Levels> LevelsOnBackends(const std::vector<ConformanceCase>& cases,  // for tests
                                     const std::vector<TestedBackend>& backends);
// Float64 over weights of the tested backend's number format.
std::unique_ptr<Backend> MakeOracle(DType dtype);

// |got - want| <= tolerance everywhere, and every number finite.
std::string CompareWithin(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                          const std::string& what);

}  // namespace varifocal::kernels
