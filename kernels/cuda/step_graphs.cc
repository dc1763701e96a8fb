#include "kernels/cuda/step_graphs.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/device_error.h"

namespace varifocal::kernels::cuda {

int StepGraphs::Update(Kept& kept, const LaunchList& launches) {
  for (size_t i = 0; i < launches.size(); ++i) {
    if (launches[i] == kept.launches[i]) continue;
    if (const int code = kept.graph->Replace(i, launches[i]); code != 0) return code;
  }
  return 0;
}

int StepGraphs::Queue(Runtime& runtime, int row_count, LaunchList& launches) {
  if (launches.size() == 0) return 0;
  auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.row_count == row_count && kept.launches.HasKernelsOf(launches);
  });
  int code = 0;
  if (found != kept_.end()) {
    std::rotate(found, found + 1, kept_.end());
    code = Update(kept_.back(), launches);
  } else {
    if (kept_.size() == kGraphsMax) kept_.erase(kept_.begin());
    kept_.push_back({.row_count = row_count});
    code = runtime.MakeGraph(launches, &kept_.back().graph);
  }
  if (code == 0) code = kept_.back().graph->Queue(runtime.stream());
  if (code == 0) {
    std::swap(kept_.back().launches, launches);
  } else {
    kept_.pop_back();
  }
  if (code == kCudaOutOfMemory) {
    code = 0;
    for (size_t i = 0; code == 0 && i < launches.size(); ++i) code = runtime.Launch(launches[i]);
  }
  launches.Clear();
  return code;
}

}  // namespace varifocal::kernels::cuda
