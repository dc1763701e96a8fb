// The conformance table on a bare machine: a compiler and CMake are all it takes.
//
//   cmake -DVARIFOCAL_KERNELS_ONLY=ON -B build && cmake --build build && build/bin/kernels_selfcheck [NAME PART]
//
// Prints one line per backend and exits 1 when a case fails.

#include <cstdio>
#include <string>

#include "kernels/conformance/cases.h"

int main(int argc, char** argv) {
  using namespace varifocal::kernels;
  const std::string filter = argc > 1 ? argv[1] : "";
  int failed = 0;
  for (const TestedBackend& row : TestedBackends()) {
    auto tested = CreateBackend(row.options);
    auto oracle = MakeOracle(row.options.dtype);
    int run = 0, wrong = 0;
    for (const ConformanceCase& c : AllCases()) {
      if (c.name.find(filter) == std::string::npos || !CanBeAsked(c, **tested)) continue;
      ++run;
      const std::string verdict = c.check(**tested, *oracle);
      if (verdict.empty()) continue;
      ++wrong;
      std::printf("%s %s: %s\n", row.name.c_str(), c.name.c_str(), verdict.c_str());
    }
    std::printf("%s: %d cases, %d failed\n", (*tested)->info().name.c_str(), run, wrong);
    failed += wrong;
  }
  return failed == 0 ? 0 : 1;
}
