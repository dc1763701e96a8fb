// The conformance table on a real device, skipped with the reason where there is none.
//
// Three checks that can run separately: everything, same bits only, and the smallest cases that cover every kernel (for
// compute-sanitizer, which is slow).

#include <algorithm>

#include "kernels/conformance/cases.h"
#include "kernels/cuda/checks/checks.h"

namespace varifocal::kernels::cuda {
namespace {

std::string CheckOnDevice(const std::function<bool(const std::string&)>& wanted) {
  const BackendOptions options{.device = "cuda:0", .dtype = DType::kBF16};
  auto tested = CreateBackend(options);
  if (!tested.ok()) return kSkipped + tested.error().message;
  auto oracle = MakeOracle(DType::kBF16);
  std::string failed;
  int run = 0;
  for (const ConformanceCase& c : AllCases()) {
    if (!wanted(c.name) || !IsSupportedBy(c, **tested)) continue;
    ++run;
    const std::string verdict = c.check(**tested, *oracle);
    if (!verdict.empty()) failed += c.name + ": " + verdict + "\n";
  }
  return run > 0 ? failed : "no case has such a name";
}

bool IsSmall(const std::string& name) {
  static const char* const names[] = {"linear",
                                      "gated",
                                      "rms_norm",
                                      "embed",
                                      "qkv_rope_write",
                                      "tau_causal",
                                      "lm_head_ties",
                                      "attention_length_129",
                                      "attention_head_dim_64",
                                      "attention_head_dim_128",
                                      "attention_head_dim_256",
                                      "groups_2_of_8_near_3_d32_h4k2_dense_layout_tested"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

std::vector<NamedCheck> DeviceChecks() {
  return {{"device_conformance", [] { return CheckOnDevice([](const std::string&) { return true; }); }},
          {"device_same_bits",
           [] {
             return CheckOnDevice([](const std::string& name) {
               return name.rfind("same_bits", 0) == 0 || name.rfind("groups_bits", 0) == 0;
             });
           }},
          {"device_small", [] { return CheckOnDevice(IsSmall); }}};
}

}  // namespace varifocal::kernels::cuda
