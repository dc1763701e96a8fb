// The conformance table on a real device, skipped with the reason where there is none.

#include "kernels/conformance/cases.h"
#include "kernels/cuda/checks/checks.h"

namespace varifocal::kernels::cuda {
namespace {

std::string CheckConformance() {
  const BackendOptions options{.device = "cuda:0", .dtype = DType::kBF16};
  auto tested = CreateBackend(options);
  if (!tested.ok()) return kSkipped + tested.error().message;
  auto oracle = MakeOracle(DType::kBF16);
  std::string failed;
  for (const ConformanceCase& c : AllCases()) {
    if (!CanBeAsked(c, **tested)) continue;
    const std::string verdict = c.check(**tested, *oracle);
    if (!verdict.empty()) failed += c.name + ": " + verdict + "\n";
  }
  return failed;
}

}  // namespace

std::vector<NamedCheck> DeviceChecks() { return {{"device_conformance", CheckConformance}}; }

}  // namespace varifocal::kernels::cuda
