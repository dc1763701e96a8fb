// Runs a kernel's threads on the host: every thread of a block is a fiber, a warp's collective instructions execute
// when its 32 lanes have arrived, asynchronous copies complete only when they are waited for.
//
// It does not model time. It is stricter than a GPU: shared memory is initialised with NaNs, a copy's target is NaN
// until the copy is waited for, and threads run in an order shuffled by a seed, so that a missing barrier changes
// results. Blocks run one after the other, in an order shuffled by the seed as well. A barrier that not every thread reaches
// aborts the program with a message.
//
// Threads: one block runs at a time in a host thread; several host threads may each run blocks.
// Cost:    about 20 ns a switch; an mma about half a microsecond.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/cuda/launch_list.h"

namespace varifocal::kernels::cuda::emulator {

// What a device allows a launch.
struct Limits {
  int shared_bytes_max = 227 << 10;  // dynamic
  int grid_yz_max = 65535;
  int thread_count_max = 1024;
  // Called for each prefetch; false: that is no memory of the device.
  std::function<bool(const void* from, size_t bytes)> prefetch = nullptr;
};

// Scheduling order of runnable threads: 0 is first in first out, otherwise shuffled by the seed.
void SetScheduleSeed(uint64_t seed);

// A step that kernels leave out (gather_steps.h, decode_steps.h); 0: none.
void OmitStep(int step);

// Runs kernel() once per thread of every block.
void Run(const LaunchShape& launch, const std::function<void()>& kernel);

// Run, or CUDA's code for a launch that exceeds the limits: 1 for shared memory, 9 for grid or threads. A grid without
// blocks is not launched. Null: no limits.
int Start(const Limits* limits, const LaunchShape& launch, const std::function<void()>& kernel);
int Start(const Limits* limits, const KeptLaunch& launch);

// Counters of the calling thread for tests: mma instructions and blocks executed; 8x8 matrices read by ldmatrix, and the number
// of their rows with a bank conflict.
struct Counters {
  int64_t multiplies = 0;
  int64_t blocks = 0;
  int64_t matrices = 0;
  int64_t bank_conflicts = 0;
};
const Counters& GetCounters();
int64_t LaunchCount();  // of all threads

}  // namespace varifocal::kernels::cuda::emulator
