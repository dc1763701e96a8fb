// LoRA adapters: a directory as PEFT writes it, merged into the weights of a checkpoint when these are loaded.
//
//   W' = W + s B A, s = alpha / r, or alpha / sqrt(r) with `use_rslora`; rounded once, from float64 to f32
//
// A and B are [r, inputs] and [outputs, r]. Modules of `modules_to_save` take the place of the checkpoint's. The tensors in
// the file decide which modules are changed. Whatever would change the result otherwise is refused by name.
//
// Errors:  NOT_FOUND (no adapter_config.json); UNIMPLEMENTED naming the key or tensor that is not supported;
//          INVALID_ARGUMENT naming tensor, shape and limit.
// Threads: immutable.
// Source:  Hu et al. 2021, arXiv:2106.09685, section 4.1; rank-stabilized: Kalajdzievski 2023, arXiv:2312.03732; PEFT 0.21,
//          tuners/lora/layer.py (get_delta_weight).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "server/model/architectures.h"
#include "server/model/model_config.h"
#include "server/model/weight_source.h"

namespace varifocal {

// adapter_config.json, as far as it decides on values.
struct Adapter {
  int64_t rank = 0;
  double alpha = 0;
  bool is_rank_stabilized = false;
  // Names of modules, or ends of them, with values of their own.
  std::map<std::string, int64_t> ranks;
  std::map<std::string, double> alphas;
  std::vector<std::string> targets;  // ends of the names of changed modules; empty: a pattern, which is not checked

  std::string Label() const;  // "LoRA of rank 8, alpha 16"
  Json Identity() const;      // the file's bytes are hashed with the weights
};

absl::StatusOr<Adapter> ReadAdapter(const std::string& directory);

// Replaces the tensors of `base` that `weights`, the adapter's file, changes. Takes over its files.
absl::Status MergeAdapter(const Adapter& adapter, const Architecture& architecture, const ModelConfig& config,
                          WeightSource weights, TensorDigests weight_digests, WeightSource& base,
                          TensorDigests& digests);

// The adapter's tensors.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenAdapterWeights(const std::string& directory);

}  // namespace varifocal
