#include "kernels/conformance/cases.h"

#include <cmath>
#include <cstdio>

namespace varifocal::kernels {

std::vector<ConformanceCase> AllCases() {
  std::vector<ConformanceCase> all = ProductCases();
  for (const auto& more :
       {ModelCases(), StepCases(), AttentionCases(), GroupCases(), InspectionCases(), SameBitsCases()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

bool IsSupportedBy(const ConformanceCase& c, const Backend& backend) {
  if (c.gathers && !backend.info().gathers_groups) return false;
  return c.head_dim == 0 || backend.CheckShape({.layer_count = 1, .kv_head_count = 1, .head_dim = c.head_dim}).code !=
                                ErrorCode::kUnsupported;
}

std::vector<TestedBackend> TestedBackends() {
  std::vector<TestedBackend> tested;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const char* isa : {"portable", "avx2", "avx512", "avx512bf16"}) {
      BackendOptions options{.device = "cpu", .dtype = dtype, .thread_count = 2, .cpu_isa = isa};
      if (CreateBackend(options).ok()) tested.push_back({std::string("cpu_") + isa + "_" + DTypeName(dtype), options});
    }
  }
  // Where the build has CUDA and the machine a device.
  const BackendOptions cuda{.device = "cuda:0", .dtype = DType::kBF16};
  if (CreateBackend(cuda).ok()) tested.push_back({"cuda_bf16", cuda});
  return tested;
}

std::unique_ptr<Backend> MakeOracle(DType dtype) {
  auto oracle = CreateBackend({.device = "reference", .dtype = dtype});
  VF_CHECK(oracle.ok(), "the reference backend is always available");
  return std::move(*oracle);
}

std::string CompareWithin(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                          const std::string& what) {
  size_t worst = 0;
  double worst_error = -1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::isfinite(got[i]) ? std::fabs(static_cast<double>(got[i]) - want[i]) : INFINITY;
    if (error > worst_error) {
      worst_error = error;
      worst = i;
    }
  }
  if (worst_error <= tolerance) return "";
  char text[256];
  std::snprintf(text, sizeof text, "%s: element %zu is %.9g, in the oracle %.9g; the difference %.3g exceeds %.3g",
                what.c_str(), worst, static_cast<double>(got[worst]), static_cast<double>(want[worst]), worst_error,
                tolerance);
  return text;
}

}  // namespace varifocal::kernels
