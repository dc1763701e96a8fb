#include "kernels/cuda/emulator/fake_cudart.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/mutex.h"

namespace varifocal::kernels::cuda::fake {

Cudart& Machine() {
  static Cudart machine;
  return machine;
}
thread_local int current_device = 0;
int CurrentDevice() { return current_device; }
namespace {
// Guards Ops(), and what calls change in Machine(), which tests change and read without it while nothing runs.
Mutex machine_mutex;
std::vector<Op>& Ops() VF_REQUIRES(machine_mutex) {
  static std::vector<Op> ops;
  return ops;
}
}  // namespace
size_t LogSize() {
  MutexLock lock(machine_mutex);
  return Ops().size();
}
std::vector<Op> Log() {
  MutexLock lock(machine_mutex);
  return Ops();
}
void Reset() {
  MutexLock lock(machine_mutex);
  Ops().clear();
  auto allowed = std::move(Machine().shared_allowed);
  Machine() = {};
  Machine().shared_allowed = std::move(allowed);
  current_device = 0;
}

namespace {

// The code of a call of `name`, stored in the slot when it is a failure.
cudaError_t Answer(const char* name, int code = 0) {
  Cudart& machine = Machine();
  if (machine.before != nullptr) machine.before(name);
  MutexLock lock(machine_mutex);
  if (machine.fault != 0) {
    code = machine.fault;
  } else if (const auto it = machine.failures.find(name); it != machine.failures.end()) {
    code = it->second;
    machine.failures.erase(it);
  }
  if (code != 0) machine.last_error = code;
  return static_cast<cudaError_t>(code);
}
// A stream is its number; the calling thread's own has another in each thread. 0: neither.
int NumberOf(cudaStream_t stream) {
  static std::atomic<int> count{0};
  thread_local const int own = kThreadStreams + count++;
  if (stream == cudaStreamPerThread) return own;
  const size_t number = reinterpret_cast<size_t>(stream) - reinterpret_cast<size_t>(cudaStreamPerThread);
  MutexLock lock(machine_mutex);
  return number <= Machine().priorities.size() ? static_cast<int>(number) : 0;
}
// Work is queued on the calling thread's own stream or on one that was made.
cudaError_t AnswerOn(cudaStream_t stream, const char* name) {
  const int number = NumberOf(stream);
  bool is_here = number > 0;
  if (is_here && number < kThreadStreams) {
    MutexLock lock(machine_mutex);
    is_here = Machine().stream_devices[number - 1] == current_device;
  }
  return Answer(name, is_here ? 0 : cudaErrorInvalidResourceHandle);
}
// The answer, and what succeeded in the log.
cudaError_t Logged(cudaError_t code, const Op& op) {
  MutexLock lock(machine_mutex);
  if (code == cudaSuccess) Ops().push_back(op);
  return code;
}
size_t AddEvent() {
  MutexLock lock(machine_mutex);
  Machine().event_devices.push_back(current_device);
  return Machine().event_devices.size();
}
int DeviceOf(cudaEvent_t event) {
  MutexLock lock(machine_mutex);
  return Machine().event_devices[reinterpret_cast<size_t>(event) - 1];
}
// The number of the new stream.
size_t AddStream(int priority) {
  MutexLock lock(machine_mutex);
  Machine().priorities.push_back(priority);
  Machine().stream_devices.push_back(current_device);
  return Machine().priorities.size();
}
int EventOf(cudaEvent_t event) { return static_cast<int>(reinterpret_cast<size_t>(event)); }
void AddLaunch(const Launched& launch, cudaStream_t stream) {
  const int number = NumberOf(stream);
  MutexLock lock(machine_mutex);
  Machine().launches.push_back(launch);
  Ops().push_back({.stream = number, .argument = launch.argument});
}

// The same on memory: that of the current device, or of the host.
cudaError_t AnswerOn(cudaStream_t stream, const char* name, const void* memory) {
  const auto piece = Machine().memory.find(memory);
  if (piece != Machine().memory.end() && piece->second != current_device) return Answer(name, cudaErrorInvalidValue);
  return AnswerOn(stream, name);
}

struct FakeGraph {
  int device = 0;
  std::vector<Launched> nodes;
  size_t edges = 0;
};

Launched LaunchOf(dim3 grid, dim3 block, size_t shared_bytes, void** arguments) {
  Launched launch{{grid.x, grid.y, grid.z}, block.x, shared_bytes, 0, current_device};
  std::memcpy(&launch.argument, arguments[0], sizeof launch.argument);
  return launch;
}
Launched LaunchOf(const cudaKernelNodeParams& params) {
  return LaunchOf(params.gridDim, params.blockDim, params.sharedMemBytes, params.kernelParams);
}
int LimitsOf(const void* kernel, const Launched& launch) {
  constexpr unsigned kGridMax = 65535, kThreadsMax = 1024;
  const auto allowed = Machine().shared_allowed.find({current_device, kernel});
  const size_t shared_max = allowed == Machine().shared_allowed.end() ? 48 << 10 : allowed->second;
  if (launch.grid[1] > kGridMax || launch.grid[2] > kGridMax || launch.threads > kThreadsMax) {
    return cudaErrorInvalidConfiguration;
  }
  return launch.shared_bytes > shared_max ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace
}  // namespace varifocal::kernels::cuda::fake

using varifocal::kernels::cuda::fake::AddEvent;
using varifocal::kernels::cuda::fake::AddLaunch;
using varifocal::kernels::cuda::fake::AddStream;
using varifocal::kernels::cuda::fake::Answer;
using varifocal::kernels::cuda::fake::AnswerOn;
using varifocal::kernels::cuda::fake::current_device;
using varifocal::kernels::cuda::fake::DeviceOf;
using varifocal::kernels::cuda::fake::EventOf;
using varifocal::kernels::cuda::fake::FakeGraph;
using varifocal::kernels::cuda::fake::Launched;
using varifocal::kernels::cuda::fake::LaunchOf;
using varifocal::kernels::cuda::fake::LimitsOf;
using varifocal::kernels::cuda::fake::Logged;
using varifocal::kernels::cuda::fake::Machine;
using varifocal::kernels::cuda::fake::NumberOf;
using varifocal::kernels::cuda::fake::Op;

extern "C" {

cudaError_t cudaGetLastError() {
  const int code = Machine().last_error;
  Machine().last_error = Machine().fault;
  return static_cast<cudaError_t>(code);
}
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorFake"; }
const char* cudaGetErrorString(cudaError_t) { return "fake error"; }
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = Machine().driver_functions.count(symbol) == 0 ? nullptr : Machine().driver_functions[symbol];
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return Answer("cudaGetDriverEntryPointByVersion");
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = Machine().device_count;
  return Answer("cudaGetDeviceCount");
}
cudaError_t cudaSetDevice(int device) {
  const bool exists = device >= 0 && device < Machine().device_count;
  const cudaError_t code = Answer("cudaSetDevice", exists ? 0 : cudaErrorInvalidDevice);
  if (code == cudaSuccess) current_device = device;
  return code;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
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
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Logged(AnswerOn(stream, "cudaStreamSynchronize"),
                {.kind = Op::kHostWaitForStream, .stream = NumberOf(stream)});
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return Answer("cudaDeviceGetStreamPriorityRange");
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  const cudaError_t code =
      Answer("cudaStreamCreateWithPriority", flags == cudaStreamNonBlocking ? 0 : cudaErrorInvalidValue);
  if (code != cudaSuccess) return code;
  *stream = reinterpret_cast<cudaStream_t>(reinterpret_cast<size_t>(cudaStreamPerThread) + AddStream(priority));
  return code;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return Answer("cudaStreamDestroy"); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return Logged(AnswerOn(stream, "cudaStreamWaitEvent"),
                {.kind = Op::kFollow, .stream = NumberOf(stream), .event = EventOf(event)});
}
cudaError_t cudaStreamQuery(cudaStream_t) { return Answer("cudaStreamQuery"); }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(AddEvent());
  return Answer("cudaEventCreate");
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return Answer("cudaEventDestroy"); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (DeviceOf(event) != current_device) return Answer("cudaEventRecord", cudaErrorInvalidResourceHandle);
  return Logged(AnswerOn(stream, "cudaEventRecord"),
                {.kind = Op::kRecord, .stream = NumberOf(stream), .event = EventOf(event)});
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Logged(Answer("cudaEventSynchronize"), {.kind = Op::kHostWait, .event = EventOf(event)});
}
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
  if (code != cudaSuccess) return code;
  *memory = std::malloc(bytes);
  Machine().memory[*memory] = current_device;
  return code;
}
cudaError_t cudaFree(void* memory) {
  Machine().memory.erase(memory);
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
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const cudaError_t code = AnswerOn(stream, "cudaMemcpyAsync", kind == cudaMemcpyDeviceToHost ? from : to);
  if (code == cudaSuccess) std::memcpy(to, from, bytes);
  return code;
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t, const void*, size_t, size_t, size_t, cudaMemcpyKind,
                              cudaStream_t stream) {
  return AnswerOn(stream, "cudaMemcpy2DAsync", to);
}
cudaError_t cudaMemsetAsync(void* memory, int byte, size_t bytes, cudaStream_t stream) {
  const cudaError_t code = AnswerOn(stream, "cudaMemsetAsync", memory);
  if (code == cudaSuccess) std::memset(memory, byte, bytes);
  return code;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->ptxVersion = Machine().ptx_version;
  return Answer("cudaFuncGetAttributes");
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  const bool fits = static_cast<size_t>(value) <= Machine().shared_bytes_max;
  const cudaError_t code = Answer("cudaFuncSetAttribute", fits ? 0 : cudaErrorInvalidValue);
  if (code == cudaSuccess) Machine().shared_allowed[{current_device, kernel}] = value;
  return code;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  Launched launch = LaunchOf(config->gridDim, config->blockDim, config->dynamicSmemBytes, arguments);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    launch.overlaps |= config->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                       config->attrs[i].val.programmaticStreamSerializationAllowed != 0;
  }
  const cudaError_t code = Answer("cudaLaunchKernelExC", LimitsOf(kernel, launch));
  if (code == cudaSuccess) AddLaunch(launch, config->stream);
  return code;
}
cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  const cudaError_t code = Answer("cudaGraphCreate");
  if (code != cudaSuccess) return code;
  *graph = reinterpret_cast<cudaGraph_t>(new FakeGraph);
  ++Machine().graphs;
  return code;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<FakeGraph*>(graph);
  --Machine().graphs;
  return Answer("cudaGraphDestroy");
}
// A node is its number, counted from 1; a graph is a chain, each node's edge added before the next node.
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, size_t count,
                                   const cudaKernelNodeParams* params) {
  std::vector<Launched>& nodes = reinterpret_cast<FakeGraph*>(graph)->nodes;
  const Launched launch = LaunchOf(*params);
  const int wrong = count == 0 ? LimitsOf(params->func, launch) : cudaErrorInvalidValue;
  const cudaError_t code = Answer("cudaGraphAddKernelNode", wrong);
  if (code != cudaSuccess) return code;
  nodes.push_back(launch);
  *node = reinterpret_cast<cudaGraphNode_t>(nodes.size());
  return code;
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData* edge, size_t count) {
  FakeGraph& of = *reinterpret_cast<FakeGraph*>(graph);
  const size_t before = reinterpret_cast<size_t>(*from), after = reinterpret_cast<size_t>(*to);
  const bool chained = count == 1 && before == ++of.edges && after == before + 1 && after == of.nodes.size();
  if (chained) of.nodes.back().overlaps = edge->type == cudaGraphDependencyTypeProgrammatic;
  return Answer("cudaGraphAddDependencies", chained ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const FakeGraph& of = *reinterpret_cast<FakeGraph*>(graph);
  const bool chained = of.edges + 1 == of.nodes.size();
  const cudaError_t code = Answer("cudaGraphInstantiate", chained ? cudaSuccess : cudaErrorInvalidValue);
  if (code != cudaSuccess) return code;
  auto* const made = new FakeGraph(of);
  made->device = current_device;
  *executable = reinterpret_cast<cudaGraphExec_t>(made);
  ++Machine().graphs;
  return code;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<FakeGraph*>(executable);
  --Machine().graphs;
  return Answer("cudaGraphExecDestroy");
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  const Launched launch = LaunchOf(*params);
  const cudaError_t code = Answer("cudaGraphExecKernelNodeSetParams", LimitsOf(params->func, launch));
  if (code == cudaSuccess)
    reinterpret_cast<FakeGraph*>(executable)->nodes.at(reinterpret_cast<size_t>(node) - 1) = launch;
  return code;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const bool is_here = reinterpret_cast<FakeGraph*>(executable)->device == current_device;
  const cudaError_t code =
      is_here ? AnswerOn(stream, "cudaGraphLaunch") : Answer("cudaGraphLaunch", cudaErrorInvalidResourceHandle);
  if (code != cudaSuccess) return code;
  for (const Launched& node : reinterpret_cast<FakeGraph*>(executable)->nodes) AddLaunch(node, stream);
  return code;
}

}  // extern "C"
