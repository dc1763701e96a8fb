// Number formats, host views and the error type of the kernels.
//
// Kernels do not depend on Abseil, so that they build on a GPU machine without it: an operation returns an Error, which
// is empty on success, and a factory returns a Result. The server converts both into absl::Status in one place.
//
// Shapes:  a HostMatrix is [rows, columns], by default row-major with the last axis contiguous; a vector has one row.
// Threads: plain values.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace varifocal::kernels {

enum class DType { kF32, kBF16, kF16 };

inline const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
  }
  return "?";
}

inline size_t DTypeBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

enum class ErrorCode {
  kNone,
  kInvalidArgument,  // a value outside its limit
  kUnsupported,      // valid, but not supported by this backend or CPU
  kOutOfMemory,
  kCancelled,  // Batch::cancelled was seen; outputs of the step are undefined
  kDevice,     // the device failed; later calls fail too
};

// One sentence with the value and the limit; empty when code is kNone.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kNone;
  std::string message;

  bool ok() const { return code == ErrorCode::kNone; }
};

// A value or an Error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit, as in StatusOr
  Result(Error error) : error_(std::move(error)) {
    VF_CHECK(!error_.ok(), "a Result without a value needs an error");
  }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Error& error() const { return error_; }
  T& value() {
    VF_CHECK(ok(), "the Result holds an error");
    return *value_;
  }
  T& operator*() { return value(); }
  T* operator->() { return &value(); }

 private:
  std::optional<T> value_;
  Error error_;
};

// Host memory as stored in a checkpoint: [rows, columns] of one format. Not owned; read during the call only.
// `data` may have any alignment (a memory-mapped file).
struct HostMatrix {
  DType dtype = DType::kF32;
  const void* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  // Elements from a row, or a column, to the next one. A matrix stored as [columns, rows] has 1 and `rows`; one whose
  // rows lie between those of another has a multiple.
  int64_t row_stride = 0;  // 0: `columns`
  int64_t column_stride = 1;

  int64_t RowStride() const { return row_stride == 0 ? columns : row_stride; }
  const char* At(int64_t row, int64_t column) const {
    return static_cast<const char*>(data) + (row * RowStride() + column * column_stride) * DTypeBytes(dtype);
  }
};

// bf16 is the upper half of an f32; f16 is IEEE binary16. Both widen exactly.
inline float WidenBF16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
float WidenF16(uint16_t bits);
// Round to nearest, ties to even; NaN stays NaN.
uint16_t RoundToBF16(float value);

// Element (row, column) widened to f32.
float At(const HostMatrix& matrix, int64_t row, int64_t column);
// One row widened to f32; `out` holds `columns` numbers.
void WidenRow(const HostMatrix& matrix, int64_t row, float* out);

}  // namespace varifocal::kernels
