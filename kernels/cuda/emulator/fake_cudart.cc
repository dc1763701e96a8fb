#include "kernels/cuda/emulator/fake_cudart.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

namespace varifocal::kernels::cuda::fake {

Cudart& Machine() {
  static Cudart machine;
  return machine;
}

namespace {

// The code of a call of `name`, stored in the slot when it is a failure.
cudaError_t Answer(const char* name, int code = 0) {
  Cudart& machine = Machine();
  if (machine.fault != 0) {
    code = machine.fault;
  } else if (const auto it = machine.failures.find(name); it != machine.failures.end()) {
    code = it->second;
    machine.failures.erase(it);
  }
  if (code != 0) machine.last_error = code;
  return static_cast<cudaError_t>(code);
}
// Work is queued on the calling thread's own stream alone.
cudaError_t AnswerOn(cudaStream_t stream, const char* name) {
  return Answer(name, stream == cudaStreamPerThread ? 0 : cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace varifocal::kernels::cuda::fake

using varifocal::kernels::cuda::fake::Answer;
using varifocal::kernels::cuda::fake::AnswerOn;
using varifocal::kernels::cuda::fake::Machine;

extern "C" {

cudaError_t cudaGetLastError() {
  const int code = Machine().last_error;
  Machine().last_error = Machine().fault;
  return static_cast<cudaError_t>(code);
}
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorFake"; }
const char* cudaGetErrorString(cudaError_t) { return "fake error"; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return Answer("cudaGetDeviceCount");
}
cudaError_t cudaSetDevice(int) { return Answer("cudaSetDevice"); }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return Answer("cudaGetDevice");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "fake");
  properties->major = 8;
  properties->minor = 9;
  properties->multiProcessorCount = 4;
  properties->sharedMemPerBlockOptin = Machine().shared_bytes_max;
  return Answer("cudaGetDeviceProperties");
}
cudaError_t cudaDeviceSynchronize() { return Answer("cudaDeviceSynchronize"); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return AnswerOn(stream, "cudaStreamSynchronize"); }
cudaError_t cudaStreamQuery(cudaStream_t) { return Answer("cudaStreamQuery"); }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(&Machine());
  return Answer("cudaEventCreate");
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return Answer("cudaEventDestroy"); }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t stream) { return AnswerOn(stream, "cudaEventRecord"); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return Answer("cudaEventSynchronize"); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return Answer("cudaEventElapsedTime");
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = 1 << 30;
  return Answer("cudaMemGetInfo");
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const cudaError_t code = Answer("cudaMalloc");
  if (code == cudaSuccess) *memory = std::malloc(bytes);
  return code;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return Answer("cudaFree");
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  const cudaError_t code = Answer("cudaMallocHost");
  if (code == cudaSuccess) *memory = std::malloc(bytes);
  return code;
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return Answer("cudaFreeHost");
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const cudaError_t code = AnswerOn(stream, "cudaMemcpyAsync");
  if (code == cudaSuccess) std::memcpy(to, from, bytes);
  return code;
}
cudaError_t cudaMemcpy2DAsync(void*, size_t, const void*, size_t, size_t, size_t, cudaMemcpyKind, cudaStream_t) {
  return Answer("cudaMemcpy2DAsync");
}
cudaError_t cudaMemsetAsync(void* memory, int byte, size_t bytes, cudaStream_t) {
  std::memset(memory, byte, bytes);
  return Answer("cudaMemsetAsync");
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  const bool fits = static_cast<size_t>(value) <= Machine().shared_bytes_max;
  const cudaError_t code = Answer("cudaFuncSetAttribute", fits ? 0 : cudaErrorInvalidValue);
  if (code == cudaSuccess) Machine().shared_allowed[kernel] = value;
  return code;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  constexpr unsigned kGridMax = 65535, kThreadsMax = 1024;
  const auto allowed = Machine().shared_allowed.find(kernel);
  const size_t shared_max = allowed == Machine().shared_allowed.end() ? 48 << 10 : allowed->second;
  int wrong = 0;
  if (config->gridDim.y > kGridMax || config->gridDim.z > kGridMax || config->blockDim.x > kThreadsMax) {
    wrong = cudaErrorInvalidConfiguration;
  } else if (config->dynamicSmemBytes > shared_max) {
    wrong = cudaErrorInvalidValue;
  }
  const cudaError_t code = Answer("cudaLaunchKernelExC", wrong);
  if (code != cudaSuccess) return code;
  int argument = 0;
  std::memcpy(&argument, arguments[0], sizeof argument);
  Machine().launches.push_back({{config->gridDim.x, config->gridDim.y, config->gridDim.z},
                                config->blockDim.x,
                                config->dynamicSmemBytes,
                                argument});
  return code;
}

}  // extern "C"
