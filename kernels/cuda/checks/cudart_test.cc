// cudart_runtime.cc, device_launch.cc and cublaslt_products.cc on a fake CUDA runtime and a fake cuBLASLt: a failed call
// is reported once, by itself; launches respect the device's limits; plans keep a row's bits; a failed product names its
// status, and a fault of the device behind it.

#include <cuda.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "kernels/cuda/cublaslt_products.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/device_launch.h"
#include "kernels/cuda/emulator/fake_cublaslt.h"
#include "kernels/cuda/emulator/fake_cudart.h"
#include "kernels/cuda/product_plans.h"
#include "kernels/cuda/step_graphs.h"

namespace varifocal::kernels::cuda {

namespace device {
const KernelTable& Table() {
  static const KernelTable table{};
  return table;
}
}  // namespace device

namespace {

constexpr int kInvalidValue = 1, kInvalidConfiguration = 9, kIllegalAddress = 700;

void Kernel() {}
void OtherKernel() {}
template <int>
void FreshKernel() {}

class Cudart : public testing::Test {
 protected:
  void SetUp() override {
    setenv("VARIFOCAL_CUBLASLT", VARIFOCAL_FAKE_CUBLASLT, 1);
    fake::Reset();
    runtime_ = MakeDeviceRuntime();
    ASSERT_EQ(runtime_->Open(0, &properties_), 0);
  }
  void TearDown() override {
    fake::Reset();
    runtime_.reset();
  }
  int Launch(const LaunchShape& shape, void (*kernel)() = &Kernel) {
    return LaunchTo(runtime_->stream(), shape, 7, kernel);
  }
  int LaunchTo(LaunchStream stream, const LaunchShape& shape, int argument, void (*kernel)() = &Kernel) {
    return LaunchOnDevice({reinterpret_cast<const void*>(kernel), shape, &argument, sizeof argument}, stream);
  }
  // A step of three launches, the middle one with this grid and argument, as a graph.
  int Step(StepGraphs& graphs, int grid, int argument, int row_count = 1, void (*last)() = &Kernel) {
    LaunchStream stream = runtime_->stream();
    LaunchList list;
    stream.list = &list;
    EXPECT_EQ(LaunchTo(stream, {{2, 1, 1}, 32, 0}, 1), 0);
    EXPECT_EQ(LaunchTo(stream, {{grid, 1, 1}, 64, 64 << 10}, argument), 0);
    EXPECT_EQ(LaunchTo(stream, {{0, 1, 1}, 32, 0}, 9), 0);  // not launched
    EXPECT_EQ(LaunchTo(stream, {{5, 1, 1}, 32, 0}, 3, last), 0);
    fake::Machine().launches.clear();
    const int code = graphs.Queue(*runtime_, row_count, list);
    EXPECT_EQ(list.size(), 0u);
    return code;
  }
  static std::vector<std::pair<unsigned, int>> GridsAndArguments() {
    std::vector<std::pair<unsigned, int>> launches;
    for (const fake::Launched& launch : fake::Machine().launches) launches.push_back({launch.grid[0], launch.argument});
    return launches;
  }

  DeviceProperties properties_;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(Cudart, LaunchesWithItsShapeAndParameters) {
  EXPECT_EQ(Launch({{3, 2, 1}, 128, 64 << 10}), 0);
  EXPECT_EQ(Launch({{0, 2, 1}, 128, 0}), 0);  // no blocks: not launched
  ASSERT_EQ(fake::Machine().launches.size(), 1u);
  const fake::Launched& launched = fake::Machine().launches[0];
  EXPECT_THAT(launched.grid, testing::ElementsAre(3, 2, 1));
  EXPECT_EQ(launched.threads, 128u);
  EXPECT_EQ(launched.shared_bytes, size_t{64} << 10);
  EXPECT_EQ(launched.argument, 7);
}

// Each call of the runtime fails in turn: that call returns the code, and the launch after it does not.
TEST_F(Cudart, FailureIsReportedOnce) {
  char from[16] = {}, to[16] = {};
  size_t bytes = 0;
  double seconds = 0;
  void* memory = nullptr;
  const std::map<std::string, std::function<int()>> calls = {
      {"cudaGetDeviceCount",
       [&] {
         int count;
         return runtime_->DeviceCount(&count);
       }},
      {"cudaMemGetInfo", [&] { return runtime_->Memory(&bytes, &bytes); }},
      {"cudaMalloc", [&] { return runtime_->Allocate(&memory, 16); }},
      {"cudaMallocHost", [&] { return runtime_->AllocatePinned(&memory, 16); }},
      {"cudaMemcpyAsync", [&] { return runtime_->CopyToDevice(to, from, 16); }},
      {"cudaMemcpy2DAsync", [&] { return runtime_->CopyOnDevice(to, from, 8, 8, 2); }},
      {"cudaMemsetAsync", [&] { return runtime_->Fill(to, 0, 16); }},
      {"cudaEventRecord", [&] { return runtime_->Mark(0); }},
      {"cudaEventSynchronize", [&] { return runtime_->WaitMark(0); }},
      {"cudaEventElapsedTime", [&] { return runtime_->SecondsBetweenStamps(&seconds); }},
      {"cudaStreamSynchronize", [&] { return runtime_->Synchronize(); }},
      {"cudaFuncSetAttribute",
       [&] {
         return Launch({{1, 1, 1}, 32, 64 << 10}, &FreshKernel<0>);
       }},
      {"cudaLaunchKernelExC",
       [&] {
         return Launch({{1, 1, 1}, 32, 0});
       }},
  };
  for (const auto& [name, call] : calls) {
    fake::Machine().failures[name] = kInvalidValue;
    EXPECT_EQ(call(), kInvalidValue) << name;
    EXPECT_TRUE(fake::Machine().failures.empty()) << name << " was not called";
    EXPECT_EQ(Launch({{1, 1, 1}, 32, 0}), 0) << "after " << name;
    EXPECT_EQ(fake::Machine().last_error, 0) << name;
  }
}

// The driver's function gets the matrix; without it, or refused, a code is returned.
TEST_F(Cudart, TensorMapsAreTheDrivers) {
  static TensorMapSpec got;
  static int answer;
  answer = 0;
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                              const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  const Encode encode = [](CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                           const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    EXPECT_EQ(type, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    EXPECT_EQ(swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
    EXPECT_EQ(rank, 2u);
    EXPECT_EQ(interleave, CU_TENSOR_MAP_INTERLEAVE_NONE);
    EXPECT_EQ(fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) << "zeros outside";
    EXPECT_EQ(box[0], 64u);
    EXPECT_EQ(steps[0] + steps[1], 2u);
    got = {data, static_cast<int64_t>(sizes[1]), static_cast<int64_t>(sizes[0]), static_cast<int64_t>(strides[0]),
           static_cast<int>(box[1])};
    map->opaque[0] = 42;
    return static_cast<CUresult>(answer);
  };
  alignas(16) char data[16];
  const TensorMapSpec spec{.data = data, .rows = 7, .columns = 8, .row_bytes = 32, .box_rows = 128};
  TensorMap map;
  EXPECT_NE(runtime_->EncodeTensorMap(spec, &map), 0) << "a driver without the function";
  fake::Machine().driver_functions["cuTensorMapEncodeTiled"] = reinterpret_cast<void*>(encode);
  EXPECT_EQ(runtime_->EncodeTensorMap(spec, &map), 0);
  EXPECT_EQ(map.words[0], 42u);
  EXPECT_EQ(std::tie(got.data, got.rows, got.columns, got.row_bytes, got.box_rows),
            std::tie(spec.data, spec.rows, spec.columns, spec.row_bytes, spec.box_rows));
  answer = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(runtime_->EncodeTensorMap(spec, &map), kInvalidValue);
  fake::Machine().failures["cudaGetDriverEntryPointByVersion"] = kInvalidValue;
  EXPECT_EQ(runtime_->EncodeTensorMap(spec, &map), kInvalidValue);
  EXPECT_EQ(Launch({{1, 1, 1}, 32, 0}), 0);
}

// Calls whose code is not returned, cudaFree among them, must not leave it either.
TEST_F(Cudart, IgnoredFailuresAreCleared) {
  for (const char* name : {"cudaFree", "cudaFreeHost", "cudaSetDevice"}) {
    void* memory = std::malloc(16);
    fake::Machine().failures[name] = kInvalidValue;
    if (std::string(name) == "cudaFreeHost") {
      runtime_->FreePinned(memory);
    } else {
      runtime_->Free(memory);
    }
    EXPECT_EQ(fake::Machine().last_error, 0) << name;
    EXPECT_EQ(Launch({{1, 1, 1}, 32, 0}), 0) << name;
  }
}

TEST_F(Cudart, LimitsOfALaunch) {
  EXPECT_EQ(Launch({{1, 1, 1}, 32, 99 << 10}, &FreshKernel<1>), 0);
  EXPECT_EQ(Launch({{1 << 20, 65535, 65535}, 1024, 0}), 0);
  EXPECT_EQ(Launch({{1, 65536, 1}, 32, 0}), kInvalidConfiguration);
  EXPECT_EQ(Launch({{1, 1, 65536}, 32, 0}), kInvalidConfiguration);
  EXPECT_EQ(Launch({{1, 1, 1}, 1056, 0}), kInvalidConfiguration);
  EXPECT_EQ(Launch({{1, 1, 1}, 32, (99 << 10) + 1}, &FreshKernel<1>), kInvalidValue);
  EXPECT_EQ(Launch({{1, 1, 1}, 32, 0}), 0);
}

// Kernels of one type, as instances of a template are, launched from one place; a larger launch of a kernel asks again.
TEST_F(Cudart, SharedMemoryIsRequestedForEachKernel) {
  for (void (*kernel)() : {&FreshKernel<2>, &FreshKernel<3>}) {
    EXPECT_EQ(Launch({{1, 1, 1}, 32, 64 << 10}, kernel), 0);
    EXPECT_EQ(Launch({{1, 1, 1}, 32, 98 << 10}, kernel), 0);
    fake::Machine().failures = {{"cudaFuncSetAttribute", kInvalidValue}};
    EXPECT_EQ(Launch({{1, 1, 1}, 32, 64 << 10}, kernel), 0);
    EXPECT_EQ(fake::Machine().failures.size(), 1u) << "requested again";
    fake::Machine().failures.clear();
  }
}

// Whether a kernel waits for the previous launch depends on what it was compiled for, not on the device.
TEST_F(Cudart, KernelsOverlapWhereTheirCodeWaits) {
  for (const auto& [version, first, second] :
       {std::tuple{90, &FreshKernel<4>, &FreshKernel<5>}, {80, &FreshKernel<6>, &FreshKernel<7>}}) {
    fake::Machine().ptx_version = version;
    fake::Machine().launches.clear();
    fake::Machine().failures = {{"cudaFuncGetAttributes", kInvalidValue}};
    EXPECT_EQ(Launch({{1, 1, 1}, 32, 0}, first), kInvalidValue);
    EXPECT_EQ(Launch({{1, 1, 1}, 32, 0}, first), 0);
    StepGraphs graphs;
    LaunchStream stream = runtime_->stream();
    LaunchList list;
    stream.list = &list;
    for (void (*kernel)() : {first, second}) ASSERT_EQ(LaunchTo(stream, {{1, 1, 1}, 32, 0}, 1, kernel), 0);
    ASSERT_EQ(graphs.Queue(*runtime_, 1, list), 0);
    std::vector<bool> overlaps;
    for (const fake::Launched& launch : fake::Machine().launches) overlaps.push_back(launch.overlaps);
    // One by one; the first of the graph, which has no kernel before it; the second.
    EXPECT_THAT(overlaps, testing::ElementsAre(version == 90, false, version == 90)) << version;
  }
}

TEST_F(Cudart, GraphsAreMadeOnceAndUpdated) {
  using testing::ElementsAre;
  using testing::Pair;
  std::map<std::string, int>& failures = fake::Machine().failures;  // an unused failure: it was not called
  {
    StepGraphs graphs;
    ASSERT_EQ(Step(graphs, 3, 7), 0);
    EXPECT_THAT(GridsAndArguments(), ElementsAre(Pair(2, 1), Pair(3, 7), Pair(5, 3)));
    EXPECT_EQ(fake::Machine().launches[1].shared_bytes, size_t{64} << 10);
    EXPECT_EQ(fake::Machine().launches[1].threads, 64u);
    EXPECT_EQ(fake::Machine().graphs, 2) << "a graph and its executable one";
    // The same again: neither made nor changed.
    failures = {{"cudaGraphCreate", 1}, {"cudaGraphExecKernelNodeSetParams", 1}};
    ASSERT_EQ(Step(graphs, 3, 7), 0);
    EXPECT_EQ(failures.size(), 2u);
    failures.erase("cudaGraphExecKernelNodeSetParams");
    ASSERT_EQ(Step(graphs, 4, 8), 0);
    EXPECT_THAT(GridsAndArguments(), ElementsAre(Pair(2, 1), Pair(4, 8), Pair(5, 3)));
    EXPECT_EQ(failures.size(), 1u);
    failures.clear();
    // Another number of rows, another kernel: graphs of their own, and the first one is still there.
    ASSERT_EQ(Step(graphs, 6, 9, 2), 0);
    ASSERT_EQ(Step(graphs, 7, 9, 1, &OtherKernel), 0);
    EXPECT_THAT(GridsAndArguments(), ElementsAre(Pair(2, 1), Pair(7, 9), Pair(5, 3)));
    EXPECT_EQ(fake::Machine().graphs, 6);
    failures = {{"cudaGraphCreate", 1}};
    ASSERT_EQ(Step(graphs, 4, 8), 0);
    EXPECT_THAT(GridsAndArguments(), ElementsAre(Pair(2, 1), Pair(4, 8), Pair(5, 3)));
    failures.clear();
    for (int rows = 3; rows < 200; ++rows) ASSERT_EQ(Step(graphs, 4, 8, rows), 0);
    EXPECT_EQ(fake::Machine().graphs, 2 * static_cast<int>(kGraphsMax));
  }
  EXPECT_EQ(fake::Machine().graphs, 0);
}

// A step fails with the code of the call that failed; nothing is launched, and the next step makes a new graph.
TEST_F(Cudart, FailedGraphsAreMadeAgain) {
  StepGraphs graphs;
  for (const char* call : {"cudaGraphCreate", "cudaGraphAddKernelNode", "cudaGraphAddDependencies",
                           "cudaGraphInstantiate", "cudaGraphLaunch", "cudaGraphExecKernelNodeSetParams"}) {
    if (std::string(call) == "cudaGraphExecKernelNodeSetParams") {
      ASSERT_EQ(Step(graphs, 3, 1), 0);
    }
    fake::Machine().failures[call] = kInvalidValue;
    EXPECT_EQ(Step(graphs, 3, 2), kInvalidValue) << call;
    EXPECT_TRUE(fake::Machine().failures.empty()) << call << " was not called";
    EXPECT_EQ(fake::Machine().launches.size(), 0u) << call;
    EXPECT_EQ(fake::Machine().graphs, 0) << call;
    EXPECT_EQ(fake::Machine().last_error, 0) << call;
  }
  ASSERT_EQ(Step(graphs, 3, 4), 0);
  EXPECT_EQ(GridsAndArguments()[1], std::make_pair(3u, 4));
  // Without memory for a graph: the same launches one by one.
  fake::Machine().failures["cudaGraphInstantiate"] = kCudaOutOfMemory;
  ASSERT_EQ(Step(graphs, 6, 5, 2), 0);
  EXPECT_EQ(GridsAndArguments()[1], std::make_pair(6u, 5));
  EXPECT_EQ(fake::Machine().launches[1].shared_bytes, size_t{64} << 10);
  EXPECT_EQ(fake::Machine().launches.size(), 3u);
  EXPECT_EQ(fake::Machine().graphs, 2);
}

TEST_F(Cudart, FaultOfTheDeviceStays) {
  fake::Machine().fault = kIllegalAddress;
  EXPECT_EQ(Launch({{1, 1, 1}, 32, 0}), kIllegalAddress);
  EXPECT_EQ(runtime_->Synchronize(), kIllegalAddress);
  EXPECT_TRUE(IsSticky(kIllegalAddress));
}

class FakeLibrary {
 public:
  FakeLibrary() : handle_(dlopen(VARIFOCAL_FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL)) {
    state_ = reinterpret_cast<fake::CublasLt* (*)()>(dlsym(handle_, "FakeCublasLt"))();
    *state_ = {};
  }
  ~FakeLibrary() {
    *state_ = {};
    dlclose(handle_);
  }
  fake::CublasLt* operator->() { return state_; }

 private:
  void* handle_;
  fake::CublasLt* state_;
};

// Two devices driven by turns from one thread, as by a caller that asks one engine about its memory while it runs another's step:
// every call, launch, graph and product is on its runtime's own device. The fake refuses what belongs to another one.
TEST_F(Cudart, EachRuntimeUsesItsOwnDevice) {
  FakeLibrary library;
  library->current_device = &fake::CurrentDevice;
  fake::Machine().device_count = 2;
  const ProductPlan shape{.outputs = 64, .inner = 32, .weight_stride = 32};
  struct OnDevice {
    std::unique_ptr<Runtime> runtime = MakeDeviceRuntime();
    DeviceProperties properties;
    void* memory = nullptr;
    std::unique_ptr<LaunchGraph> graph;
    int plan = -1;
  };
  std::vector<OnDevice> devices(2);
  int argument = 7;
  const KeptLaunch launch{
      reinterpret_cast<const void*>(&Kernel), {{1, 1, 1}, 32, 64 << 10}, &argument, sizeof argument};
  LaunchList list;
  list.Add(launch);
  const std::vector<std::function<int(OnDevice&)>> calls = {
      [&](OnDevice& on) { return on.runtime->Open(&on == &devices[0] ? 0 : 1, &on.properties); },
      [&](OnDevice& on) { return on.runtime->Allocate(&on.memory, 16); },
      [&](OnDevice& on) { return on.runtime->CopyToDevice(on.memory, &argument, 4); },
      [&](OnDevice& on) { return on.runtime->CopyToHost(&argument, on.memory, 4); },
      [&](OnDevice& on) { return on.runtime->CopyOnDevice(on.memory, on.memory, 8, 8, 1); },
      [&](OnDevice& on) { return on.runtime->Fill(on.memory, 0, 16); },
      [&](OnDevice& on) { return on.runtime->Mark(3); },
      [&](OnDevice& on) { return on.runtime->FollowMark(3); },
      [&](OnDevice& on) { return on.runtime->Stamp(1); },
      [&](OnDevice& on) { return on.runtime->UseStream(2); },
      [&](OnDevice& on) { return on.runtime->Launch(launch); },
      [&](OnDevice& on) { return on.runtime->UseStream(kOwnStream); },
      [&](OnDevice& on) { return on.runtime->Launch(launch); },
      [&](OnDevice& on) { return on.runtime->MakeGraph(list, &on.graph); },
      [&](OnDevice& on) { return on.graph->Queue(on.runtime->stream()); },
      [&](OnDevice& on) { return on.graph->Replace(0, launch); },
      [&](OnDevice& on) {
        on.plan = on.runtime->products()->MakePlan(shape);
        return on.plan >= 0 ? 0 : 1;
      },
      [&](OnDevice& on) { return on.runtime->products()->Multiply(on.plan, 5, on.memory, on.memory, 1, 0, on.memory); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    for (size_t index : {0, 1}) {
      fake::Machine().launches.clear();
      EXPECT_EQ(calls[i](devices[index]), 0) << "call " << i << " of device " << index;
      EXPECT_EQ(fake::CurrentDevice(), static_cast<int>(index)) << "call " << i;
      for (const fake::Launched& launched : fake::Machine().launches)
        EXPECT_EQ(launched.device, static_cast<int>(index));
    }
  }
  DeviceProperties properties;
  EXPECT_EQ(MakeDeviceRuntime()->Open(2, &properties), 101) << "invalid device";
  for (OnDevice& on : devices) on.runtime->Free(on.memory);
}

// The fake's first suggestion splits K, the second takes scratch memory.
TEST_F(Cudart, PlanKeepsBits) {
  ProductLibrary* library = runtime_->products();
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(library->name(), "cublasLt130100");
  const int plan = library->MakePlan({.outputs = 64, .inner = 32, .weight_stride = 32});
  ASSERT_GE(plan, 0);
  EXPECT_EQ(library->PlanText(plan),
            "64x32 f32: algorithm 13, tile 20, stages 3, swizzle 1, option 0, inner 2, cluster 5");
  FakeLibrary fake;
  EXPECT_EQ(library->Multiply(plan, 5, nullptr, nullptr, 1, 0, nullptr), 0);
  EXPECT_EQ(fake->last_algorithm, 13);
}

TEST_F(Cudart, NoPlanWithoutAnAlgorithmThatKeepsBits) {
  FakeLibrary fake;
  fake->suggestions = 2;
  EXPECT_EQ(runtime_->products()->MakePlan({.outputs = 64, .inner = 32, .weight_stride = 32}), -1);
  EXPECT_EQ(fake->scratch_bytes, 0u);
}

// A status without a fault fails this product alone; with a fault of the device behind it, the fault is returned.
TEST_F(Cudart, FailedProductNamesItsStatusOrTheFault) {
  FakeLibrary fake;
  ProductLibrary* library = runtime_->products();
  const int plan = library->MakePlan({.outputs = 64, .inner = 32, .weight_stride = 32});
  fake->status = 13;
  const int code = library->Multiply(plan, 5, nullptr, nullptr, 1, 0, nullptr);
  EXPECT_EQ(code, -13);
  EXPECT_FALSE(IsSticky(code));
  const Error error = ToError(*runtime_, code, "starting a product");
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message, testing::HasSubstr("cuBLASLt status 13"));
  EXPECT_EQ(Launch({{1, 1, 1}, 32, 0}), 0);

  fake::Machine().failures["cudaStreamQuery"] = 600;  // not ready: no fault
  EXPECT_EQ(library->Multiply(plan, 5, nullptr, nullptr, 1, 0, nullptr), -13);

  fake::Machine().fault = kIllegalAddress;
  EXPECT_EQ(library->Multiply(plan, 5, nullptr, nullptr, 1, 0, nullptr), kIllegalAddress);
}

TEST(ProductPlans, RowsAreFoundByDeviceLibraryAndShape) {
  const RecordedPlan rows[] = {{90, 130100, 64, 32, ProductType::kF32, {7}},
                               {90, 130100, 64, 32, ProductType::kBf16, {8}},
                               {90, 130200, 64, 32, ProductType::kF32, {9}}};
  const ProductPlan plan{.outputs = 64, .inner = 32, .type = ProductType::kF32};
  const auto first = [&](int capability, size_t version, const ProductPlan& shape) {
    const std::vector<RecordedPlan> found = PlansOf(rows, capability, version, shape);
    return found.empty() ? 0 : found[0].attributes[0];
  };
  EXPECT_EQ(first(90, 130100, plan), 7);
  EXPECT_EQ(first(90, 130200, plan), 9);
  EXPECT_EQ(first(80, 130100, plan), 0);
  EXPECT_EQ(first(90, 130100, {.outputs = 64, .inner = 40, .type = ProductType::kF32}), 0);
  // The tag differs with any recorded attribute, and between libraries.
  EXPECT_EQ(PlansTag(rows, 80, 130100), "");
  const std::string tag = PlansTag(rows, 90, 130100);
  EXPECT_EQ(tag.size(), 17u);
  EXPECT_NE(tag, PlansTag(rows, 90, 130200));
  RecordedPlan changed[] = {rows[0], rows[1]};
  EXPECT_EQ(PlansTag(changed, 90, 130100), tag);
  changed[1].rows_from = 65;
  EXPECT_EQ(PlansTag(changed, 90, 130100), tag) << "no bit depends on it";
  changed[1].attributes[3] = 1;
  EXPECT_NE(PlansTag(changed, 90, 130100), tag);
  EXPECT_EQ(RowText(changed[1]), "RecordedPlan{90, 130100, 64, 32, ProductType::kBf16, {8, 0, 0, 1, 0, 0, 0}, 65},");
}

// The step's rows choose among a shape's recorded algorithms, whatever the order of the rows.
TEST_F(Cudart, RecordedPlansServeRangesOfRows) {
  const RecordedPlan rows[] = {{90, 130100, 64, 32, ProductType::kF32, {23}, 129},
                               {90, 130100, 64, 32, ProductType::kF32, {21}},
                               {90, 130100, 64, 32, ProductType::kBf16, {24}},
                               {90, 130100, 64, 32, ProductType::kF32, {22}, 17}};
  FakeLibrary fake;
  auto library = OpenCublasLt(runtime_->stream(), 90, rows);
  ASSERT_NE(library, nullptr);
  const int plan = library->MakePlan({.outputs = 64, .inner = 32, .weight_stride = 32});
  ASSERT_GE(plan, 0);
  for (const auto& [count, algorithm] : {std::pair{1, 21}, {16, 21}, {17, 22}, {128, 22}, {129, 23}, {9000, 23}}) {
    EXPECT_EQ(library->Multiply(plan, count, nullptr, nullptr, 1, 0, nullptr), 0);
    EXPECT_EQ(fake->last_algorithm, algorithm) << count;
  }
  EXPECT_THAT(library->PlanText(plan), testing::HasSubstr("cluster 0; from 129 rows: algorithm 23, tile 0"));
  // Another shape has no row, so the library's suggestion.
  const int other = library->MakePlan({.outputs = 96, .inner = 32, .weight_stride = 32});
  ASSERT_GE(other, 0);
  EXPECT_EQ(library->Multiply(other, 1, nullptr, nullptr, 1, 0, nullptr), 0);
  EXPECT_EQ(fake->last_algorithm, 13);
}

// Each suggestion that keeps bits once, although it is suggested for several sizes of step.
TEST_F(Cudart, CandidatesKeepBits) {
  FakeLibrary fake;
  fake->suggestions = 4;
  ProductLibrary* library = runtime_->products();
  const std::vector<int> plans = library->Candidates({.outputs = 64, .inner = 32, .weight_stride = 32});
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(library->PlanRow(plans[0], 1),
            "RecordedPlan{89, 130100, 64, 32, ProductType::kF32, {13, 20, 3, 1, 0, 2, 5}, 1},");
  EXPECT_EQ(library->PlanRow(plans[1], 65),
            "RecordedPlan{89, 130100, 64, 32, ProductType::kF32, {14, 7, 0, 0, 0, 0, 0}, 65},");
  EXPECT_EQ(library->Multiply(plans[1], 5, nullptr, nullptr, 1, 0, nullptr), 0);
  EXPECT_EQ(fake->last_algorithm, 14);
}

}  // namespace
}  // namespace varifocal::kernels::cuda
