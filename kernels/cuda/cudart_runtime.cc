// Runtime on the CUDA runtime library: linked statically, so that a program starts without a driver.

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

// A handle of the runtime for the calling thread's own stream, which waits for no other.
const cudaStream_t kStream = cudaStreamPerThread;

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
    *properties = {found.name, found.major, found.minor, found.multiProcessorCount, found.sharedMemPerBlockOptin};
    products_ = OpenCublasLt({.queue = kStream}, found.major * 10 + found.minor);
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
    return Cleared(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, kStream));
  }
  int CopyToHost(void* to, const void* from, size_t bytes) override {
    Enter();
    return Cleared(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, kStream));
  }
  int CopyOnDevice(void* to, const void* from, size_t stride_bytes, size_t bytes, int count) override {
    Enter();
    // The maximum pitch of a two-dimensional copy.
    constexpr size_t kPitchMax = (size_t{1} << 31) - 1;
    if (stride_bytes <= kPitchMax) {
      return Cleared(
          cudaMemcpy2DAsync(to, stride_bytes, from, stride_bytes, bytes, count, cudaMemcpyDeviceToDevice, kStream));
    }
    for (int i = 0; i < count; ++i) {
      const cudaError_t error =
          cudaMemcpyAsync(static_cast<char*>(to) + i * stride_bytes, static_cast<const char*>(from) + i * stride_bytes,
                          bytes, cudaMemcpyDeviceToDevice, kStream);
      if (error != cudaSuccess) return Cleared(error);
    }
    return 0;
  }
  int Fill(void* memory, int byte, size_t bytes) override {
    Enter();
    return Cleared(cudaMemsetAsync(memory, byte, bytes, kStream));
  }
  int Mark(int mark) override {
    Enter();
    return Cleared(cudaEventRecord(events_[mark], kStream));
  }
  int WaitMark(int mark) override {
    Enter();
    return Cleared(cudaEventSynchronize(events_[mark]));
  }
  int Synchronize() override {
    Enter();
    return Cleared(cudaStreamSynchronize(kStream));
  }
  int Stamp(int which) override {
    Enter();
    return Cleared(cudaEventRecord(stamps_[which], kStream));
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
    return {.queue = kStream};
  }
  int Launch(const KeptLaunch& launch) override { return LaunchOnDevice(launch, stream()); }
  int MakeGraph(const LaunchList& launches, std::unique_ptr<LaunchGraph>* graph) override {
    return MakeCudartGraph(launches, stream(), graph);
  }
  const KernelTable& kernels() override { return device::Table(); }
  ProductLibrary* products() override { return products_.get(); }

 private:
  // The current device is per thread.
  void Enter() const { Cleared(cudaSetDevice(device_)); }

  int device_ = 0;
  bool open_ = false;
  cudaEvent_t events_[kMarkCount] = {};
  cudaEvent_t stamps_[2] = {};
  std::unique_ptr<ProductLibrary> products_;
};

}  // namespace

std::unique_ptr<Runtime> MakeDeviceRuntime() { return std::make_unique<CudartRuntime>(); }

}  // namespace varifocal::kernels::cuda
