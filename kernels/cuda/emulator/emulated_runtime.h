// An emulated device in host memory behind the backend's Runtime, with injected faults for tests.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kernels/cuda/emulator/fibers.h"
#include "kernels/cuda/runtime.h"

namespace varifocal::kernels::cuda {

// Properties of an emulated device and its injected faults. Shared with the test, which may change it while no request runs.
struct EmulatedMachine {
  std::string name = "emulated device";
  int device_count = 1;
  int device_count_code = 0;
  int capability = 90;
  int multiprocessor_count = 1;
  emulator::Limits limits;
  size_t total_bytes = size_t{8} << 30;
  double flops_per_second = 500e12;
  size_t l2_bytes = size_t{50} << 20;
  bool pinned = true;
  ProductLibrary* products = nullptr;  // null: the backend's own kernels
  // Calls of this name ("Allocate", "CopyToDevice", "Kernel", ..) return this code from the `after`-th on (0: the
  // next).
  struct Failure {
    int code = 0;
    int after = 0;
    int times = 1 << 30;
  };
  std::map<std::string, Failure> failures;
  // Counted for tests.
  size_t used_bytes = 0;
  struct Prefetch {
    int64_t launch;  // emulator::LaunchCount() during it
    const unsigned char* at;
    size_t bytes;
  };
  std::vector<Prefetch> prefetches;
  std::map<const unsigned char*, size_t> allocations;
  std::map<std::string, int> calls;
  std::function<void(const std::string& call)> before = nullptr;  // of each call that is counted

  int Answer(const std::string& call);
  // Whether all of it is allocated; counts it.
  bool CountPrefetch(const void* from, size_t bytes);
  // Of what a call changes, as engines share a device. No annotation: tests change and read it without, while nothing runs.
  Mutex mutex;
};

std::unique_ptr<Runtime> MakeEmulatedRuntime(std::shared_ptr<EmulatedMachine> machine);

}  // namespace varifocal::kernels::cuda
