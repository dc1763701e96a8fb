// Graphs of decode steps: one launch in place of some three hundred.
//
// A step whose kernels and rows were seen before queues the graph of that time; of the launches whose shape or parameters
// have changed since (a page was started, a split of keys begun), those alone are replaced.
//
// Errors:  the runtime's code; a failure leaves no graph of these kernels behind.
// Threads: serves one thread at a time.
// Cost:    at most kGraphsMax graphs; a graph takes some hundred bytes of device memory a launch.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/runtime.h"

namespace varifocal::kernels::cuda {

// Steps of more rows take longer than their launches do.
inline constexpr int kGraphRowsMax = 64;
inline constexpr size_t kGraphsMax = 2 * kGraphRowsMax;

class StepGraphs {
 public:
  // Queues the launches of a step of `row_count` rows and empties the list.
  int Queue(Runtime& runtime, int row_count, LaunchList& launches);

 private:
  struct Kept {
    int row_count = 0;
    LaunchList launches;
    std::unique_ptr<LaunchGraph> graph;
  };
  // The code of the first failure.
  static int Update(Kept& kept, const LaunchList& launches);

  std::vector<Kept> kept_;  // the last used one last
};

}  // namespace varifocal::kernels::cuda
