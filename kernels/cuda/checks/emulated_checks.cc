// The conformance table, case by case, on the emulated device: the kernels a GPU will run, thread by thread, behind the
// backend a daemon will call. Scratch and new memory hold NaNs; copies land when they are waited for.

#include "kernels/conformance/cases.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"
#include "kernels/cuda/emulator/fibers.h"

namespace varifocal::kernels::cuda {
namespace {

Result<std::unique_ptr<Backend>> MakeEmulated() {
  return CreateBackendOn(MakeEmulatedRuntime(std::make_shared<EmulatedMachine>()), 0, {.dtype = DType::kBF16});
}

std::string CheckCase(const ConformanceCase& c) {
  auto tested = MakeEmulated();
  if (!tested.ok()) return tested.error().message;
  auto oracle = MakeOracle(DType::kBF16);
  return c.check(**tested, *oracle);
}

// A barrier that is missing shows as bits that depend on the order in which threads run.
std::string CheckThreadOrder() {
  const AttentionCase c{.name = "order",
                        .head_dim = 80,
                        .query_heads = 4,
                        .kv_heads = 2,
                        .sequences = {{150, 2}, {70, 1}},
                        .window = 100,
                        .row_scales = true,
                        .amplitude = 4.0f};
  auto tested = MakeEmulated();
  if (!tested.ok()) return tested.error().message;
  const AttentionRun base = RunAttentionCase(**tested, c, {});
  for (const uint64_t seed : {1, 2, 3}) {
    emulator::SetScheduleSeed(seed);
    const size_t different = CountDifferentBits(base, RunAttentionCase(**tested, c, {}));
    emulator::SetScheduleSeed(0);
    if (different != 0) return "another order of threads changed " + std::to_string(different) + " numbers";
  }
  return "";
}

}  // namespace

std::vector<NamedCheck> EmulatedChecks() {
  std::vector<NamedCheck> checks;
  auto backend = MakeEmulated();
  for (const ConformanceCase& c : AllCases()) {
    // A device has no threads to vary; CheckThreadOrder varies what stands in their place.
    if (c.name == "same_bits_threads" || !CanBeAsked(c, **backend)) continue;
    checks.push_back({"emulated_" + c.name, [c] { return CheckCase(c); }});
  }
  checks.push_back({"emulated_thread_order", CheckThreadOrder});
  return checks;
}

}  // namespace varifocal::kernels::cuda
