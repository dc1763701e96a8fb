// Runtime on the CUDA runtime library: linked statically, so that a program starts without a driver.

#include <cuda.h>

#include <atomic>
#include <utility>

#include "kernels/cuda/cublaslt_products.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cudart_error.h"
#include "kernels/cuda/cudart_graph.h"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/device_launch.h"

namespace varifocal::kernels::cuda {

namespace device {
const KernelTable& Table();  // kernel_table.cu, compiled for the device
}

namespace {

// A handle of the runtime for the calling thread's own stream, which waits for no other and has the lowest priority.
const cudaStream_t kThreadStream = cudaStreamPerThread;

// What the reference models' prompts reach, about.
double PredictedFlops(int major) { return major >= 9 ? 500e12 : 150e12; }

// The stream that the calling thread uses in place of its own, and the event of the change.
struct UsedStream {
  const Runtime* runtime = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t changed = nullptr;
};
thread_local UsedStream used;

class CudartRuntime final : public Runtime {
 public:
  ~CudartRuntime() override {
    if (!open_) return;
    Enter();
    cudaDeviceSynchronize();
    products_.reset();
    for (cudaEvent_t event : events_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    for (cudaEvent_t event : stamps_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    for (const UsedStream& priority : priorities_) {
      if (priority.changed != nullptr) cudaEventDestroy(priority.changed);
      if (priority.stream != nullptr) cudaStreamDestroy(priority.stream);
    }
  }

  int DeviceCount(int* count) override { return Cleared(cudaGetDeviceCount(count)); }

  int Open(int device, DeviceProperties* properties) override {
    device_ = device;
    cudaDeviceProp found;
    cudaError_t error = cudaSetDevice(device);
    if (error == cudaSuccess) error = cudaGetDeviceProperties(&found, device);
    for (cudaEvent_t& event : events_) {
      if (error == cudaSuccess) error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    }
    for (cudaEvent_t& event : stamps_) {
      if (error == cudaSuccess) error = cudaEventCreate(&event);
    }
    if (error != cudaSuccess) return Cleared(error);
    *properties = {found.name,
                   found.major,
                   found.minor,
                   found.multiProcessorCount,
                   found.sharedMemPerBlockOptin,
                   static_cast<size_t>(found.l2CacheSize),
                   PredictedFlops(found.major)};
    products_ = OpenCublasLt({.queue = kThreadStream}, found.major * 10 + found.minor);
    open_ = true;
    return 0;
  }

  int Memory(size_t* free_bytes, size_t* total_bytes) override {
    Enter();
    return Cleared(cudaMemGetInfo(free_bytes, total_bytes));
  }
  int Allocate(void** memory, size_t bytes) override {
    Enter();
    return Cleared(cudaMalloc(memory, bytes));
  }
  void Free(void* memory) override {
    Enter();
    Cleared(cudaFree(memory));
  }
  int AllocatePinned(void** memory, size_t bytes) override {
    Enter();
    return Cleared(cudaMallocHost(memory, bytes));
  }
  void FreePinned(void* memory) override {
    Enter();
    Cleared(cudaFreeHost(memory));
  }
  int CopyToDevice(void* to, const void* from, size_t bytes) override {
    Enter();
    return Cleared(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, Stream()));
  }
  int CopyToHost(void* to, const void* from, size_t bytes) override {
    Enter();
    return Cleared(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, Stream()));
  }
  int CopyOnDevice(void* to, const void* from, size_t stride_bytes, size_t bytes, int count) override {
    Enter();
    // The maximum pitch of a two-dimensional copy.
    constexpr size_t kPitchMax = (size_t{1} << 31) - 1;
    if (stride_bytes <= kPitchMax) {
      return Cleared(
          cudaMemcpy2DAsync(to, stride_bytes, from, stride_bytes, bytes, count, cudaMemcpyDeviceToDevice, Stream()));
    }
    for (int i = 0; i < count; ++i) {
      const cudaError_t error =
          cudaMemcpyAsync(static_cast<char*>(to) + i * stride_bytes, static_cast<const char*>(from) + i * stride_bytes,
                          bytes, cudaMemcpyDeviceToDevice, Stream());
      if (error != cudaSuccess) return Cleared(error);
    }
    return 0;
  }
  int Fill(void* memory, int byte, size_t bytes) override {
    Enter();
    return Cleared(cudaMemsetAsync(memory, byte, bytes, Stream()));
  }
  int Mark(int mark) override {
    Enter();
    return Cleared(cudaEventRecord(events_[mark], Stream()));
  }
  int WaitMark(int mark) override {
    Enter();
    return Cleared(cudaEventSynchronize(events_[mark]));
  }
  int FollowMark(int mark) override {
    Enter();
    return Cleared(cudaStreamWaitEvent(Stream(), events_[mark], 0));
  }
  int UseStream(int index) override {
    Enter();
    const UsedStream before = std::exchange(used, {});
    if (index == kOwnStream) {
      return before.runtime == this ? Continue(before.stream, kThreadStream, before.changed) : 0;
    }
    UsedStream& priority = priorities_[index];
    if (const int code = Create(priority); code != 0) return code;
    const int code = Continue(kThreadStream, priority.stream, priority.changed);
    if (code == 0) used = priority;
    return code;
  }
  int Synchronize() override {
    Enter();
    return Cleared(cudaStreamSynchronize(Stream()));
  }
  int Stamp(int which) override {
    Enter();
    return Cleared(cudaEventRecord(stamps_[which], Stream()));
  }
  int SecondsBetweenStamps(double* seconds) override {
    Enter();
    float milliseconds = 0;
    cudaError_t error = cudaEventSynchronize(stamps_[1]);
    if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, stamps_[0], stamps_[1]);
    *seconds = milliseconds * 1e-3;
    return Cleared(error);
  }
  std::string ErrorText(int code) override {
    if (code < 0) return products_->StatusText(-code);
    const auto error = static_cast<cudaError_t>(code);
    return std::string(cudaGetErrorName(error)) + ", " + cudaGetErrorString(error);
  }
  LaunchStream stream() override {
    // The next call is a launch, and this thread may not have set the device yet.
    Enter();
    return {.queue = Stream()};
  }
  int Launch(const KeptLaunch& launch) override { return LaunchOnDevice(launch, stream()); }
  int MakeGraph(const LaunchList& launches, std::unique_ptr<LaunchGraph>* graph) override {
    Enter();
    return MakeCudartGraph(launches, graph);
  }
  int EncodeTensorMap(const TensorMapSpec& spec, TensorMap* map) override {
    Enter();
    // By the driver's own function, found at run time: a program starts without a driver.
    static_assert(sizeof(CUtensorMap) == sizeof(TensorMap) && alignof(CUtensorMap) <= alignof(TensorMap));
    void* found = encode_;
    if (found == nullptr) {
      cudaDriverEntryPointQueryResult result{};
      constexpr unsigned kSince = 12000;
      const cudaError_t error =
          cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kSince, cudaEnableDefault, &result);
      if (error != cudaSuccess) return Cleared(error);
      if (result != cudaDriverEntryPointSuccess || found == nullptr) return cudaErrorSymbolNotFound;
      encode_ = found;
    }
    const cuuint64_t sizes[] = {static_cast<cuuint64_t>(spec.columns), static_cast<cuuint64_t>(spec.rows)};
    const cuuint64_t strides[] = {static_cast<cuuint64_t>(spec.row_bytes)};
    const cuuint32_t box[] = {kTensorBoxColumns, static_cast<cuuint32_t>(spec.box_rows)}, steps[] = {1, 1};
    const CUresult code = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(
        reinterpret_cast<CUtensorMap*>(map), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(spec.data), sizes,
        strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return code == CUDA_SUCCESS ? 0 : cudaErrorInvalidValue;
  }
  const KernelTable& kernels() override { return device::Table(); }
  ProductLibrary* products() override { return products_.get(); }

 private:
  // The current device is per thread.
  void Enter() const { Cleared(cudaSetDevice(device_)); }
  cudaStream_t Stream() const { return used.runtime == this ? used.stream : kThreadStream; }

  // What is missing of it.
  int Create(UsedStream& priority) const {
    if (priority.stream != nullptr) return 0;
    priority.runtime = this;
    int lowest = 0, highest = 0;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    if (error == cudaSuccess && priority.changed == nullptr) {
      error = cudaEventCreateWithFlags(&priority.changed, cudaEventDisableTiming);
    }
    if (error == cudaSuccess) error = cudaStreamCreateWithPriority(&priority.stream, cudaStreamNonBlocking, highest);
    return Cleared(error);
  }
  // What `to` gets from here on begins after what `from` has.
  static int Continue(cudaStream_t from, cudaStream_t to, cudaEvent_t changed) {
    cudaError_t error = cudaEventRecord(changed, from);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(to, changed, 0);
    return Cleared(error);
  }

  int device_ = 0;
  std::atomic<void*> encode_ = nullptr;  // the driver's function
  bool open_ = false;
  cudaEvent_t events_[kMarkCount] = {};
  cudaEvent_t stamps_[2] = {};
  UsedStream priorities_[kTurnSlots];
  std::unique_ptr<ProductLibrary> products_;
};

}  // namespace

std::unique_ptr<Runtime> MakeDeviceRuntime() { return std::make_unique<CudartRuntime>(); }

}  // namespace varifocal::kernels::cuda
