// The conformance table on a machine with only a compiler and CMake.
//
//   cmake -DVARIFOCAL_KERNELS_ONLY=ON -B build && cmake --build build && build/bin/kernels_selfcheck [NAME PART]
//
// Prints one line per backend and exits 1 when a case fails. `kernels_selfcheck errors` prints instead the error of
// attention over 1,024 keys against float64, per head dim, with the bound derived from its inputs.

#include <cstdio>
#include <string>

#include "kernels/conformance/attention_error.h"
#include "kernels/conformance/cases.h"

namespace varifocal::kernels {
namespace {

int PrintErrors() {
  std::printf(
      "| backend | head dim | worst | RMS | largest bound | largest error by its bound | worst, inputs' rounding too "
      "|\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  int wrong = 0;
  for (const TestedBackend& row : TestedBackends()) {
    auto tested = CreateBackend(row.options);
    for (const int head_dim : {64, 80, 96, 128, 256}) {
      if (!IsSupportedBy({"", {}, head_dim}, **tested)) continue;
      const AttentionError error = MeasureAttentionError(**tested, head_dim, 1024);
      wrong += !(error.share_of_bound <= 1);
      std::printf("| %s | %d | %.1e | %.1e | %.1e | %.2f | %.1e |\n", (*tested)->info().name.c_str(), head_dim,
                  error.worst, error.rms, error.bound, error.share_of_bound, error.with_inputs);
    }
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace varifocal::kernels

int main(int argc, char** argv) {
  using namespace varifocal::kernels;
  const std::string filter = argc > 1 ? argv[1] : "";
  if (filter == "errors") return PrintErrors();
  int failed = 0;
  for (const TestedBackend& row : TestedBackends()) {
    auto tested = CreateBackend(row.options);
    auto oracle = MakeOracle(row.options.dtype);
    int run = 0, wrong = 0;
    for (const ConformanceCase& c : AllCases()) {
      if (c.name.find(filter) == std::string::npos || !IsSupportedBy(c, **tested)) continue;
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
