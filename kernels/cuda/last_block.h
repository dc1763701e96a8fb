// The last block of several to arrive at a counter in device memory finishes what all of them have stored.
//
// A block stores and meets. One of its threads fences, counts the block, and fences again; the block meets. Fences are cumulative: that
// thread's covers what the others stored before they met, and read after.
//
// Source:  the CUDA sample threadFenceReduction; CUTLASS' semaphore (one thread releases and acquires for its block).
#pragma once

#include "kernels/cuda/simt.h"

#if defined(__CUDACC__) || defined(VF_EMULATE)
namespace varifocal::kernels::cuda {

// By one thread for each counter, between two meetings of the block: whether the block is the last of `expected`. The counter is zero
// again then: no other block of the launch counts there any more.
VF_DEVICE bool ArriveLast(uint32_t* arrived, int expected) {
  FenceDevice();
  if (AtomicAdd(arrived, 1) + 1 != static_cast<uint32_t>(expected)) return false;
  FenceDevice();
  *arrived = 0;
  return true;
}

// By all threads, after their StoreForOthers: whether the block is the last, which may read what all have stored. `is_last` is in
// shared memory.
VF_DEVICE bool IsLastBlock(uint32_t* arrived, int expected, int& is_last) {
  SyncThreads();
  if (ThreadX() == 0) is_last = ArriveLast(arrived, expected);
  SyncThreads();
  return is_last != 0;
}

}  // namespace varifocal::kernels::cuda
#endif
