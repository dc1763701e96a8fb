// null_rates [EXPERIMENTS [DRAWS]]: the table of false positives at nominal 5 %, and exit 1 when the comparison of a
// design of docs/measuring.md's size is not between 4 and 6 %.
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "db/stats/null_simulation.h"

int main(int argc, char** argv) {
  using varifocal::stats::NullDesign;
  using varifocal::stats::NullRates;
  const long experiments = argc > 1 ? std::atol(argv[1]) : 20'000;
  const long draws = argc > 2 ? std::atol(argv[2]) : 10'000;
  if (experiments <= 0 || draws <= 0) {
    std::fprintf(stderr, "usage: null_rates [EXPERIMENTS [DRAWS]], both above zero\n");
    return 2;
  }
  bool all_good = true;
  std::printf("No true difference, nominal 5 %%, %ld experiments a row, %ld sign flips each.\n", experiments, draws);
  std::printf("%-34s %11s %12s %12s %16s\n", "design", "correlation", "sign-flip p", "t interval", "rows, unclustered");
  struct Row {
    const char* name;
    NullDesign design;
  };
  for (double correlation : {0.0, 0.3, 0.5, 0.7, 0.9}) {
    const Row rows[] = {
        {"100 clusters of 6, binary", {100, 6, correlation, 0.1, true}},
        {"25 clusters of 4, graded", {25, 4, correlation, 0.1, false}},
        {"25 clusters of 4, binary", {25, 4, correlation, 0.25, true}},
        {"12 clusters of 4, graded", {12, 4, correlation, 0.1, false}},
        {"12 clusters of 4, binary", {12, 4, correlation, 0.25, true}},
    };
    for (const Row& row : rows) {
      const NullRates rates = varifocal::stats::SimulateNull(row.design, experiments, draws, 1);
      NullDesign mistaken = row.design;
      mistaken.ignore_clusters = true;
      const NullRates unclustered = varifocal::stats::SimulateNull(mistaken, experiments / 10 + 1, draws, 2);
      const double p_low = row.design.is_binary ? 0.0 : 0.04;
      const bool is_good =
          rates.sign_flip >= p_low && rates.sign_flip <= 0.06 && rates.interval >= 0.04 && rates.interval <= 0.06;
      std::printf("%-34s %11.1f %10.2f %% %10.2f %% %14.1f %%%s\n", row.name, correlation, 100 * rates.sign_flip,
                  100 * rates.interval, 100 * unclustered.sign_flip, is_good ? "" : "  outside");
      std::fflush(stdout);
      all_good &= is_good;
    }
  }
  return all_good ? 0 : 1;
}
