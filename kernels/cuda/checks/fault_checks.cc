// Errors and faults, with injected return codes: no driver, no such device, out of memory at load, at admission and in
// a run, a device that fails permanently. Each returns one sentence with the right code, and the state is unchanged.

#include <cstring>

#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/emulator/emulated_runtime.h"

namespace varifocal::kernels::cuda {
namespace {

using Machine = std::shared_ptr<EmulatedMachine>;

Result<std::unique_ptr<Backend>> Open(const Machine& machine, int index = 0, DType dtype = DType::kBF16) {
  return CreateBackendOn(MakeEmulatedRuntime(machine), index, {.dtype = dtype});
}

// "" when the error has this code and its message is one line with all of these values.
std::string Expect(const Error& error, ErrorCode code, const std::vector<std::string>& values) {
  if (error.code != code) return "code " + std::to_string(static_cast<int>(error.code)) + ": " + error.message;
  for (const std::string& value : values) {
    if (error.message.find(value) == std::string::npos) return "no \"" + value + "\" in: " + error.message;
  }
  return error.message.find('\n') == std::string::npos ? "" : "more than one line: " + error.message;
}

std::string CheckStart() {
  struct Row {
    int count, code, index;
    DType dtype;
    int capability;
    ErrorCode wanted;
    std::vector<std::string> values;
  };
  const Row rows[] = {
      {1, 35, 0, DType::kBF16, 90, ErrorCode::kUnsupported, {"CUDA error 35"}},
      {1, 100, 0, DType::kBF16, 90, ErrorCode::kUnsupported, {"no device"}},
      {0, 0, 0, DType::kBF16, 90, ErrorCode::kUnsupported, {"no device"}},
      {1, 3, 0, DType::kBF16, 90, ErrorCode::kUnsupported, {"CUDA error 3)"}},
      {1, 0, 1, DType::kBF16, 90, ErrorCode::kInvalidArgument, {"cuda:1 ", " 1,"}},
      {2, 0, 7, DType::kBF16, 90, ErrorCode::kInvalidArgument, {"cuda:7 ", " 2,"}},
      {1, 0, -1, DType::kBF16, 90, ErrorCode::kInvalidArgument, {"cuda:-1 "}},
      {1, 0, 0, DType::kF32, 90, ErrorCode::kUnsupported, {"f32"}},
      {1, 0, 0, DType::kF16, 90, ErrorCode::kUnsupported, {" f16"}},
      {1, 0, 0, DType::kBF16, 75, ErrorCode::kUnsupported, {" 7.5"}},
  };
  for (const Row& row : rows) {
    auto machine = std::make_shared<EmulatedMachine>();
    machine->device_count = row.count;
    machine->device_count_code = row.code;
    machine->capability = row.capability;
    auto backend = Open(machine, row.index, row.dtype);
    if (backend.ok()) return "a backend was made where an error with \"" + row.values[0] + "\" was due";
    RETURN_COMPLAINT(Expect(backend.error(), row.wanted, row.values));
  }
  return "";
}

std::string CheckShapes() {
  auto backend = Open(std::make_shared<EmulatedMachine>());
  for (const int dim : {8, 24, 72, 120, 160, 224, 384}) {
    const Error error = (*backend)->CheckShape({.layer_count = 1, .kv_head_count = 1, .head_dim = dim});
    RETURN_COMPLAINT(Expect(error, ErrorCode::kUnsupported, {" " + std::to_string(dim) + ",", " 16, 32"}));
  }
  for (const int dim : {64, 80, 96, 128, 192, 256, 512}) {
    if (!(*backend)->CheckShape({.layer_count = 1, .kv_head_count = 1, .head_dim = dim}).ok())
      return "head dim " + std::to_string(dim) + " is refused";
  }
  return "";
}

// A full device refuses a weight, a pool and a workspace with the free bytes in the message, and keeps working;
// released memory can be allocated again.
std::string CheckMemory() {
  auto machine = std::make_shared<EmulatedMachine>();
  machine->total_bytes = 1 << 20;
  auto backend = Open(machine);
  const size_t before = machine->used_bytes;
  const std::vector<float> data(64 * 64, 1.0f);
  {
    auto kept = MakeWeight(**backend, data, 64, 64, WeightUse::kPlain);
    const MemoryInfo info = (*backend)->memory();
    if (info.total_bytes != machine->total_bytes || info.free_bytes != machine->total_bytes - machine->used_bytes)
      return "memory() differs from the device's values";
    const std::vector<float> large(1024 * 1024, 1.0f);
    const HostMatrix matrix = MatrixOf(large, 1024, 1024);
    auto refused = (*backend)->CreateWeight({&matrix, 1}, WeightUse::kPlain);
    if (refused.ok()) return "a weight of 2 MiB fitted a device of 1 MiB";
    RETURN_COMPLAINT(Expect(
        refused.error(), ErrorCode::kOutOfMemory,
        {" 2097152 bytes", " " + std::to_string(machine->total_bytes - machine->used_bytes) + " ", " 1048576 bytes"}));
    auto pool = (*backend)->CreateKvPool({.layer_count = 4, .kv_head_count = 4, .head_dim = 64}, 64);
    if (pool.ok()) return "pages of 32 MiB fitted a device of 1 MiB";
    RETURN_COMPLAINT(Expect(pool.error(), ErrorCode::kOutOfMemory, {" 1048576 bytes"}));
    auto workspace = (*backend)->CreateWorkspace({.row_count_max = 4096, .model_dim = 1024});
    if (workspace.ok()) return "a workspace of 16 MiB fitted a device of 1 MiB";
    RETURN_COMPLAINT(Expect(workspace.error(), ErrorCode::kOutOfMemory, {" 1048576 bytes"}));
    PlainStep step(**backend, {.model_dim = 64}, 3);
    auto x = UploadOperands(**backend, std::vector<float>(3 * 64, 1.0f)), out = EmptyOperands(**backend, 3 * 64);
    const Error served =
        (*backend)->Linear(*step.workspace, {.x = {x.get(), 0}, .weight = kept.get(), .out = {out.get(), 0}});
    if (!served.ok() || DownloadOperands(**backend, *out, 1)[0] != 64.0f) return "the device no longer serves";
  }
  return machine->used_bytes == before ? ""
                                       : std::to_string(machine->used_bytes - before) + " bytes were not given back";
}

// WorkspaceBytes and KvBytesPerPageAndLayer are what a workspace and a pool take from the device.
std::string CheckAccounting() {
  auto machine = std::make_shared<EmulatedMachine>();
  auto backend = Open(machine);
  const StepShape shape{.row_count_max = 130,
                        .sequence_count_max = 3,
                        .head_row_count_max = 5,
                        .context_length_max = 3000,
                        .model_dim = 64,
                        .query_head_count = 4,
                        .kv_head_count = 2,
                        .head_dim = 16,
                        .ffn_dim = 96,
                        .vocab_size = 300};
  size_t before = machine->used_bytes;
  auto workspace = (*backend)->CreateWorkspace(shape);
  const size_t taken = machine->used_bytes - before;
  if (taken != (*backend)->WorkspaceBytes(shape) || taken != (*workspace)->bytes())
    return "a workspace takes " + std::to_string(taken) + " bytes and reports " + std::to_string((*workspace)->bytes());
  const KvShape kv{.layer_count = 3, .kv_head_count = 2, .head_dim = 80, .annotation_bytes = 8 + 37};
  before = machine->used_bytes;
  auto pool = (*backend)->CreateKvPool(kv, 7);
  const size_t pages = machine->used_bytes - before;
  if (pages != (*backend)->KvBytesPerPageAndLayer(kv) * 21 || pages != (*pool)->bytes())
    return "21 pages take " + std::to_string(pages) + " bytes and report " + std::to_string((*pool)->bytes());
  return "";
}

// A device that fails permanently during a run: this call and every later one return the error without a hang or crash.
std::string CheckSticky() {
  for (const int code : {700, 719, 214, 226, 709, 721, 810, 911, 999}) {
    auto machine = std::make_shared<EmulatedMachine>();
    auto backend = Open(machine);
    const std::vector<float> data(16 * 16, 1.0f);
    auto weight = MakeWeight(**backend, data, 16, 16, WeightUse::kPlain);
    PlainStep step(**backend, {.model_dim = 16}, 2);
    auto x = UploadOperands(**backend, std::vector<float>(32, 1.0f)), out = EmptyOperands(**backend, 32);
    const LinearArgs args{.x = {x.get(), 0}, .weight = weight.get(), .out = {out.get(), 0}};
    machine->failures["Synchronize"] = {code, 0, 1};
    std::vector<uint16_t> read(32);
    const std::vector<std::string> values = {"CUDA error " + std::to_string(code) + ")"};
    const Error first = (*backend)->Read(read.data(), {out.get(), 0}, 64);
    RETURN_COMPLAINT(Expect(first, ErrorCode::kDevice, values));
    // The device works again, but this process must keep reporting the fault.
    RETURN_COMPLAINT(Expect((*backend)->Linear(*step.workspace, args), ErrorCode::kDevice, values));
    RETURN_COMPLAINT(Expect((*backend)->Read(read.data(), {out.get(), 0}, 64), ErrorCode::kDevice, values));
    const HostMatrix matrix = MatrixOf(data, 16, 16);
    auto again = (*backend)->CreateWeight({&matrix, 1}, WeightUse::kPlain);
    if (again.ok()) return "a faulted device took a weight";
    RETURN_COMPLAINT(Expect(again.error(), ErrorCode::kDevice, values));
  }
  return "";
}

// An error that is not sticky fails only its call.
std::string CheckPassing() {
  auto machine = std::make_shared<EmulatedMachine>();
  auto backend = Open(machine);
  auto buffer = Empty(**backend, 16);
  const float value = 3;
  machine->failures["CopyToDevice"] = {1, 0, 1};
  RETURN_COMPLAINT(
      Expect((*backend)->Write({buffer.get(), 0}, &value, sizeof value), ErrorCode::kDevice, {"CUDA error 1)"}));
  if (!(*backend)->Write({buffer.get(), 0}, &value, sizeof value).ok()) return "a passing refusal stayed";
  return Download(**backend, *buffer, 1)[0] == value ? "" : "the second write did not arrive";
}

// Pinned memory is optional: without it everything works, and a note reports it.
std::string CheckNoPinnedMemory() {
  auto machine = std::make_shared<EmulatedMachine>();
  machine->pinned = false;
  auto backend = Open(machine);
  if (!backend.ok()) return backend.error().message;
  bool noted = false;
  for (const std::string& note : (*backend)->info().notes) noted = noted || note.find("pinned") != std::string::npos;
  const std::vector<float> data = UniformVector(1, 3000000);
  auto buffer = Upload(**backend, data);  // 12 MB: three pieces of staging memory
  return noted && Download(**backend, *buffer, data.size()) == data
             ? ""
             : "without pinned memory data is lost or no note was made";
}

// Weights of every source format, stacked, transposed, gated and of odd widths arrive as the host rounds them.
std::string CheckUploads() {
  auto backend = Open(std::make_shared<EmulatedMachine>());
  const int rows = 40, inner = 21;
  const std::vector<float> a = UniformVector(5, rows * inner), b = UniformVector(6, rows * inner);
  std::vector<uint16_t> halves(a.size());
  for (size_t i = 0; i < a.size(); ++i) halves[i] = RoundToBF16(a[i]);
  std::vector<float> turned(b.size());
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < inner; ++c) turned[c * rows + r] = b[r * inner + c];
  }
  const HostMatrix parts[] = {{DType::kBF16, halves.data(), rows, inner},
                              {DType::kF32, turned.data(), rows, inner, 1, rows}};
  auto weight = Take((*backend)->CreateWeight(parts, WeightUse::kPlain));
  // One row of the identity picks a column of the weight.
  for (const int column : {0, 7, 20}) {
    std::vector<float> x(inner);
    x[column] = 1;
    PlainStep step(**backend, {.model_dim = inner}, 1);
    auto in = UploadOperands(**backend, x), out = EmptyOperands(**backend, 2 * rows);
    if (!(*backend)
             ->Linear(*step.workspace, {.x = {in.get(), 0}, .weight = weight.get(), .out = {out.get(), 0}})
             .ok()) {
      return "a valid product failed";
    }
    const std::vector<float> got = DownloadOperands(**backend, *out, 2 * rows);
    for (int r = 0; r < 2 * rows; ++r) {
      const float source = r < rows ? a[r * inner + column] : b[(r - rows) * inner + column];
      if (got[r] != WidenBF16(RoundToBF16(source)))
        return "row " + std::to_string(r) + " of a weight is another number";
    }
  }
  return "";
}

// Attention that does not fit the shared memory of a device is refused before a step, by name; head dim 128 decodes with
// fewer stages on small devices.
std::string CheckSharedLimits() {
  auto machine = std::make_shared<EmulatedMachine>();
  machine->capability = 89;
  machine->limits.shared_bytes_max = kSmallSharedBytes;
  auto backend = Open(machine);
  if (!backend.ok()) return backend.error().message;
  for (const int dim : kHeadDims) {
    const Error error = (*backend)->CheckShape({.layer_count = 1, .kv_head_count = 1, .head_dim = dim});
    if (dim <= 128 && !error.ok()) return "head dim " + std::to_string(dim) + " is refused: " + error.message;
    if (dim <= 128) continue;
    const std::string needed = dim == 256 ? " 166" : " bytes";
    RETURN_COMPLAINT(Expect(error, ErrorCode::kUnsupported, {" " + std::to_string(dim) + " ", needed}));
  }
  machine = std::make_shared<EmulatedMachine>();
  machine->limits.shared_bytes_max = kSmallSharedBytes - (2 << 10);
  auto smaller = Open(machine);
  return (*smaller)->CheckShape({.layer_count = 1, .kv_head_count = 1, .head_dim = 128}).ok()
             ? "head dim 128 is accepted where prefill does not fit"
             : "";
}

// A launch beyond the limits of the emulated device fails with CUDA's code and does not run.
std::string CheckLaunchLimits() {
  const emulator::Limits limits{.shared_bytes_max = 4096, .grid_yz_max = 3, .thread_count_max = 64};
  const struct {
    LaunchShape launch;
    int wanted;
  } rows[] = {{{{9, 3, 3}, 64, 4096}, 0}, {{{1, 1, 1}, 64, 4097}, 1}, {{{1, 4, 1}, 64, 0}, 9},
              {{{1, 1, 4}, 64, 0}, 9},    {{{1, 1, 1}, 96, 0}, 9},    {{{0, 4, 1}, 64, 0}, 0}};
  for (const auto& row : rows) {
    int threads = 0;
    const int code = emulator::Start(&limits, row.launch, [&] { ++threads; });
    const auto [x, y, z] = row.launch.grid;
    if (code != row.wanted) return "code " + std::to_string(code) + ", not " + std::to_string(row.wanted);
    if (threads != (code == 0 ? x * y * z * row.launch.thread_count : 0)) return "a refused launch ran";
  }
  return "";
}

}  // namespace

std::vector<NamedCheck> FaultChecks() {
  return {{"fault_start", CheckStart},
          {"fault_head_dims", CheckShapes},
          {"fault_memory", CheckMemory},
          {"fault_accounting", CheckAccounting},
          {"fault_sticky", CheckSticky},
          {"fault_passing", CheckPassing},
          {"fault_no_pinned_memory", CheckNoPinnedMemory},
          {"fault_uploads", CheckUploads},
          {"fault_shared_limits", CheckSharedLimits},
          {"fault_launch_limits", CheckLaunchLimits}};
}

}  // namespace varifocal::kernels::cuda
