#include "server/model/forward.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status_macros.h"
#include "server/model/kernel_status.h"

namespace varifocal {
namespace {

using kernels::Slice;

Slice Whole(const std::unique_ptr<kernels::Buffer>& buffer) { return {buffer.get(), 0}; }

}  // namespace

// Converts rows, masks and rotations of a step to kernel arguments.
void Forward::Flatten(const ForwardStep& step) {
  const std::vector<PageGroup>& groups = model_.config().page_groups;
  rows_.clear();
  ropes_.clear();
  for (auto& intervals : intervals_) intervals.clear();
  for (const ForwardSequence& sequence : step.sequences) {
    VF_CHECK(sequence.pages.size() == groups.size(), "a sequence has a page table per page group");
    for (size_t group = 0; group < groups.size(); ++group) {
      for (int64_t i = 0; i < sequence.row_count; ++i) {
        const int32_t position = sequence.first_position + i;
        intervals_[group].push_back(groups[group].window == 0
                                        ? kernels::CausalInterval(position)
                                        : kernels::WindowInterval(position, groups[group].window));
      }
    }
    const auto rope = std::find(ropes_.begin(), ropes_.end(), sequence.rope);
    rows_.push_back({.row_count = static_cast<int32_t>(sequence.row_count),
                     .first_position = static_cast<int32_t>(sequence.first_position),
                     .page_tables = sequence.pages,
                     .rope_table = static_cast<int32_t>(rope - ropes_.begin()),
                     .prompt_row_count = static_cast<int32_t>(sequence.prompt_length)});
    if (rope == ropes_.end()) ropes_.push_back(sequence.rope);
  }
  row_factors_.clear();
  for (const RopeConfig& rope : model_.config().ropes) {
    if (rope.query_beta == 0) continue;
    for (const ForwardSequence& sequence : step.sequences) {
      for (int64_t i = 0; i < sequence.row_count; ++i)
        row_factors_.push_back(static_cast<float>(rope.QueryFactor(sequence.first_position + i)));
    }
  }
  masks_.assign(intervals_.begin(), intervals_.end());
  for (size_t index = 0; index < rope_tables_.size(); ++index) {
    rope_tables_[index].clear();
    for (const RopeTables* rope : ropes_) rope_tables_[index].push_back(rope->table(index));
  }
}

absl::Status Forward::Run(KvPools pools, const ForwardStep& step, ForwardOutput* output) {
  const struct End {
    ~End() { backend.EndStep(workspace); }
    kernels::Backend& backend;
    kernels::Workspace& workspace;
  } end{model_.backend(), *workspace_};
  return RunStep(pools, step, output);
}

absl::Status Forward::RunStep(KvPools pools, const ForwardStep& step, ForwardOutput* output) {
  kernels::Backend& backend = model_.backend();
  VF_CHECK(std::ssize(step.tokens) <= limits_.row_count_max, "a step has at most row_count_max rows");
  VF_CHECK(std::ssize(step.sequences) <= limits_.sequence_count_max, "a step has at most sequence_count_max sequences");
  VF_CHECK(pools.size() == model_.config().page_groups.size(), "there is a pool per page group");
  Flatten(step);
  row_scales_.BeginStep();
  VF_CHECK(masks_[0].size() == step.tokens.size(), "rows of the sequences and tokens agree");
  const kernels::Batch batch{.phase = step.phase,
                             .sequences = rows_,
                             .masks = masks_,
                             .cancelled = step.cancelled,
                             .takes_turns = step.takes_turns};
  const bool counts_bounds = step.attention->CountsBounds();

  RETURN_IF_ERROR(ToStatus(backend.BeginStep(*workspace_, batch)));
  if (counts_bounds) RETURN_IF_ERROR(ToStatus(backend.Zero(Whole(bound_counts_), bound_counts_->bytes())));
  RETURN_IF_ERROR(ToStatus(
      backend.Embed(*workspace_, {.table = &model_.embedding(),
                                  .tokens = step.tokens,
                                  .multiplier = static_cast<float>(model_.config().blocks.embedding_multiplier),
                                  .positions = model_.positions(),
                                  .out = Whole(residual_)})));
  if (!step.head_rows.empty() && step.inspections.empty()) backend.QueueWithHead(*workspace_);
  if (layer_inputs_ != nullptr) RETURN_IF_ERROR(ComputeLayerInputs(step.tokens));
  RETURN_IF_ERROR(streams_ != nullptr ? StartStreams()
                                      : ToStatus(backend.Norm(*workspace_, NormOf(model_.layers()[0].attention_norm))));
  for (int64_t layer = 0; layer < model_.config().layer_count; ++layer) {
    if (step.cancelled != nullptr && step.cancelled->load(std::memory_order_relaxed))
      return absl::CancelledError("the step was cancelled between layers");
    RETURN_IF_ERROR(streams_ != nullptr ? RunLayerOfStreams(layer, pools, batch, step)
                                        : RunLayer(layer, pools, batch, step));
  }
  if (streams_ != nullptr) RETURN_IF_ERROR(JoinStreams());
  RETURN_IF_ERROR(RunHead(step, output));
  output->tau_bound_counts.assign(step.sequences.size() * 2, 0);
  if (counts_bounds) {
    RETURN_IF_ERROR(ToStatus(backend.Read(output->tau_bound_counts.data(), Whole(bound_counts_),
                                          output->tau_bound_counts.size() * sizeof(uint32_t))));
  }
  return absl::OkStatus();
}

// normed = norm(residual), or the residual itself where there is no norm.
kernels::NormArgs Forward::NormOf(const NormWeights& norm) {
  const BlockConfig& blocks = model_.config().blocks;
  return {.kind = norm.weight != nullptr ? blocks.norm : kernels::NormKind::kNone,
          .x = Whole(residual_),
          .weight = Whole(norm.weight),
          .bias = Whole(norm.bias),
          .epsilon = static_cast<float>(blocks.norm_epsilon),
          .out = Whole(normed_),
          .read_once = norm.read_once};
}

// residual = scale * (residual + multiplier * norm(linear(x))), or without norm and scale; then the next norm, if any.
absl::Status Forward::AddToResidual(Slice x, const LinearWeights& linear, const NormWeights& norm,
                                    double output_multiplier, const NormWeights* next, float scale) {
  const BlockConfig& blocks = model_.config().blocks;
  const float multiplier = static_cast<float>(blocks.residual_multiplier * output_multiplier);
  kernels::NormArgs next_norm;
  if (next != nullptr) next_norm = NormOf(*next);
  if (norm.weight == nullptr) {
    VF_CHECK(scale == 1, "a scaled residual has a norm before");
    return ToStatus(
        model_.backend().LinearResidual(*workspace_, {.x = x,
                                                      .weight = linear.weight.get(),
                                                      .bias = Whole(linear.bias),
                                                      .multiplier = multiplier,
                                                      .residual = Whole(residual_),
                                                      .next_norm = next == nullptr ? nullptr : &next_norm}));
  }
  return ToStatus(
      model_.backend().LinearNormResidual(*workspace_, {.x = x,
                                                        .weight = linear.weight.get(),
                                                        .bias = Whole(linear.bias),
                                                        .norm_weight = Whole(norm.weight),
                                                        .norm_epsilon = static_cast<float>(blocks.norm_epsilon),
                                                        .multiplier = multiplier,
                                                        .scale = scale,
                                                        .residual = Whole(residual_),
                                                        .next_norm = next == nullptr ? nullptr : &next_norm}));
}

absl::Status Forward::RunLayer(int64_t index, KvPools pools, const kernels::Batch& batch, const ForwardStep& step) {
  const BlockConfig& blocks = model_.config().blocks;
  const LayerWeights& layer = model_.layers()[index];
  const LayerConfig& layer_config = model_.config().layers[index];
  if (layer_config.is_recurrent && layer_config.has_attention) {  // both read the same norm
    RETURN_IF_ERROR(Recur(index, pools));
    RETURN_IF_ERROR(AddToResidual(Whole(attended_), layer.recurrence_output, layer.attention_post_norm,
                                  blocks.recurrence_output_multiplier, nullptr));
  }
  const bool attends = layer_config.has_attention;
  const bool last = index + 1 == model_.config().layer_count;
  const NormWeights* next = last ? nullptr : &model_.layers()[index + 1].attention_norm;
  if (attends || layer_config.is_recurrent) {
    RETURN_IF_ERROR(attends ? Attend(index, pools, batch, step) : Recur(index, pools));
    // Parallel blocks: both read the residual before either adds to it. With one norm `normed_` still holds it.
    if (blocks.parallel_residual && !blocks.one_norm)
      RETURN_IF_ERROR(ToStatus(model_.backend().Norm(*workspace_, NormOf(layer.mlp_norm))));
    const NormWeights* of_mlp = blocks.parallel_residual ? nullptr : &layer.mlp_norm;
    RETURN_IF_ERROR(AddToResidual(Whole(attended_), attends ? layer.attention_output : layer.recurrence_output,
                                  layer.attention_post_norm,
                                  attends ? blocks.attention_output_multiplier : blocks.recurrence_output_multiplier,
                                  layer_config.has_mlp ? of_mlp : next));
  }
  if (!layer_config.has_mlp) return absl::OkStatus();
  if (layer.parts.input_gate == nullptr) return RunMlp(index, next);
  RETURN_IF_ERROR(RunMlp(index, &no_norm_));
  return AddLayerInput(index, next);
}

// The MLP or the experts of `normed_`.
absl::Status Forward::RunMlp(int64_t index, const NormWeights* next) {
  const BlockConfig& blocks = model_.config().blocks;
  const LayerWeights& layer = model_.layers()[index];
  // The last that a layer adds is scaled with the residual.
  const float scale = layer.parts.input_gate == nullptr ? layer.parts.scale : 1;
  if (layer.parts.router_norm != nullptr) return AddBesideExperts(layer, next, scale);
  if (layer.router != nullptr) return AddMixture(layer, next);
  if (layer.cut_deviations.has_value()) {
    RETURN_IF_ERROR(RunCutGates(layer));
  } else if (layer.gate_up.weight != nullptr) {
    RETURN_IF_ERROR(ToStatus(model_.backend().LinearGated(*workspace_, {.x = Whole(normed_),
                                                                        .weight = layer.gate_up.weight.get(),
                                                                        .bias = Whole(layer.gate_up.bias),
                                                                        .activation = blocks.activation,
                                                                        .terms = layer.activation_terms,
                                                                        .out = Whole(hidden_)})));
  } else {
    RETURN_IF_ERROR(ToStatus(model_.backend().Linear(*workspace_, {.x = Whole(normed_),
                                                                   .weight = layer.up.weight.get(),
                                                                   .bias = Whole(layer.up.bias),
                                                                   .activation = blocks.activation,
                                                                   .terms = layer.activation_terms,
                                                                   .out = Whole(hidden_)})));
  }
  return AddToResidual(Whole(hidden_), layer.down, layer.mlp_post_norm, blocks.mlp_output_multiplier, next, scale);
}

// residual += multiplier * mixture of experts(normed); then the next norm, if any.
absl::Status Forward::AddMixture(const LayerWeights& layer, const NormWeights* next) {
  const ModelConfig& config = model_.config();
  kernels::NormArgs next_norm;
  if (next != nullptr) next_norm = NormOf(*next);
  return ToStatus(model_.backend().Mixture(
      *workspace_,
      {.x = Whole(normed_),
       .router = Whole(layer.router),
       .router_bias = Whole(layer.router_bias),
       .expert_count = static_cast<int>(config.mixture.expert_count),
       .per_token = static_cast<int>(config.mixture.per_token),
       .renormalised = config.mixture.renormalised,
       .routing = config.mixture.routing,
       .choice_bias = Whole(layer.choice_bias),
       .gated = config.mixture.gated,
       .gate_up = layer.gate_up.weight.get(),
       .down = layer.down.weight.get(),
       .gate_up_bias = Whole(layer.gate_up.bias),
       .down_bias = Whole(layer.down.bias),
       .activation = config.blocks.activation,
       .terms = layer.activation_terms,
       .shared_gate_up = layer.shared_gate_up.get(),
       .shared_down = layer.shared_down.get(),
       .shared_gate = Whole(layer.shared_gate),
       .multiplier = static_cast<float>(config.blocks.residual_multiplier * config.blocks.mlp_output_multiplier),
       .residual = Whole(residual_),
       .next_norm = next == nullptr ? nullptr : &next_norm}));
}

// attended = attention of the layer over normed; writes the rows' keys and values into their pages.
absl::Status Forward::Attend(int64_t index, KvPools pools, const kernels::Batch& batch, const ForwardStep& step) {
  kernels::Backend& backend = model_.backend();
  kernels::Workspace& workspace = *workspace_;
  const ModelConfig& config = model_.config();
  const LayerWeights& layer = model_.layers()[index];
  const LayerConfig& layer_config = config.layers[index];
  kernels::KvPool* pool = pools[layer_config.page_group].get();
  const int page_group = layer_config.page_group;
  const int group_layer = layer_config.group_layer;
  const int head_count = config.head_count;
  std::span<const kernels::RopeTable* const> ropes;
  if (layer_config.rope_index >= 0) ropes = rope_tables_[layer_config.rope_index];

  AttentionTerms terms{.scale = layer_config.attention_scale != 0 ? layer_config.attention_scale
                                                                  : 1.0 / std::sqrt(HeadWidth(config, layer_config)),
                       .row_factors = row_factors_,
                       .soft_cap = config.blocks.score_soft_cap};
  RETURN_IF_ERROR(step.attention->Prepare({.backend = backend,
                                           .workspace = workspace,
                                           .batch = batch,
                                           .layer = index,
                                           .x = Whole(normed_),
                                           .pool = pool,
                                           .page_group = page_group,
                                           .pool_layer = group_layer,
                                           .tensors = layer.attention_tensors,
                                           .row_scales = row_scales_,
                                           .bound_counts = Whole(bound_counts_)},
                                          terms));
  if (!row_factors_.empty() && terms.row_scales.buffer == nullptr) {
    std::vector<float> scales(row_factors_.size());
    for (size_t i = 0; i < scales.size(); ++i)
      scales[i] = kernels::FocalScale(terms.scale * row_factors_[i], terms.temperature);
    ASSIGN_OR_RETURN(terms.row_scales, row_scales_.Write(backend, index, std::move(scales)));
  }
  const kernels::QkvRopeWriteArgs heads{.x = Whole(normed_),
                                        .weight = layer.query_key_value.weight.get(),
                                        .bias = Whole(layer.query_key_value.bias),
                                        .query_norm = Whole(layer.query_norm),
                                        .key_norm = Whole(layer.key_norm),
                                        .value_norm = Whole(layer.parts.value_norm),
                                        .norm_over_width = config.blocks.head_norm_over_width,
                                        .norm_after_rotation = config.blocks.head_norm_after_rotation,
                                        .norm_epsilon = static_cast<float>(config.blocks.norm_epsilon),
                                        .clip = static_cast<float>(config.blocks.query_key_value_clip),
                                        .query_head_count = head_count,
                                        .queries_alone = layer_config.source_layer >= 0,
                                        .rope_tables = ropes,
                                        .pool = pool,
                                        .page_group = page_group,
                                        .layer = group_layer,
                                        .queries = Whole(queries_)};
  const bool is_latent = layer.latent.keys_values != nullptr;
  RETURN_IF_ERROR(is_latent ? WriteLatent(layer.latent, heads) : ToStatus(backend.QkvRopeWrite(workspace, heads)));
  const kernels::AttendArgs attend{.queries = Whole(queries_),
                                   .query_head_count = head_count,
                                   .pool = pool,
                                   .page_group = page_group,
                                   .layer = group_layer,
                                   .mask_index = page_group,
                                   .scale = kernels::FocalScale(terms.scale, terms.temperature),
                                   .row_scales = terms.row_scales,
                                   .head_scales = terms.head_scales,
                                   .soft_cap = static_cast<float>(terms.soft_cap),
                                   .sink = terms.sink,
                                   .sinks = terms.sinks,
                                   .groups = terms.groups ? &*terms.groups : nullptr,
                                   .out = Whole(attended_)};
  RETURN_IF_ERROR(ToStatus(backend.Attend(workspace, attend)));
  RETURN_IF_ERROR(Inspect(index, attend, step.inspections));
  return layer.attention_gate == nullptr ? absl::OkStatus() : Gate(layer);
}

// attended = attended * sigmoid(gate normed)
absl::Status Forward::Gate(const LayerWeights& layer) {
  RETURN_IF_ERROR(ToStatus(model_.backend().Linear(
      *workspace_, {.x = Whole(normed_), .weight = layer.attention_gate.get(), .out = Whole(mixed_)})));
  return ToStatus(model_.backend().ApplyGate(
      *workspace_,
      {.gate = Whole(mixed_), .columns = static_cast<int>(layer.attention_gate->rows()), .x = Whole(attended_)}));
}

// attended = the outputs of a recurrent layer over normed; reads and writes states in the rows' pages.
absl::Status Forward::Recur(int64_t index, KvPools pools) {
  const ModelConfig& config = model_.config();
  const LayerWeights& layer = model_.layers()[index];
  const LayerConfig& layer_config = config.layers[index];
  RETURN_IF_ERROR(ToStatus(model_.backend().Linear(*workspace_, {.x = Whole(normed_),
                                                                 .weight = layer.recurrence_inputs.weight.get(),
                                                                 .bias = Whole(layer.recurrence_inputs.bias),
                                                                 .out = Whole(mixed_)})));
  return ToStatus(
      model_.backend().Recur(*workspace_, {.shape = config.recurrence,
                                           .x = Whole(mixed_),
                                           .conv = Whole(layer.recurrence_conv),
                                           .conv_bias = Whole(layer.conv_bias),
                                           .decay_log = Whole(layer.decay_log),
                                           .decay_bias = Whole(layer.decay_bias),
                                           .skip = Whole(layer.skip),
                                           .norm = Whole(layer.recurrence_norm),
                                           .norm_epsilon = static_cast<float>(config.blocks.norm_epsilon),
                                           .gate_multiplier = static_cast<float>(config.blocks.state_space.z),
                                           .step_multiplier = static_cast<float>(config.blocks.state_space.step),
                                           .pool = pools.back().get(),
                                           .page_group = static_cast<int>(std::ssize(pools) - 1),
                                           .layer = static_cast<int>(layer_config.state_layer),
                                           .out = Whole(attended_)}));
}

absl::Status Forward::Inspect(int64_t index, const kernels::AttendArgs& attend,
                              std::span<const RowInspection> inspections) {
  const size_t layer = index, heads = attend.query_head_count, layers = model_.config().layer_count;
  InspectedAttention row;  // of this layer
  for (const RowInspection& inspection : inspections) {
    const size_t masses = heads * (inspection.boundaries.size() - 1);
    row.heads.resize(heads);
    row.masses.resize(masses);
    RETURN_IF_ERROR(ToStatus(model_.backend().InspectAttention(*workspace_, {.attend = attend,
                                                                             .row = static_cast<int>(inspection.row),
                                                                             .boundaries = inspection.boundaries,
                                                                             .heads = row.heads,
                                                                             .masses = row.masses})));
    InspectedAttention& result = *inspection.result;
    result.heads.resize(layers * heads);
    result.masses.resize(layers * masses);
    for (size_t i = 0; i < heads; ++i) {
      kernels::HeadAttention& sum = result.heads[layer * heads + i];
      sum.visible_count = row.heads[i].visible_count;
      sum.scale += static_cast<float>(inspection.share) * row.heads[i].scale;
      sum.log_sum_exp += inspection.share * row.heads[i].log_sum_exp;
      sum.entropy += inspection.share * row.heads[i].entropy;
      sum.largest_weight += inspection.share * row.heads[i].largest_weight;
      sum.sink_weight += inspection.share * row.heads[i].sink_weight;
    }
    for (size_t i = 0; i < masses; ++i) result.masses[layer * masses + i] += inspection.share * row.masses[i];
  }
  return absl::OkStatus();
}

absl::Status Forward::RunHead(const ForwardStep& step, ForwardOutput* output) {
  const BlockConfig& blocks = model_.config().blocks;
  output->head.assign(step.head_rows.size(), {});
  const size_t block = limits_.head_row_count_max;
  for (size_t begin = 0; begin < step.head_rows.size(); begin += block) {
    const size_t count = std::min(block, step.head_rows.size() - begin);
    RETURN_IF_ERROR(
        ToStatus(model_.backend().LmHead(*workspace_, {.residual = Whole(residual_),
                                                       .norm_kind = blocks.norm,
                                                       .norm_weight = Whole(model_.final_norm().weight),
                                                       .norm_bias = Whole(model_.final_norm().bias),
                                                       .norm_epsilon = static_cast<float>(blocks.norm_epsilon),
                                                       .weight = &model_.head(),
                                                       .bias = Whole(model_.head_bias()),
                                                       .logit_multiplier = static_cast<float>(blocks.logit_multiplier),
                                                       .logit_soft_cap = static_cast<float>(blocks.logit_soft_cap),
                                                       .rows = step.head_rows.subspan(begin, count),
                                                       .results = std::span(output->head).subspan(begin, count),
                                                       .logits = step.logits})));
  }
  return absl::OkStatus();
}

}  // namespace varifocal
