// Prefixes of the names of a checkpoint's tensors.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/model/architectures.h"
#include "server/model/model_config.h"
#include "server/model/weight_source.h"

namespace varifocal {

// Of all tensors but the head: of a text alone its row's prefix, or nothing in a file of the body; in a multimodal
// checkpoint one of several. INVALID_ARGUMENT where that has none of them or more than one.
absl::StatusOr<std::string> PrefixOf(const TensorNames& names, const ModelConfig& config, const WeightSource& source);
// Of the tensors of a layer; `prefix` is that of all.
std::string LayerPrefix(const TensorNames& names, const std::string& prefix, int64_t layer);

}  // namespace varifocal
