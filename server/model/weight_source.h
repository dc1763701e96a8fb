// A named, typed view of a checkpoint's weights, independent of the file format.
//
// The table in weight_formats.cc lists the formats, tried in order on a directory; safetensors is its first row.
//
// Bytes of a tensor may be accessed only between WeightSource::Load and Release of it.
//
// Shapes:  as stored, row-major, last axis contiguous; data may be unaligned.
// Errors:  INVALID_ARGUMENT naming the file, the tensor, the value and the limit; NOT_FOUND when no format is present.
// Threads: immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "kernels/tensor.h"
#include "server/model/weight_file.h"

namespace varifocal {

struct TensorView {
  std::string name;
  kernels::DType type = kernels::DType::kF32;
  std::string other_type;  // name of an unsupported type: such a tensor may be present, but not used
  std::vector<int64_t> shape;
  absl::string_view bytes;  // inside its file

  int64_t element_count() const;  // supported types only
};

std::string ShapeToString(absl::Span<const int64_t> shape);  // "[2048, 64]"

// The tensor for the kernels: a vector is one row, a matrix [rows, columns], a stack of matrices [all their rows, columns].
kernels::HostMatrix ToHostMatrix(const TensorView& tensor);
// Index of the first element that is NaN or infinite, or -1.
int64_t FirstNotFinite(const TensorView& tensor);

class WeightSource {
 public:
  WeightSource(std::map<std::string, TensorView, std::less<>> tensors, std::vector<std::unique_ptr<WeightFile>> files)
      : tensors_(std::move(tensors)), files_(std::move(files)) {}

  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  const std::vector<std::unique_ptr<WeightFile>>& files() const { return files_; }  // in file name order
  // Reads the tensor's bytes; no-op for one that is in none of the files.
  absl::Status Load(const TensorView& tensor) const;
  // Releases the memory pages that contain only this tensor.
  void Release(const TensorView& tensor) const;
  // DATA_LOSS when a file has changed since it was opened.
  absl::Status CheckUnchanged() const;

 private:
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::vector<std::unique_ptr<WeightFile>> files_;
};

absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& directory);

using TensorDigests = std::map<std::string, Sha256Digest, std::less<>>;  // SHA-256 of every tensor's bytes
struct WeightDigests {
  std::string whole;  // hexadecimal: SHA-256 of one file's bytes; of several, of their digests in file name order
  TensorDigests tensors;
};
// In one pass over each file. Cached in `cache_directory` (empty: none) by path, device, inode, size, mtime and ctime; a
// failing cache only costs time. A file that changed less than two seconds ago is not cached: its next change could
// leave both times equal. Digests of tensors are verified against the bytes in use when weights are packed, so that a
// stale entry is detected.
absl::StatusOr<WeightDigests> HashWeights(const WeightSource& source, const std::string& cache_directory,
                                          const Clock& clock = Clock::Real());
// Removes the cache entries of the files.
void ForgetHashes(const WeightSource& source, const std::string& cache_directory);
// $XDG_CACHE_HOME/varifocal, else ~/.cache/varifocal, else "".
std::string DefaultCacheDirectory();

}  // namespace varifocal
