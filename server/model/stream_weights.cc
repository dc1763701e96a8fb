#include "server/model/stream_weights.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/status_macros.h"

namespace varifocal {

using kernels::WeightUse;

StreamStacks TakeStreams(TensorLoader& loader, const StreamNames& names, const ModelConfig& config,
                         const std::string& prefix) {
  StreamStacks stacks;
  for (int64_t i = 0; i + 1 < config.streams.count; ++i) {
    for (const auto& [name, to] : {std::pair{names.start, &stacks.start}, {names.end, &stacks.end}}) {
      const std::string of_stream = absl::StrReplaceAll(name, {{"{}", absl::StrCat(i)}});
      const TensorView* tensor = loader.Take(absl::StrCat(prefix, of_stream, ".weight"), {config.width, config.width});
      if (tensor != nullptr) to->push_back(Stack::Of({tensor}));
    }
  }
  return stacks;
}

LayerStreamStacks TakeLayerStreams(TensorLoader& loader, const StreamNames& names, const ModelConfig& config,
                                   const std::string& layer_prefix) {
  LayerStreamStacks stacks;
  const int64_t count = config.streams.count, width = config.width, rank = config.streams.low_rank;
  if (count == 0) return stacks;
  const auto take = [&](const char* name, std::vector<int64_t> shape, Stack& stack, const char* suffix = ".weight") {
    const TensorView* tensor = loader.Take(absl::StrCat(layer_prefix, name, suffix), std::move(shape));
    if (tensor != nullptr) stack.tensors.push_back(tensor);
  };
  take(names.router_norm, {width}, stacks.router_norm);
  take(names.router, {count, width}, stacks.router);
  take(names.predict, {count * count, count}, stacks.predict);
  take(names.correct, {count, count}, stacks.correct);
  if (config.streams.scales_corrected) {
    take(names.scale, {width}, stacks.scale, "");
  } else {
    loader.Skip(absl::StrCat(layer_prefix, names.scale));  // stored, but without effect
  }
  take(names.low_rank_in, {rank, width}, stacks.low_rank_in);
  take(names.low_rank_out, {width, rank}, stacks.low_rank_out);
  take(names.low_rank_norm, {width}, stacks.low_rank_norm);
  return stacks;
}

absl::StatusOr<StreamWeights> PackStreams(TensorPacker& packer, const StreamStacks& stacks) {
  StreamWeights weights;
  for (const auto& [from, to] : {std::pair{&stacks.start, &weights.start}, {&stacks.end, &weights.end}}) {
    for (const Stack& stack : *from) {
      ASSIGN_OR_RETURN(std::shared_ptr<kernels::Weight> weight, packer.Matrix(stack, WeightUse::kPlain));
      to->push_back(std::move(weight));
    }
  }
  return weights;
}

absl::StatusOr<LayerStreamWeights> PackLayerStreams(TensorPacker& packer, const LayerStreamStacks& stacks,
                                                    const ModelConfig& config) {
  LayerStreamWeights weights;
  const float inverse = static_cast<float>(1.0 / config.width);
  ASSIGN_OR_RETURN(weights.router_norm, packer.Vector(stacks.router_norm, 0, {inverse}));
  ASSIGN_OR_RETURN(weights.router, packer.Vector(stacks.router));
  ASSIGN_OR_RETURN(weights.predict, packer.Vector(stacks.predict));
  ASSIGN_OR_RETURN(weights.correct, packer.Vector(stacks.correct));
  ASSIGN_OR_RETURN(weights.scale, packer.Vector(stacks.scale));
  ASSIGN_OR_RETURN(weights.low_rank_in, packer.Matrix(stacks.low_rank_in, WeightUse::kPlain));
  ASSIGN_OR_RETURN(weights.low_rank_out, packer.Matrix(stacks.low_rank_out, WeightUse::kPlain));
  ASSIGN_OR_RETURN(weights.low_rank_norm, packer.Vector(stacks.low_rank_norm));
  return weights;
}

int64_t StreamBytes(const TensorPacker& packer, const StreamStacks& stacks) {
  int64_t bytes = 0;
  for (const auto* all : {&stacks.start, &stacks.end}) {
    for (const Stack& stack : *all) bytes += packer.MatrixBytes(stack, WeightUse::kPlain);
  }
  return bytes;
}

int64_t LayerStreamBytes(const TensorPacker& packer, const LayerStreamStacks& stacks) {
  return packer.MatrixBytes(stacks.low_rank_in, WeightUse::kPlain) +
         packer.MatrixBytes(stacks.low_rank_out, WeightUse::kPlain);
}

double DeviationsBelow(double share) {
  double low = -40, high = 40;
  while (true) {
    const double middle = (low + high) / 2;
    if (middle == low || middle == high) return middle;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
}

}  // namespace varifocal
