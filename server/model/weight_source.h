// A named, typed view of a checkpoint's weights, independent of the file format.
//
// The table in weight_formats.cc lists the formats, tried in order on a directory; safetensors is its first row.
//
// Bytes of a tensor may be accessed only between WeightSource::Load and Release of it.
//
// Shapes:  as stored, row-major, last axis contiguous; data may be unaligned.
// Errors:  INVALID_ARGUMENT naming the file, the tensor, the value and the limit; NOT_FOUND when no format is present.
// Threads: immutable once the derived tensors are added; one at a time loads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
  std::string other_type;  // name of a type that only packed weights have: such a tensor is not used as it is
  std::vector<int64_t> shape;
  absl::string_view bytes;  // inside its file, or its own range

  int64_t element_count() const;  // of `shape`
};

using TensorDigests = std::map<std::string, Sha256Digest, std::less<>>;  // SHA-256 of every tensor's bytes

// A tensor that is computed from others when it is loaded: the values of a packed matrix, or of one with an adapter.
struct DerivedTensor {
  struct Input {
    TensorView tensor;
    std::optional<Sha256Digest> digest;
  };
  TensorView tensor;   // its name, type and shape, seen as [rows, columns]; bytes are set by WeightSource::Derive
  std::string recipe;  // what is computed, with every setting: equal recipes of equal inputs are equal values
  std::vector<Input> inputs;
  // Fills `rows` with `count` rows in f32 from row `first` on. Inputs are loaded, in the order above.
  std::function<absl::Status(const std::vector<Input>& inputs, int64_t first, int64_t count, float* rows)> fill;
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
  // Reads the tensor's bytes, or computes its values; no-op for one that is neither in a file nor derived. DATA_LOSS when
  // a stored tensor, or one that it is computed from, has another digest.
  absl::Status Load(const TensorView& tensor, const Sha256Digest* digest = nullptr) const;
  // Releases the memory pages that contain only this tensor.
  void Release(const TensorView& tensor) const;
  // DATA_LOSS when a file has changed since it was opened.
  absl::Status CheckUnchanged() const;

  // The stored tensor as an input of a derived one, no longer among tensors(); its digest leaves `digests` with it.
  DerivedTensor::Input Hide(const std::string& name, TensorDigests& digests);
  // Adds a tensor to tensors(); what identifies its values to `digests` where all its inputs have one.
  absl::Status Derive(DerivedTensor derived, TensorDigests& digests);
  // Adds a tensor of a file that is taken over.
  void Add(DerivedTensor::Input stored, TensorDigests& digests);
  // A tensor that no model needs to use, such as biases of zeros where the type has none.
  void MayBeUnused(const std::string& name) { may_be_unused_.insert(name); }
  bool IsNeeded(const std::string& name) const { return !may_be_unused_.contains(name); }
  // Takes over the files of another source; its tensors are reached as inputs alone.
  void TakeFiles(WeightSource other);

 private:
  struct Computed {
    DerivedTensor derived;
    std::unique_ptr<AddressRange> range;
  };
  absl::Status Compute(const Computed& computed) const;

  std::map<std::string, TensorView, std::less<>> tensors_;
  std::vector<std::unique_ptr<WeightFile>> files_;
  std::map<const char*, Computed> derived_;  // by the address of their bytes
  std::set<std::string> may_be_unused_;
};

absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& directory);

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
