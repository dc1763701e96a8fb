// The safetensors format: eight bytes of header length, a JSON header, then the tensors' bytes.
//
// Everything is checked before anything is used: header length (at most 100 MB and inside the file), strict JSON
// without duplicate names, known types, shapes whose product does not overflow and agrees with the offsets, offsets
// that cover the data exactly: no gap, no overlap, no rest. A checkpoint is one file or shards named by
// model.safetensors.index.json.
//
// Errors: INVALID_ARGUMENT with file, tensor, value and limit.
// Source: huggingface/safetensors, README, "Format".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/weight_source.h"

namespace varifocal {

inline constexpr int64_t kSafetensorsHeaderBytesMax = 100'000'000;

// `file` is the whole file, of which the header is read; the views point into it. Messages do not name the file.
absl::StatusOr<std::vector<TensorView>> ParseSafetensors(absl::string_view file);

bool HasSafetensors(const std::string& directory);
absl::StatusOr<std::unique_ptr<WeightSource>> OpenSafetensors(const std::string& directory);
// A single file.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenSafetensorsFile(const std::string& path);

}  // namespace varifocal
