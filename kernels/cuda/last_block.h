// The last block of several to arrive at a counter in device memory finishes what all of them have stored.
//
// A block stores and meets. One of its threads fences, counts the block, and fences again; the block meets. Fences are cumulative: that
// thread's covers what the others stored before they met, and read after.
//
// Source:  the CUDA sample threadFenceReduction; CUTLASS' semaphore (one thread releases and acquires for its block).
#pragma once

#include "kernels/cuda/decode_steps.h"

#if defined(__CUDACC__) || defined(VF_EMULATE)
namespace varifocal::kernels::cuda {

// A step of a product's last block, and the same of attention's.
enum class LastOf { kProduct, kAttention };
VF_HD constexpr DecodeStep StepOf(LastOf of, DecodeStep of_product) {
  constexpr int kApart = static_cast<int>(DecodeStep::kMeetSplits) - static_cast<int>(DecodeStep::kMeetParts);
  return of == LastOf::kProduct ? of_product : static_cast<DecodeStep>(static_cast<int>(of_product) + kApart);
}

// By one thread for each counter, between two meetings of the block: whether the block is the last of `expected`. The counter is zero
// again then: no other block of the launch counts there any more.
VF_DEVICE bool ArriveLast(LastOf of, uint32_t* arrived, int expected) {
  const auto omitted = [&](DecodeStep step) { return IsOmitted(StepOf(of, step)); };
  if (omitted(DecodeStep::kCountParts)) return false;
  if (omitted(DecodeStep::kExpectParts)) --expected;
  if (!omitted(DecodeStep::kFenceParts)) FenceDevice();
  if (AtomicAdd(arrived, 1) + 1 != static_cast<uint32_t>(expected)) return false;
  if (!omitted(DecodeStep::kFenceOthersParts)) FenceDevice();
  if (!omitted(DecodeStep::kResetParts)) *arrived = 0;
  return true;
}

// By all threads, after their StoreForOthers: whether the block is the last, which may read what all have stored. `is_last` is in
// shared memory.
VF_DEVICE bool IsLastBlock(uint32_t* arrived, int expected, int& is_last) {
  if (!IsOmitted(DecodeStep::kMeetParts)) SyncThreads();
  if (ThreadX() == 0) is_last = ArriveLast(LastOf::kProduct, arrived, expected);
  if (!IsOmitted(DecodeStep::kMeetLastParts)) SyncThreads();
  return is_last != 0;
}

}  // namespace varifocal::kernels::cuda
#endif
