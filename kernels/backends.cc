// The table of backends. A new device is a row here and a directory next to this file.

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#if defined(VARIFOCAL_HAS_CUDA)
#include "kernels/cuda/cuda_backend.h"
#endif
#include "kernels/reference/reference_backend.h"

namespace varifocal::kernels {
namespace {

struct BackendRow {
  const char* name;
  const char* device;  // what the user writes before an optional ":N"
  Result<std::unique_ptr<Backend>> (*create)(const BackendOptions&);
};

// The first row is what "auto" means on a host without a device.
const BackendRow kBackends[] = {
    {"cpu", "cpu", CreateCpuBackend},
    {"reference", "reference", CreateReferenceBackend},
#if defined(VARIFOCAL_HAS_CUDA)
    {"cuda", "cuda", CreateCudaBackend},
#endif
};

// Why "auto" does not mean cuda:0, in words, or "" when it does. Asked once: a driver does not come and go.
const std::string& CudaMissing() {
#if defined(VARIFOCAL_HAS_CUDA)
  static const std::string missing = CudaDeviceMissing().message;
#else
  static const std::string missing = "this build has no CUDA backend";
#endif
  return missing;
}

}  // namespace

std::string ChosenDevice(const BackendOptions& options) {
  if (options.device != "auto") return options.device;
  // f32 is the CPU's: asking for it is choosing.
  return CudaMissing().empty() && options.dtype == DType::kBF16 ? "cuda:0" : kBackends[0].device;
}

Result<std::unique_ptr<Backend>> CreateBackend(const BackendOptions& options) {
  if (options.device == "auto") {
    BackendOptions chosen = options;
    chosen.device = ChosenDevice(options);
#if defined(VARIFOCAL_HAS_CUDA)
    if (!CudaMissing().empty()) chosen.notes.push_back(CudaMissing() + "; computing on the CPU");
#endif
    return CreateBackend(chosen);
  }
  const std::string& device = options.device;
  const std::string kind = device.substr(0, device.find(':'));
  std::string known;
  for (const BackendRow& row : kBackends) {
    if (kind == row.device) return row.create(options);
    known += known.empty() ? row.name : std::string(", ") + row.name;
  }
  return Error{ErrorCode::kUnsupported, "this build has no device \"" + options.device + "\", only auto, " + known};
}

DType DefaultDType(const std::string& device) {
  const bool cuda = device.rfind("cuda", 0) == 0 || (device == "auto" && CudaMissing().empty());
  return cuda ? DType::kBF16 : DType::kF32;
}

}  // namespace varifocal::kernels
