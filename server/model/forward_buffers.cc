// What a forward pass needs: the shapes of its steps, and its buffers.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/wide_product.h"
#include "server/model/forward.h"
#include "server/model/kernel_status.h"

namespace varifocal {
namespace {

// A mask is that of a page group, whose layers have the same heads.
std::vector<kernels::HeadShape> MaskHeads(const ModelConfig& config) {
  std::vector<kernels::HeadShape> heads;
  for (const PageGroup& group : config.page_groups)
    heads.push_back({static_cast<int>(group.kv_head_count), static_cast<int>(group.head_width)});
  return heads;
}

kernels::StepShape ToStepShape(const ModelConfig& config, const ForwardLimits& limits) {
  const kernels::HeadShape heads = LargestHeads(config);
  return {.row_count_max = static_cast<int>(limits.row_count_max),
          .sequence_count_max = static_cast<int>(limits.sequence_count_max),
          .head_row_count_max = static_cast<int>(limits.head_row_count_max),
          .context_length_max = static_cast<int>(limits.context_length_max),
          .model_dim = static_cast<int>(config.width),
          .query_head_count = static_cast<int>(config.head_count),
          .kv_head_count = heads.kv_head_count,
          .head_dim = heads.head_dim,
          .mask_heads = MaskHeads(config),
          .layer_input_width = static_cast<int>(config.layer_inputs.width),
          .layer_input_count = static_cast<int>(config.layer_count),
          .low_rank_dim = static_cast<int>(config.streams.low_rank),
          .ffn_dim = static_cast<int>(PlainWidth(config)),
          .vocab_size = static_cast<int>(config.vocabulary_size),
          .gather_top_k_max = config.attention.GatherTopKMax(),
          .expert_count = static_cast<int>(config.mixture.expert_count),
          .experts_per_token = static_cast<int>(config.mixture.per_token),
          .expert_ffn_dim = static_cast<int>(config.mixture.width),
          .shared_expert = config.mixture.shared_width > 0,
          .recurrence = config.recurrence,
          .query_latent_dim = static_cast<int>(config.latent.query_rank),
          .latent_dim = static_cast<int>(config.latent.width())};
}

struct BufferBytes {
  size_t residual, normed, queries, attended, mixed, hidden, row_scales, bound_counts;
  size_t layer_inputs, input_gate, streams, routed, sums;  // two of layer_inputs and of sums
  size_t total() const {
    return residual + normed + queries + attended + mixed + hidden + row_scales + bound_counts + 2 * layer_inputs +
           input_gate + streams + routed + 2 * sums;
  }
};

BufferBytes SizeBuffers(const Transformer& model, const ForwardLimits& limits) {
  const ModelConfig& config = model.config();
  const size_t rows = limits.row_count_max;
  const size_t operand = kernels::DTypeBytes(model.backend().operand_dtype());
  const size_t width = config.width;
  const size_t query_width = config.head_count * LargestHeads(config).head_dim;
  const size_t routed_width = config.mixture.normed_apart ? width : 0;
  const bool is_recurrent = config.recurrence.kind != kernels::RecurrenceKind::kNone;
  const int64_t mixed_width =
      std::max({config.blocks.attention_gate ? config.head_count * config.head_width : 0,
                is_recurrent ? int64_t{config.recurrence.input_width()} : 0, config.latent.query_rank,
                config.latent.width(), config.streams.low_rank, HasCutGates(config) ? 2 * PlainWidth(config) : 0});
  return {.residual = rows * width * sizeof(float),
          .normed = rows * width * operand,
          .queries = rows * query_width * sizeof(float),
          .attended = rows * std::max<size_t>(query_width, config.recurrence.value_width()) * operand,
          .mixed = rows * mixed_width * operand,
          .hidden = rows * PlainWidth(config) * operand,
          .row_scales = RowScales::BytesNeeded(config.layer_count, limits.row_count_max),
          .bound_counts = WideProduct(limits.sequence_count_max, 2) * sizeof(uint32_t),
          .layer_inputs = rows * config.layer_count * config.layer_inputs.width * operand,
          .input_gate = rows * config.layer_inputs.width * operand,
          .streams = WideProduct(config.streams.count, rows, width) * sizeof(float),
          .routed = rows * routed_width * operand,
          .sums = rows * routed_width * sizeof(float)};
}

}  // namespace

int64_t Forward::BytesNeeded(const Transformer& model, const ForwardLimits& limits) {
  return SizeBuffers(model, limits).total() + model.backend().WorkspaceBytes(ToStepShape(model.config(), limits));
}

Forward::Forward(const Transformer& model, const ForwardLimits& limits) : model_(model), limits_(limits) {
  const size_t sequences = limits.sequence_count_max;
  rows_.reserve(sequences);
  ropes_.reserve(sequences);
  intervals_.resize(model.config().page_groups.size());
  for (auto& intervals : intervals_) intervals.reserve(limits.row_count_max);
  rope_tables_.resize(model.config().ropes.size());
  for (auto& tables : rope_tables_) tables.reserve(sequences);
  if (model.config().layer_inputs.width > 0) input_tokens_.reserve(limits.row_count_max);
}

absl::StatusOr<std::unique_ptr<Forward>> Forward::Create(const Transformer& model, const ForwardLimits& limits) {
  auto forward = std::unique_ptr<Forward>(new Forward(model, limits));
  kernels::Backend& backend = model.backend();
  const BufferBytes bytes = SizeBuffers(model, limits);
  ASSIGN_OR_RETURN(forward->workspace_, ToStatusOr(backend.CreateWorkspace(ToStepShape(model.config(), limits))));
  ASSIGN_OR_RETURN(forward->residual_, ToStatusOr(backend.Allocate(bytes.residual)));
  ASSIGN_OR_RETURN(forward->normed_, ToStatusOr(backend.Allocate(bytes.normed)));
  ASSIGN_OR_RETURN(forward->queries_, ToStatusOr(backend.Allocate(bytes.queries)));
  ASSIGN_OR_RETURN(forward->attended_, ToStatusOr(backend.Allocate(bytes.attended)));
  const std::pair<size_t, std::unique_ptr<kernels::Buffer>*> optional[] = {
      {bytes.mixed, &forward->mixed_},
      {bytes.layer_inputs, &forward->projected_inputs_},
      {bytes.layer_inputs, &forward->layer_inputs_},
      {bytes.input_gate, &forward->input_gate_},
      {bytes.streams, &forward->streams_},
      {bytes.routed, &forward->routed_},
      {bytes.sums, &forward->expert_sum_},
      {bytes.sums, &forward->mlp_sum_}};
  for (const auto& [size, buffer] : optional) {
    if (size == 0) continue;
    ASSIGN_OR_RETURN(*buffer, ToStatusOr(backend.Allocate(size)));
  }
  ASSIGN_OR_RETURN(forward->hidden_, ToStatusOr(backend.Allocate(bytes.hidden)));
  ASSIGN_OR_RETURN(forward->row_scales_, RowScales::Create(backend, model.config().layer_count, limits.row_count_max));
  ASSIGN_OR_RETURN(forward->bound_counts_, ToStatusOr(backend.Allocate(bytes.bound_counts)));
  return forward;
}

}  // namespace varifocal
