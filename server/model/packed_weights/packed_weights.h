// Checkpoints whose matrices are stored in few bits: which schemes are read, and how their values are computed.
//
// A scheme is a row of the table in packed_weights.cc and a file. It reads its settings from "quantization_config", and
// finds its matrices among the stored tensors: what is stored decides, matrix by matrix, so modules that were left as they
// were stay plain. Each packed matrix becomes a tensor of the usual name and shape, whose values are computed when it is
// loaded: in f32, rounded once to the number format that config.json states as `dtype` (f32 where it states none).
// Everything behind the loader sees plain tensors. Only weights are read: what a file has on activations, keys and values
// (scales, quantization at run time) is not applied, and the label notes it.
//
// Errors:  UNIMPLEMENTED naming a setting that is not supported; INVALID_ARGUMENT naming the tensor, its shape and the
//          expected one.
// Threads: immutable.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "server/model/config_reader.h"
#include "server/model/weight_source.h"

namespace varifocal {

// The tensors of a checkpoint while packed ones are replaced by their values.
class Unpacking {
 public:
  Unpacking(WeightSource& source, TensorDigests& digests) : source_(source), digests_(digests) {}

  // The part before `suffix` of the names of tensors that end in it and are of one of `types` where there are any.
  std::vector<std::string> NamesBefore(absl::string_view suffix, absl::Span<const absl::string_view> types = {}) const;
  const TensorView* Find(const std::string& name) const;  // null: there is none
  // A tensor that `owner` needs, of one of the types (any type without).
  absl::StatusOr<const TensorView*> Need(const std::string& name, absl::string_view owner,
                                         absl::Span<const absl::string_view> types = {}) const;
  // Reads one's bytes, which are few.
  absl::Status Load(const TensorView& tensor) const { return source_.Load(tensor); }
  // Replaces the tensors of `inputs` by one.
  absl::Status Replace(DerivedTensor derived, const std::vector<std::string>& inputs);
  // Hides tensors that end in one of the suffixes. Returns how many.
  int64_t Drop(absl::Span<const absl::string_view> suffixes);
  void DropIfPresent(const std::string& name);
  // A vector of zeros may be left over: some programs write biases for types that have none.
  absl::Status AllowZeros(const std::string& name);

 private:
  WeightSource& source_;
  TensorDigests& digests_;
};

// Of a checkpoint; no change of a file's bytes is part of it, for these have a hash of their own.
struct PackedWeights {
  std::string label;   // "GPTQ 4 bit", "FP8 in blocks of 128 x 128, activations not quantized"
  Json identity;       // the scheme and every setting that decides on values
  std::string values;  // what they are rounded to, where it is not the format of config.json
  std::vector<std::string> notes;
  std::function<absl::Status(Unpacking& tensors)> unpack;
};

struct PackedScheme {
  const char* method;  // "quant_method"
  const char* reads;   // in words
  absl::StatusOr<PackedWeights> (*read)(ConfigReader& reader, kernels::DType type);
};

// Of the keys "quantization_config" and "dtype" of config.json; null where weights are plain.
absl::StatusOr<std::shared_ptr<const PackedWeights>> ReadPackedWeights(ConfigReader& reader);

absl::StatusOr<PackedWeights> ReadFp8(ConfigReader& reader, kernels::DType type);
absl::StatusOr<PackedWeights> ReadFbgemmFp8(ConfigReader& reader, kernels::DType type);
absl::StatusOr<PackedWeights> ReadGptq(ConfigReader& reader, kernels::DType type);
absl::StatusOr<PackedWeights> ReadAwq(ConfigReader& reader, kernels::DType type);
absl::StatusOr<PackedWeights> ReadCompressedTensors(ConfigReader& reader, kernels::DType type);
absl::StatusOr<PackedWeights> ReadMxfp4(ConfigReader& reader, kernels::DType type);
absl::StatusOr<PackedWeights> ReadBitsAndBytes(ConfigReader& reader, kernels::DType type);

// Of schemes with scales of activations, keys and values beside weights.
inline constexpr char kWeightsAlone[] = "weights are read alone: activations, keys and values are not quantized";

// INVALID_ARGUMENT: "tensor X has shape [..]; its scheme implies [..]".
absl::Status ShapeError(const TensorView& tensor, const std::string& expected);

}  // namespace varifocal
