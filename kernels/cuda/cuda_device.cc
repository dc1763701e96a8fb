// The backend on a real device, by name: cuda:0, cuda:1, ..

#include <charconv>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_error.h"

namespace varifocal::kernels {

Result<std::unique_ptr<Backend>> CreateCudaBackend(const BackendOptions& options) {
  int index = 0;
  if (const size_t colon = options.device.find(':'); colon != std::string::npos) {
    const char* begin = options.device.data() + colon + 1;
    const char* end = options.device.data() + options.device.size();
    const auto parsed = std::from_chars(begin, end, index);
    if (parsed.ec != std::errc() || parsed.ptr != end || index < 0) {
      return Error{ErrorCode::kInvalidArgument,
                   "device \"" + options.device + "\" does not name a device; write cuda:0, cuda:1, .."};
    }
  }
  return cuda::CreateBackendOn(cuda::MakeDeviceRuntime(), index, options);
}

Error CudaDeviceMissing() { return cuda::CheckDevice(*cuda::MakeDeviceRuntime(), 0); }

}  // namespace varifocal::kernels
