// The checks of the CUDA backend on a bare machine: needs only nvcc, CMake and a C++ compiler.
//
//   cmake -DVARIFOCAL_KERNELS_ONLY=ON -B build && cmake --build build && build/bin/cuda_selfcheck [NAME PART]
//
// Prints one line per check that fails or is skipped, and exits 1 when one fails.

#include <cstdio>

#include "kernels/cuda/checks/checks.h"

int main(int argc, char** argv) {
  using namespace varifocal::kernels::cuda;
  const std::string filter = argc > 1 ? argv[1] : "";
  int run = 0, failed = 0, skipped = 0;
  for (const NamedCheck& check : AllChecks()) {
    if (check.name.find(filter) == std::string::npos) continue;
    ++run;
    const std::string verdict = check.run();
    if (verdict.empty()) continue;
    const bool skip = verdict.rfind(kSkipped, 0) == 0;
    (skip ? skipped : failed) += 1;
    std::printf("%s: %s\n", check.name.c_str(), verdict.c_str());
  }
  std::printf("cuda: %d checks, %d failed, %d skipped\n", run, failed, skipped);
  return failed == 0 ? 0 : 1;
}
