// Loads tensors by name and shape from a checkpoint, and packs them for a backend.
//
// First all names are resolved: missing tensors, wrong shapes, unsupported types and unused tensors are detected before
// any packing. Then each weight is read, compared with its digest, checked to be finite, packed, and its file's memory
// released, so that memory contains the packed weights and one weight's tensors at a time.
//
// Errors:  INVALID_ARGUMENT naming tensors (the first five and their count), shapes, types and positions; errors of the
//          backend.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/model/attention/variant.h"
#include "server/model/matrix_grid.h"
#include "server/model/weight_source.h"

namespace varifocal {

class TensorLoader {
 public:
  explicit TensorLoader(const WeightSource& source) : source_(source) {}

  // Null when missing (recorded), of another shape or of an unsupported type (the first such error is recorded).
  const TensorView* Take(const std::string& name, std::vector<int64_t> shape);
  const TensorView* TakeIfPresent(const std::string& name, std::vector<int64_t> shape);
  const TensorView* TakeNumber(const std::string& name);  // of one element
  bool Holds(const std::string& name) const { return source_.tensors().contains(name); }
  void Skip(const std::string& name) { taken_.insert(name); }
  void SkipPrefix(std::string prefix) { skipped_prefixes_.push_back(std::move(prefix)); }
  // Does not count a tensor that was taken and turned out to be a copy of another.
  void Uncount(const TensorView& tensor) { parameter_count_ -= tensor.element_count(); }
  absl::Status Finish() const;

  int64_t parameter_count() const { return parameter_count_; }

 private:
  void Fail(std::string message);

  const WeightSource& source_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> skipped_prefixes_;
  std::vector<std::string> missing_;
  absl::Status status_;
  int64_t parameter_count_ = 0;
};

// The source of one weight or vector:
// whole stored tensors, concatenated, or parts of them in any order.
struct Stack {
  // Of a stack [E, columns, rows], inputs first, in which the outputs of `kinds` matrices take turns, such as gate and
  // up.
  struct Turns {
    int64_t rows = 0, columns = 0, kinds = 0;
  };
  std::vector<const TensorView*> tensors;  // empty: no such weight
  std::vector<kernels::HostMatrix> parts;  // empty: whole tensors
  bool transposed = false;                 // matrices are stored as [inputs, outputs]
  int64_t expert_count = 0;                // above 0: the weights of so many experts, one after the other
  std::optional<Turns> turns;
  std::optional<MatrixGrid> grid;  // of pieces of the tensors, in place of `parts`

  static Stack Of(std::vector<const TensorView*> tensors) { return {.tensors = std::move(tensors), .parts = {}}; }
};

// `count` rows of a matrix from `first` on; of a vector, as many elements.
kernels::HostMatrix RowsOf(const TensorView& tensor, int64_t first, int64_t count);

// Whether two matrices of one shape have the same values: by their digests where they have any and one type, else
// element by element in f32, which holds the values of all types.
absl::StatusOr<bool> HaveSameValues(const WeightSource& source, const TensorDigests& digests, const TensorView& a,
                                    const TensorView& b);

class TensorPacker {
 public:
  // Weights whose tensors have digests are shared with models that have equal ones (weight_cache.h), after the bytes read
  // were verified against these digests.
  TensorPacker(kernels::Backend& backend, const WeightSource& source, const TensorDigests& digests)
      : backend_(backend), source_(source), digests_(digests) {}

  // Estimated bytes of Matrix: 0 when an equal weight is resident; a backend may pad.
  int64_t MatrixBytes(const Stack& stack, kernels::WeightUse use) const;
  // Null where the stack is empty.
  absl::StatusOr<std::shared_ptr<kernels::Weight>> Matrix(const Stack& stack, kernels::WeightUse use);
  absl::StatusOr<float> Number(const TensorView& tensor);
  // Concatenated rows, plus `added`, in f32; then times `factors`, which repeat.
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Vector(const Stack& stack, float added = 0,
                                                          const std::vector<float>& factors = {});
  // Tensors of an attention variant, with their first value for the host.
  absl::StatusOr<LoadedAttentionTensor> AttentionVector(const TensorView* view, const AttentionTensor& tensor);

  int64_t matrix_bytes() const { return matrix_bytes_; }  // on the backend

 private:
  // Loads the stack's tensors; DATA_LOSS when one with a digest has other bytes.
  absl::Status Load(const Stack& stack) const;
  // The identity of a weight; absent when a tensor has no digest.
  std::optional<Sha256Digest> ContentOf(const Stack& stack, kernels::WeightUse use) const;

  kernels::Backend& backend_;
  const WeightSource& source_;
  const TensorDigests& digests_;
  int64_t matrix_bytes_ = 0;
};

}  // namespace varifocal
