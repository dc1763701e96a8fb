// Converts errors of the kernels to absl::Status.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "kernels/tensor.h"

namespace varifocal {

inline absl::Status ToStatus(const kernels::Error& error) {
  switch (error.code) {
    case kernels::ErrorCode::kNone:
      return absl::OkStatus();
    case kernels::ErrorCode::kInvalidArgument:
      return absl::InvalidArgumentError(error.message);
    case kernels::ErrorCode::kUnsupported:
      return absl::UnimplementedError(error.message);
    case kernels::ErrorCode::kOutOfMemory:
      return absl::ResourceExhaustedError(error.message);
    case kernels::ErrorCode::kCancelled:
      return absl::CancelledError(error.message);
    case kernels::ErrorCode::kDevice:
      return absl::InternalError(error.message);
  }
  return absl::InternalError(error.message);
}

template <typename T>
absl::StatusOr<T> ToStatusOr(kernels::Result<T> result) {
  if (!result.ok()) return ToStatus(result.error());
  return std::move(result.value());
}

}  // namespace varifocal
