// The primitives of sm90.h inside a running kernel of the emulator: what compute capability 9.0 does asynchronously.
//
// Products and bulk copies take effect when the kernel has waited for them and not before: a copy's target and a product's
// accumulators are NaN meanwhile, operands must stay as they were. Shared memory has two views: threads write the generic one,
// products read the asynchronous one, bulk copies write both; a store reaches the second by the thread's fence. A mistake
// ends the program with a message, or the block where a test collects faults (CatchFaults).
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/sm90_steps.h"
#include "kernels/cuda/tensor_map.h"

namespace varifocal::kernels::cuda::emulator {

void InitBarrier(Sm90Step step, int barrier, int count);
void Arrive(Sm90Step step, int barrier, int bytes);
void AwaitPhase(Sm90Step step, int barrier, uint32_t parity);
void CopyBulk(Sm90Step step, int to, const void* from, int bytes, int barrier);
void CopyTensor(Sm90Step step, int to, const TensorMap& map, int column, int row, int barrier);
// What the runtime's EncodeTensorMap makes here; false where a device would refuse it.
bool EncodeTensorMap(const TensorMapSpec& spec, TensorMap* map);
void StoreOperand(int to, const uint32_t (&words)[4]);
// 16 bytes of a thread's own copy (CopyAsync) begin to arrive, and have arrived: products see them after the thread's next FenceAsync.
// With late copies a thread waits for its own until all other threads wait.
void BeginOwnCopy(const unsigned char* to);
void AwaitOwnCopies();
void EndOwnCopy(const unsigned char* to);
// A mistake where these bytes of shared memory were never written; for data that a kernel would be lost with.
void ExpectData(const void* from, int bytes);
void FenceAsync(Sm90Step step);
void Pin(Sm90Step step, void* registers, int count);
void FenceProducts(Sm90Step step);
void CommitProducts(Sm90Step step);
void WaitProducts(Sm90Step step, int pending);
// d [64, 8 columns] = or += a b: a by descriptor, or `words` where not null, then b is transposed.
void StartProduct(uint64_t a, const uint32_t* words, uint64_t b, bool adds, float* d, int columns);
void SetRegisters(Sm90Step step, int count, bool more);
void MeetNamed(Sm90Step step, int id, int threads, bool waits);
bool IsOmitted(Sm90Step step);

// For tests. Null ends it: a mistake aborts again. Of the calling thread; the first fault counts.
void CatchFaults(std::string* fault);
void SetMutant(const Sm90Mutant& mutant);  // of all threads

// Counters of the calling thread: products, bytes of bulk copies.
struct HopperCounters {
  int64_t products = 0;
  int64_t copied_bytes = 0;
};
const HopperCounters& GetHopperCounters();

}  // namespace varifocal::kernels::cuda::emulator
