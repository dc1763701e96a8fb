// Device interface of the backend: memory, copies, a stream per thread, kernels, optionally a library for products.
//
// Two implementations exist: the CUDA runtime's (cudart_runtime.cc) and the emulator's, which also injects failures for
// tests. Operations are queued in call order on the calling thread's own stream, or on the one it uses for a while
// (UseStream), so that two engines do not wait for each other; another thread may use a result after Synchronize.
//
// Errors:  every int is the CUDA runtime's error code, 0 for success, or a negated status of the product library;
//          ToError (device_error.h) words it. A failure is returned by the call that failed and by no later one, unless
//          the device itself failed.
// Threads: all calls may come from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/kernel_table.h"

namespace varifocal::kernels::cuda {

struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessor_count = 0;
  size_t shared_bytes_max = 0;  // of one block, opted in
  size_t l2_bytes = 0;
  double flops_per_second = 0;  // of a prompt, predicted
};

// x [M, K] times weight [N, K] transposed, for one weight and one output format: a row's bits are the same for every M.
struct ProductPlan {
  int64_t outputs = 0, inner = 0, weight_stride = 0;
  ProductType type = ProductType::kF32;
};

class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;
  virtual std::string name() const = 0;  // with its version
  // A handle, or -1 when the library has no suitable algorithm for this shape.
  virtual int MakePlan(const ProductPlan& plan) = 0;
  // out = alpha x weight^T + beta out
  virtual int Multiply(int plan, int rows, const void* x, const void* weight, float alpha, float beta, void* out) = 0;
  // The plan's algorithms in one line, equal for equal algorithms: what a result's bits depend on.
  virtual std::string PlanText(int plan) const = 0;
  // To record plans: a handle for each algorithm that the library suggests for some number of rows and that MakePlan would
  // take, alone; and the row of one in product_plans.h.
  virtual std::vector<int> Candidates(const ProductPlan& plan) = 0;
  virtual std::string PlanRow(int plan, int rows_from) const = 0;
  virtual std::string StatusText(int status) const = 0;
};

// Launches in order, queued as one. Serves one thread at a time.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  // In place of one of the same kernel, from the next Queue on.
  virtual int Replace(size_t index, const KeptLaunch& launch) = 0;
  virtual int Queue(LaunchStream stream) = 0;
};

// Events recorded after copies out of staging memory, one for each of its pieces.
inline constexpr int kRingPieces = 4, kStepRings = 8;
// Those of turns (device_turns.h): of the last pieces of prompts, and of each engine's last step.
inline constexpr int kPieceMarks = 3, kTurnSlots = 32;
inline constexpr int kFirstTurnMark = kRingPieces * (1 + kStepRings);
inline constexpr int kMarkCount = kFirstTurnMark + kPieceMarks + kTurnSlots;

// The calling thread's own stream.
inline constexpr int kOwnStream = -1;

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual int DeviceCount(int* count) = 0;
  virtual int Open(int device, DeviceProperties* properties) = 0;
  virtual int Memory(size_t* free_bytes, size_t* total_bytes) = 0;
  virtual int Allocate(void** memory, size_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  virtual int AllocatePinned(void** memory, size_t bytes) = 0;
  virtual void FreePinned(void* memory) = 0;
  // Queued; `from` must stay until a later mark was waited for when it is pinned.
  virtual int CopyToDevice(void* to, const void* from, size_t bytes) = 0;
  // Queued; done after Synchronize.
  virtual int CopyToHost(void* to, const void* from, size_t bytes) = 0;
  // Queued: `count` pieces of `bytes`, `stride_bytes` apart on both sides.
  virtual int CopyOnDevice(void* to, const void* from, size_t stride_bytes, size_t bytes, int count) = 0;
  virtual int Fill(void* memory, int byte, size_t bytes) = 0;
  virtual int Mark(int mark) = 0;
  virtual int WaitMark(int mark) = 0;
  // What this thread queues from here on begins after the mark, as last recorded by any thread. The host does not wait.
  virtual int FollowMark(int mark) = 0;
  // This thread's operations from here on, after those it queued before: on its own stream, which has the lowest
  // priority, or on one of the highest, 0 to kTurnSlots - 1, which serves one thread at a time and takes no product of
  // the library. A failure leaves the thread with its own.
  virtual int UseStream(int index) = 0;
  virtual int Synchronize() = 0;  // what this thread has queued
  // Two points in the queue, 0 and 1, and the device's time from the first to the second, which is waited for.
  virtual int Stamp(int which) = 0;
  virtual int SecondsBetweenStamps(double* seconds) = 0;
  virtual std::string ErrorText(int code) = 0;
  virtual LaunchStream stream() = 0;
  virtual int Launch(const KeptLaunch& launch) = 0;
  virtual int MakeGraph(const LaunchList& launches, std::unique_ptr<LaunchGraph>* graph) = 0;
  // What the kernels of compute capability 9.0 copy from; valid as long as the memory.
  virtual int EncodeTensorMap(const TensorMapSpec& spec, TensorMap* map) = 0;
  virtual const KernelTable& kernels() = 0;
  virtual ProductLibrary* products() = 0;  // null: the backend's own kernels
};

}  // namespace varifocal::kernels::cuda
