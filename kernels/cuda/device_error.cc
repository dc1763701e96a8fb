#include "kernels/cuda/device_error.h"

namespace varifocal::kernels::cuda {

bool IsSticky(int code) {
  switch (code) {
    case 46:   // devices unavailable
    case 214:  // uncorrectable ECC error
    case 220:  // link between devices lost
    case 226:  // contained memory error
    case 700:  // illegal address
    case 702:  // a kernel ran into the watchdog
    case 709:  // the context was destroyed
    case 710:  // device-side assertion
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // a kernel failed
    case 721:  // tensor memory was not released
    case 810:  // the server of the device ended this client
    case 911:  // an external device failed
    case 999:  // unknown
      return true;
    default:
      return false;
  }
}

Error ToError(Runtime& runtime, int code, const std::string& doing) {
  if (code == kCudaOutOfMemory) {
    size_t free_bytes = 0, total_bytes = 0;
    const bool known = runtime.Memory(&free_bytes, &total_bytes) == 0;
    return {ErrorCode::kOutOfMemory, "the device is out of memory while " + doing +
                                         (known ? "; " + std::to_string(free_bytes) + " of its " +
                                                      std::to_string(total_bytes) + " bytes are free"
                                                : "")};
  }
  const std::string text = runtime.ErrorText(code) + (code < 0 ? "" : " (CUDA error " + std::to_string(code) + ")");
  if (IsSticky(code)) {
    return {ErrorCode::kDevice,
            "the device failed while " + doing + ": " + text + "; this process cannot use it any more"};
  }
  return {ErrorCode::kDevice, "the device refused while " + doing + ": " + text};
}

Error CheckDevice(Runtime& runtime, int device) {
  // A failed call does not set the count.
  int count = 0;
  const int code = runtime.DeviceCount(&count);
  if (code == kCudaOldDriver) {
    return {ErrorCode::kUnsupported, "no CUDA driver, or one older than this build's toolkit (CUDA error 35)"};
  }
  if (code == kCudaNoDevice || (code == 0 && count == 0)) {
    return {ErrorCode::kUnsupported, "the CUDA driver sees no device"};
  }
  if (code != 0) {
    return {ErrorCode::kUnsupported,
            "the CUDA driver did not start: " + runtime.ErrorText(code) + " (CUDA error " + std::to_string(code) + ")"};
  }
  if (device < 0 || device >= count) {
    return {ErrorCode::kInvalidArgument, "device cuda:" + std::to_string(device) +
                                             " is asked for and this machine has " + std::to_string(count) +
                                             (count == 1 ? ", cuda:0" : ", from cuda:0")};
  }
  return {};
}

}  // namespace varifocal::kernels::cuda
