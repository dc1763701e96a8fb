// Takes tensors by name and shape out of a checkpoint, and packs them for a backend.
//
// First everything is taken: what is missing, misshapen, of a type that cannot be computed with, or left over is known
// before anything is packed. Then each weight is read, compared with its digest, checked to be finite, packed, and its
// file's memory given back, so that memory holds the packed weights and one weight's tensors at a time.
//
// Errors:  INVALID_ARGUMENT naming tensors (the first five and their count), shapes, types and places; what the backend
//          says.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "server/model/attention/variant.h"
#include "server/model/weight_source.h"

namespace varifocal {

class TensorTaker {
 public:
  explicit TensorTaker(const WeightSource& source) : source_(source) {}

  // Null when missing (remembered), of another shape or of a type that is not supported (the first such error is kept).
  const TensorView* Take(const std::string& name, std::vector<int64_t> shape);
  const TensorView* TakeIfPresent(const std::string& name, std::vector<int64_t> shape);
  bool Holds(const std::string& name) const { return source_.tensors().contains(name); }
  void Skip(const std::string& name) { taken_.insert(name); }
  absl::Status Finish() const;

  int64_t parameter_count() const { return parameter_count_; }

 private:
  void Fail(std::string message);

  const WeightSource& source_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> missing_;
  absl::Status status_;
  int64_t parameter_count_ = 0;
};

// What becomes one weight or one vector: stored tensors whole, one after the other, or parts of them in their own
// order.
struct Stack {
  std::vector<const TensorView*> tensors;  // none: there is no such weight
  std::vector<kernels::HostMatrix> parts;  // none: the tensors whole
  bool transposed = false;                 // matrices are stored as [inputs, outputs]

  static Stack Of(std::vector<const TensorView*> tensors) { return {.tensors = std::move(tensors), .parts = {}}; }
};

// `count` rows of a matrix from `first` on; of a vector, as many elements.
kernels::HostMatrix RowsOf(const TensorView& tensor, int64_t first, int64_t count);

class TensorPacker {
 public:
  // Weights whose tensors have digests are shared with models that have equal ones (weight_shelf.h), after their bytes
  // were read and found to have these digests: whatever a digest came from, it is of the bytes in use.
  TensorPacker(kernels::Backend& backend, const WeightSource& source, const TensorDigests& digests)
      : backend_(backend), source_(source), digests_(digests) {}

  // What Matrix will take: 0 when an equal weight is resident. Close to it; a backend may pad.
  int64_t MatrixBytes(const Stack& stack, kernels::WeightUse use) const;
  // Null where the stack is empty.
  absl::StatusOr<std::shared_ptr<kernels::Weight>> Matrix(const Stack& stack, kernels::WeightUse use);
  // Row after row, with `added` to every value, in f32.
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Vector(const Stack& stack, float added = 0);
  // Tensors of an attention variant, with their first numbers for the host.
  absl::StatusOr<LoadedAttentionTensor> AttentionVector(const TensorView* view, const AttentionTensor& tensor);

  int64_t matrix_bytes() const { return matrix_bytes_; }  // on the backend

 private:
  // Loads the stack's tensors; DATA_LOSS when one with a digest has other bytes.
  absl::Status Load(const Stack& stack) const;
  // What a weight is; absent when a tensor has no digest.
  std::optional<Sha256Digest> ContentOf(const Stack& stack, kernels::WeightUse use) const;

  kernels::Backend& backend_;
  const WeightSource& source_;
  const TensorDigests& digests_;
  int64_t matrix_bytes_ = 0;
};

}  // namespace varifocal
