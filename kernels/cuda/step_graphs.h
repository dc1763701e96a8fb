// Graphs of decode steps: one launch in place of some three hundred.
//
// For a step with the kernels and the number of rows of an earlier one, that one's graph is queued. Launches whose
// shape or parameters have changed since (a page was started, a split of keys begun) are replaced in it first.
//
// Errors:  the runtime's code; a failure leaves no graph of these kernels behind. Where the device has no memory for a
//          graph, the launches are queued one by one.
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
