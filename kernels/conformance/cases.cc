#include "kernels/conformance/cases.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace varifocal::kernels {

std::vector<ConformanceCase> AllCases() {
  std::vector<ConformanceCase> all = ProductCases();
  for (const auto& more : {ModelCases(), LatentCases(), MixtureCases(), LayerCases(), StreamCases(), RecurrenceCases(),
                           StepCases(), AttentionCases(), GroupCases(), InspectionCases(), SameBitsCases()})
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

Levels LevelsOf(const AttentionCase& c) {
  const auto text = [](const auto& number) { return std::to_string(number); };
  int longest = 0;
  for (const auto& s : c.sequences) longest = std::max(longest, s.prefill + s.decode);
  Levels levels = {"head_dim=" + text(c.head_dim),
                   "heads=" + text(c.query_heads) + "/" + text(c.kv_heads),
                   "window=" + text(c.window),
                   "tokens=" + text(longest),
                   c.row_scales || c.head_scales ? "scales=rows_and_heads" : "scales=one",
                   c.amplitude > 1 ? "scores=large" : "scores=small"};
  if (c.soft_cap > 0) levels.push_back("cap=" + text(c.soft_cap));
  if (c.head_sinks) levels.emplace_back("sinks=heads");
  const std::string keys = c.row_keys ? "rows" : "columns";
  if (c.groups.group_count == 0) {
    levels.push_back("keys=" + keys);
    return levels;
  }
  const char* const biases[] = {"bias=stored", "bias=paged", "bias=prompt"};
  levels.push_back("groups=" + text(c.groups.top_k) + "/" + text(c.groups.group_count));
  levels.push_back("near=" + text(c.groups.window));
  // Together: which kernels run depends on both.
  levels.push_back("path=" + keys + "_from_" + text(c.groups.gather_from));
  levels.emplace_back(biases[static_cast<size_t>(c.groups.bias)]);
  return levels;
}

std::vector<Levels> LevelsOnBackends(const std::vector<ConformanceCase>& cases,
                                     const std::vector<TestedBackend>& backends) {
  std::vector<Levels> all;
  for (const TestedBackend& tested : backends) {
    auto backend = CreateBackend(tested.options);
    for (const ConformanceCase& c : cases) {
      Levels levels;
      if (backend.ok() && IsSupportedBy(c, **backend) && !c.is_slow) {
        levels = c.levels.empty() ? Levels{"case=" + c.name} : c.levels;
        levels.push_back(std::string("format=") + DTypeName(tested.options.dtype));
        levels.push_back("backend=" + tested.options.device + "_" + tested.options.cpu_isa);
      }
      all.push_back(std::move(levels));
    }
  }
  return all;
}

std::unique_ptr<Backend> MakeOracle(DType dtype) {
  return Take(CreateBackend({.device = "reference", .dtype = dtype}));
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
