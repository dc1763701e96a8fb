#include "server/model/transformer.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "server/model/kernel_status.h"
#include "server/model/learned_terms.h"
#include "server/model/recurrence_tensors.h"
#include "server/model/tensor_loader.h"
#include "server/model/tensor_prefix.h"

namespace varifocal {
namespace {

bool HasNormBias(const BlockConfig& blocks) { return blocks.norm == kernels::NormKind::kLayer && blocks.norm_bias; }

// One layer as stored. Resolved as a whole before packing.
struct LayerStacks {
  struct Norm {
    Stack weight, bias;
  };
  struct Linear {
    Stack weight, bias;
  };
  Norm attention_norm, attention_post_norm, mlp_norm, mlp_post_norm;
  Linear query_key_value, attention_output, gate_up, up, down;
  Stack query_norm, key_norm;
  Stack attention_gate;
  LatentStacks latent;
  Linear recurrence_inputs, recurrence_output;
  Stack recurrence_conv, conv_bias, decay_log, decay_bias, skip, recurrence_norm;
  Stack router, router_bias, choice_bias, shared_gate, shared_gate_up, shared_down;  // of a mixture of experts
  std::vector<const TensorView*> activation;                                         // of xielu: see kActivationNames
  LayerPartStacks parts;
  LayerStreamStacks streams;
  double cut_share = 0;
  std::vector<std::pair<AttentionTensor, const TensorView*>> attention_tensors;  // null: an optional one is absent
};

// Resolves the tensors that a row of the table names, for the sizes of a config.
class LayerLoader {
 public:
  LayerLoader(TensorLoader& loader, const Architecture& architecture, const ModelConfig& config, std::string prefix)
      : loader_(loader), names_(architecture.names), config_(config), prefix_(std::move(prefix)) {}

  LayerStacks Take(int64_t layer) {
    layer_prefix_ = LayerPrefix(names_, prefix_, layer);
    LayerStacks stacks;
    stacks.attention_norm = Norm(names_.attention_norm);
    stacks.attention_post_norm = Norm(names_.attention_post_norm);
    const LayerConfig& parts = config_.layers[layer];
    if (parts.has_mlp && !config_.blocks.one_norm) stacks.mlp_norm = Norm(names_.mlp_norm);
    if (parts.has_mlp) stacks.mlp_post_norm = Norm(names_.mlp_post_norm);
    if (parts.is_recurrent) TakeRecurrence(stacks);
    if (parts.has_attention) TakeAttention(layer, stacks);
    if (parts.has_mlp) TakeMlp(parts, stacks);
    stacks.parts = TakeLayerParts(loader_, names_, config_, parts, layer_prefix_);
    stacks.streams = TakeLayerStreams(loader_, names_.streams, config_, layer_prefix_);
    stacks.cut_share = parts.cut_share;
    for (const char* name : names_.layer_skipped) {
      if (name != nullptr) loader_.Skip(absl::StrCat(layer_prefix_, name));
    }
    return stacks;
  }

 private:
  static void Add(const TensorView* tensor, Stack& stack) {
    if (tensor != nullptr) stack.tensors.push_back(tensor);
  }
  Stack Vector(const char* name, int64_t size, const char* suffix = ".weight") {
    Stack stack;
    if (name != nullptr) Add(loader_.Take(absl::StrCat(layer_prefix_, name, suffix), {size}), stack);
    return stack;
  }
  LayerStacks::Norm Norm(const char* name) {
    LayerStacks::Norm norm{.weight = Vector(name, config_.width), .bias = {}};
    if (HasNormBias(config_.blocks)) norm.bias = Vector(name, config_.width, ".bias");
    return norm;
  }
  LayerStacks::Linear Linear(const std::vector<NamedRows>& parts, int64_t inputs, bool has_bias) {
    LayerStacks::Linear linear;
    linear.weight.transposed = names_.transposed;
    for (const NamedRows& part : parts) {
      std::vector<int64_t> shape = {part.count, inputs};
      if (names_.transposed) std::swap(shape[0], shape[1]);
      Add(loader_.Take(absl::StrCat(layer_prefix_, part.name, ".weight"), shape), linear.weight);
      if (has_bias) Add(loader_.Take(absl::StrCat(layer_prefix_, part.name, ".bias"), {part.count}), linear.bias);
    }
    return linear;
  }
  void TakeAttention(int64_t layer, LayerStacks& stacks) {
    if (config_.latent.rank > 0) {
      stacks.latent = TakeLatent(loader_, names_, config_, layer_prefix_);
      stacks.attention_output = {std::move(stacks.latent.output), std::move(stacks.latent.output_bias)};
    } else {
      TakeHeads(config_.layers[layer], stacks);
    }
    for (const AttentionTensor& tensor : config_.attention.Tensors(AttentionModelOf(config_), layer)) {
      const std::string name = absl::StrCat(layer_prefix_, names_.attention, tensor.name);
      const TensorView* view = !tensor.stored    ? nullptr
                               : tensor.required ? loader_.Take(name, tensor.shape)
                                                 : loader_.TakeIfPresent(name, tensor.shape);
      stacks.attention_tensors.emplace_back(tensor, view);
    }
  }
  void TakeHeads(const LayerConfig& of_layer, LayerStacks& stacks) {
    const BlockConfig& blocks = config_.blocks;
    const int64_t width = config_.width;
    const int64_t head_width = HeadWidth(config_, of_layer);
    const int64_t query_width = config_.head_count * head_width;
    const int64_t kv_width = KvHeadCount(config_, of_layer) * head_width;
    const int64_t stored_query_width = blocks.attention_gate ? 2 * query_width : query_width;
    std::vector<NamedRows> apart = {{names_.query, stored_query_width}};
    if (of_layer.source_layer < 0) apart.push_back({names_.key, kv_width});
    if (of_layer.source_layer < 0 && !of_layer.keys_are_values) apart.push_back({names_.value, kv_width});
    stacks.query_key_value = names_.query_key_value != nullptr
                                 ? Fused(names_.query_key_value, blocks.query_key_value_bias)
                                 : Linear(apart, width, blocks.query_key_value_bias);
    for (Stack* stack : {&stacks.query_key_value.weight, &stacks.query_key_value.bias}) {
      if (of_layer.keys_are_values && stack->tensors.size() == 2) stack->tensors.push_back(stack->tensors[1]);
    }
    if (blocks.attention_gate) SplitGate(stacks);
    if (names_.rotary_pairs == RotaryPairs::kNeighbours) {
      for (Stack* stack : {&stacks.query_key_value.weight, &stacks.query_key_value.bias}) PutPairsInHalves(*stack);
    }
    stacks.query_norm = Vector(names_.query_norm, blocks.head_norm_over_width ? query_width : head_width);
    if (of_layer.source_layer < 0)
      stacks.key_norm = Vector(names_.key_norm, blocks.head_norm_over_width ? kv_width : head_width);
    stacks.attention_output = Linear({{names_.attention_output, width}}, query_width, blocks.attention_output_bias);
  }
  // Of each head's rows of the query tensor the first half are its query, the others its gate. There are no biases.
  void SplitGate(LayerStacks& stacks) const {
    Stack &stack = stacks.query_key_value.weight, &gate = stacks.attention_gate;
    if (stack.tensors.size() != 3) return;  // a tensor is missing
    gate.tensors = {stack.tensors[0]};
    for (int64_t head = 0; head < config_.head_count; ++head) {
      const int64_t first = 2 * head * config_.head_width;
      stack.parts.push_back(RowsOf(*stack.tensors[0], first, config_.head_width));
      gate.parts.push_back(RowsOf(*stack.tensors[0], first + config_.head_width, config_.head_width));
    }
    for (int i : {1, 2}) stack.parts.push_back(RowsOf(*stack.tensors[i], 0, stack.tensors[i]->shape[0]));
  }
  void TakeRecurrence(LayerStacks& stacks) {
    const RecurrenceNames& names = names_.recurrence;
    const kernels::RecurrenceShape& shape = config_.recurrence;
    const bool has_bias = config_.blocks.recurrence_bias;
    const RecurrenceTensors tensors = RecurrenceTensorsOf(names, shape);
    stacks.recurrence_inputs = Linear(tensors.inputs, config_.width, has_bias);
    for (Stack* stack : {&stacks.recurrence_inputs.weight, &stacks.recurrence_inputs.bias})
      PutInOrder(tensors.input_order, *stack);
    Add(loader_.Take(absl::StrCat(layer_prefix_, names.conv, ".weight"), {shape.channel_count(), 1, shape.conv_width}),
        stacks.recurrence_conv);
    PutChannelsInOrder(tensors.channel_order, shape.conv_width, stacks.recurrence_conv);
    if (config_.blocks.conv_bias) {
      stacks.conv_bias = Vector(names.conv, shape.channel_count(), ".bias");
      PutInOrder(tensors.channel_order, stacks.conv_bias);
    }
    if (shape.has_matrices()) {
      stacks.decay_log = Vector(names.decay_log, shape.value_head_count, "");
      stacks.decay_bias = Vector(names.decay_bias, shape.value_head_count, "");
    }
    if (shape.kind == kernels::RecurrenceKind::kStateSpace) {
      stacks.skip = Vector(names.skip, shape.value_head_count, "");
      if (shape.norm_group_count > 0) stacks.recurrence_norm = Vector(names.norm, shape.value_width());
    }
    if (shape.kind == kernels::RecurrenceKind::kDeltaRule) {
      stacks.recurrence_norm = Vector(names.norm, shape.value_dim);
      // Of each head.
      PutInOrder(std::vector<RowRange>(shape.value_head_count, {0, 0, shape.value_dim}), stacks.recurrence_norm);
    }
    stacks.recurrence_output = Linear({{names.output, config_.width}}, shape.value_width(), has_bias);
  }
  // Or a mixture.
  void TakeMlp(const LayerConfig& layer, LayerStacks& stacks) {
    const BlockConfig& blocks = config_.blocks;
    const int64_t width = config_.width, ffn = FeedForwardWidth(config_, layer);
    const bool is_mixture = layer.has_mixture;
    if (is_mixture) {
      TakeMixture(stacks);
    } else if (names_.gate_up != nullptr) {
      stacks.gate_up = Linear({{names_.gate_up, 2 * ffn}}, width, blocks.mlp_bias);
    } else if (names_.gate != nullptr) {
      stacks.gate_up = Linear({{names_.gate, ffn}, {names_.up, ffn}}, width, blocks.mlp_bias);
    } else {
      stacks.up = Linear({{names_.up, ffn}}, width, blocks.mlp_bias);
    }
    if (!is_mixture) stacks.down = Linear({{names_.down, width}}, ffn, blocks.mlp_bias);
    for (const char* name : kActivationNames) {
      if (names_.activation_terms == nullptr || blocks.activation != kernels::Activation::kXielu) break;
      stacks.activation.push_back(loader_.TakeNumber(absl::StrCat(layer_prefix_, names_.activation_terms, name)));
    }
  }
  void TakeMixture(LayerStacks& stacks) {
    const MixtureNames& names = names_.mixture;
    const int64_t experts = config_.mixture.expert_count, width = config_.width, ffn = config_.mixture.width;
    Stack &gate_up = stacks.gate_up.weight, &down = stacks.down.weight;
    gate_up.expert_count = down.expert_count = experts;
    const auto holds = [&](const char* name) { return loader_.Holds(absl::StrCat(layer_prefix_, name)); };
    const bool is_stacked = names.gate == nullptr || holds(names.stacked_gate_up) || holds(names.stacked_down);
    LayerStacks::Linear router =
        Linear({{is_stacked ? names.stacked_router : names.router, experts}}, width, names.router_bias);
    stacks.router = std::move(router.weight);
    stacks.router_bias = std::move(router.bias);
    if (config_.mixture.choice_bias) stacks.choice_bias = Vector(names.choice_bias, experts, "");
    const bool gated = config_.mixture.gated;
    if (names.inputs_first) {
      TakeTurns(names.stacked_gate_up, {.rows = 2 * ffn, .columns = width, .kinds = 2}, gate_up);
      TakeTurns(names.stacked_down, {.rows = width, .columns = ffn, .kinds = 1}, down);
      TakeBiases(names.stacked_gate_up_bias, {.rows = 2 * ffn, .kinds = 2}, stacks.gate_up.bias);
      TakeBiases(names.stacked_down_bias, {.rows = width, .kinds = 1}, stacks.down.bias);
    } else if (is_stacked) {
      Add(loader_.Take(absl::StrCat(layer_prefix_, names.stacked_gate_up), {experts, (gated ? 2 : 1) * ffn, width}),
          gate_up);
      Add(loader_.Take(absl::StrCat(layer_prefix_, names.stacked_down), {experts, width, ffn}), down);
    }
    for (int64_t e = 0; !is_stacked && e < experts; ++e) {
      const auto take = [&](const char* name, std::vector<int64_t> shape, Stack& stack) {
        const std::string of_expert = absl::StrReplaceAll(name, {{"{}", absl::StrCat(e)}});
        Add(loader_.Take(absl::StrCat(layer_prefix_, of_expert, ".weight"), std::move(shape)), stack);
      };
      if (gated) take(names.gate, {ffn, width}, gate_up);
      take(names.up, {ffn, width}, gate_up);
      take(names.down, {width, ffn}, down);
    }
    if (const int64_t shared = config_.mixture.shared_width; shared > 0) {
      if (config_.mixture.shared_gate)
        stacks.shared_gate = Linear({{names.shared_gate_of_row, 1}}, width, false).weight;
      const std::vector<NamedRows> fused = {{names.shared_gate_up, 2 * shared}};
      std::vector<NamedRows> apart = {{names.shared_up, shared}};
      if (gated) apart.insert(apart.begin(), {names.shared_gate, shared});
      stacks.shared_gate_up = Linear(names.shared_gate_up != nullptr ? fused : apart, width, false).weight;
      stacks.shared_down = Linear({{names.shared_down, width}}, shared, false).weight;
    }
  }
  // Inputs first, outputs of gates and ups in turn.
  void TakeTurns(const char* name, Stack::Turns turns, Stack& stack) {
    const int64_t experts = config_.mixture.expert_count;
    stack.turns = turns;
    Add(loader_.Take(absl::StrCat(layer_prefix_, name), {experts, turns.columns, turns.rows}), stack);
  }
  void TakeBiases(const char* name, Stack::Turns turns, Stack& stack) {
    stack.expert_count = config_.mixture.expert_count;
    turns.columns = 1;
    stack.turns = turns;
    Add(loader_.Take(absl::StrCat(layer_prefix_, name), {stack.expert_count, turns.rows}), stack);
  }
  // Of each head of queries and keys: the first of all rotated pairs, the second of all, and what is not rotated.
  void PutPairsInHalves(Stack& stack) const {
    if (stack.tensors.size() != 3) return;  // no biases, or a tensor is missing
    const int64_t head_width = config_.head_width, rotary = config_.ropes[0].RotaryWidth(head_width);
    for (const TensorView* tensor : stack.tensors) {
      if (tensor == stack.tensors[2]) {
        stack.parts.push_back(RowsOf(*tensor, 0, tensor->shape[0]));
        continue;
      }
      for (int64_t first = 0; first < tensor->shape[0]; first += head_width) {
        for (int64_t i = 0; i < rotary; ++i) {
          const int64_t pair = i % (rotary / 2), member = i / (rotary / 2);
          stack.parts.push_back(RowsOf(*tensor, first + 2 * pair + member, 1));
        }
        if (rotary < head_width) stack.parts.push_back(RowsOf(*tensor, first + rotary, head_width - rotary));
      }
    }
  }
  // One tensor of queries, keys and values.
  LayerStacks::Linear Fused(const char* name, bool has_bias) {
    const int64_t heads = config_.head_count, head_width = config_.head_width;
    LayerStacks::Linear linear =
        Linear({{name, (heads + 2 * config_.kv_head_count) * head_width}}, config_.width, has_bias);
    if (names_.fused_order == FusedOrder::kStacked) return linear;
    for (Stack* stack : {&linear.weight, &linear.bias}) {
      for (int64_t kind = 0; !stack->tensors.empty() && kind < 3; ++kind) {
        for (int64_t head = 0; head < heads; ++head)
          stack->parts.push_back(RowsOf(*stack->tensors[0], (3 * head + kind) * head_width, head_width));
      }
    }
    return linear;
  }

  TensorLoader& loader_;
  const TensorNames& names_;
  const ModelConfig& config_;
  const std::string prefix_;
  std::string layer_prefix_;
};

absl::StatusOr<NormWeights> PackNorm(TensorPacker& packer, const LayerStacks::Norm& stacks, const BlockConfig& blocks) {
  NormWeights norm;
  ASSIGN_OR_RETURN(norm.weight, packer.Vector(stacks.weight, blocks.norms_add_one ? 1 : 0));
  ASSIGN_OR_RETURN(norm.bias, packer.Vector(stacks.bias));
  return norm;
}

absl::StatusOr<LinearWeights> PackLinear(TensorPacker& packer, const LayerStacks::Linear& stacks,
                                         kernels::WeightUse use = kernels::WeightUse::kPlain) {
  LinearWeights linear;
  ASSIGN_OR_RETURN(linear.weight, packer.Matrix(stacks.weight, use));
  ASSIGN_OR_RETURN(linear.bias, packer.Vector(stacks.bias));
  return linear;
}

// Experts may have no gates; those that are cut are read before the ups are.
kernels::WeightUse GateUpUse(const ModelConfig& config, const LayerStacks& stacks) {
  const bool gated = (stacks.router.tensors.empty() || config.mixture.gated) && stacks.cut_share == 0;
  return gated ? kernels::WeightUse::kGateUp : kernels::WeightUse::kPlain;
}

// Norms whose rows one product reads and nothing after it. What reads them before it (learned tau, routing of groups) may.
void MarkNormsReadOnce(LayerWeights& layer, const ModelConfig& config) {
  if (config.blocks.parallel_residual || config.streams.count > 0) return;
  layer.attention_norm.read_once = layer.query_key_value.weight != nullptr && layer.latent.keys_values == nullptr &&
                                   layer.recurrence_inputs.weight == nullptr && layer.attention_gate == nullptr;
  layer.mlp_norm.read_once =
      layer.router == nullptr && layer.parts.router_norm == nullptr && !layer.cut_deviations.has_value();
}

absl::StatusOr<LayerWeights> PackLayer(TensorPacker& packer, const LayerStacks& stacks, const ModelConfig& config,
                                       kernels::Backend& backend) {
  const BlockConfig& blocks = config.blocks;
  const float added = blocks.norms_add_one ? 1 : 0;
  LayerWeights layer;
  ASSIGN_OR_RETURN(layer.attention_norm, PackNorm(packer, stacks.attention_norm, blocks));
  ASSIGN_OR_RETURN(layer.query_key_value, PackLinear(packer, stacks.query_key_value));
  ASSIGN_OR_RETURN(layer.latent, PackLatent(packer, stacks.latent));
  ASSIGN_OR_RETURN(layer.query_norm, packer.Vector(stacks.query_norm, added));
  ASSIGN_OR_RETURN(layer.key_norm, packer.Vector(stacks.key_norm, added));
  ASSIGN_OR_RETURN(layer.attention_gate, packer.Matrix(stacks.attention_gate, kernels::WeightUse::kPlain));
  ASSIGN_OR_RETURN(layer.recurrence_inputs, PackLinear(packer, stacks.recurrence_inputs));
  ASSIGN_OR_RETURN(layer.recurrence_output, PackLinear(packer, stacks.recurrence_output));
  ASSIGN_OR_RETURN(layer.recurrence_conv,
                   packer.Vector(stacks.recurrence_conv, 0, ChannelMultipliers(config.recurrence, blocks.state_space)));
  ASSIGN_OR_RETURN(layer.conv_bias, packer.Vector(stacks.conv_bias));
  ASSIGN_OR_RETURN(layer.decay_log, packer.Vector(stacks.decay_log));
  ASSIGN_OR_RETURN(layer.decay_bias, packer.Vector(stacks.decay_bias));
  ASSIGN_OR_RETURN(layer.skip, packer.Vector(stacks.skip));
  ASSIGN_OR_RETURN(layer.recurrence_norm, packer.Vector(stacks.recurrence_norm));
  ASSIGN_OR_RETURN(layer.attention_output, PackLinear(packer, stacks.attention_output));
  ASSIGN_OR_RETURN(layer.attention_post_norm, PackNorm(packer, stacks.attention_post_norm, blocks));
  ASSIGN_OR_RETURN(layer.mlp_norm, PackNorm(packer, stacks.mlp_norm, blocks));
  ASSIGN_OR_RETURN(layer.gate_up, PackLinear(packer, stacks.gate_up, GateUpUse(config, stacks)));
  ASSIGN_OR_RETURN(layer.up, PackLinear(packer, stacks.up));
  ASSIGN_OR_RETURN(layer.down, PackLinear(packer, stacks.down));
  ASSIGN_OR_RETURN(layer.mlp_post_norm, PackNorm(packer, stacks.mlp_post_norm, blocks));
  ASSIGN_OR_RETURN(layer.router, packer.Vector(stacks.router));
  ASSIGN_OR_RETURN(layer.router_bias, packer.Vector(stacks.router_bias));
  ASSIGN_OR_RETURN(layer.choice_bias, packer.Vector(stacks.choice_bias));
  layer.activation_terms = blocks.activation_terms;
  if (!stacks.activation.empty()) {
    ASSIGN_OR_RETURN(layer.activation_terms, LearnedTerms(packer, stacks.activation));
  }
  ASSIGN_OR_RETURN(layer.shared_gate, packer.Vector(stacks.shared_gate));
  ASSIGN_OR_RETURN(layer.shared_gate_up, packer.Matrix(stacks.shared_gate_up, GateUpUse(config, stacks)));
  ASSIGN_OR_RETURN(layer.shared_down, packer.Matrix(stacks.shared_down, kernels::WeightUse::kPlain));
  ASSIGN_OR_RETURN(layer.parts, PackLayerParts(packer, stacks.parts, config, backend));
  ASSIGN_OR_RETURN(layer.streams, PackLayerStreams(packer, stacks.streams, config));
  if (stacks.cut_share > 0) layer.cut_deviations = static_cast<float>(DeviationsBelow(stacks.cut_share));
  for (const auto& [tensor, view] : stacks.attention_tensors) {
    ASSIGN_OR_RETURN(LoadedAttentionTensor loaded, packer.AttentionVector(view, tensor));
    layer.attention_tensors.push_back(std::move(loaded));
  }
  MarkNormsReadOnce(layer, config);
  return layer;
}

// Bytes of the matrices that PackLayer packs.
int64_t LayerBytes(const TensorPacker& packer, const LayerStacks& stacks, const ModelConfig& config) {
  int64_t bytes = LatentBytes(packer, stacks.latent) +
                  packer.MatrixBytes(stacks.gate_up.weight, GateUpUse(config, stacks)) +
                  packer.MatrixBytes(stacks.shared_gate_up, GateUpUse(config, stacks)) +
                  packer.MatrixBytes(stacks.shared_down, kernels::WeightUse::kPlain) +
                  packer.MatrixBytes(stacks.attention_gate, kernels::WeightUse::kPlain) +
                  LayerPartBytes(packer, stacks.parts) + LayerStreamBytes(packer, stacks.streams);
  for (const LayerStacks::Linear* linear :
       {&stacks.query_key_value, &stacks.recurrence_inputs, &stacks.recurrence_output, &stacks.attention_output,
        &stacks.up, &stacks.down})
    bytes += packer.MatrixBytes(linear->weight, kernels::WeightUse::kPlain);
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Load(const Architecture& architecture,
                                                               const ModelConfig& config, const WeightSource& source,
                                                               std::shared_ptr<kernels::Backend> backend,
                                                               const TensorDigests& digests, const Admit& admit) {
  const TensorNames& names = architecture.names;
  TensorLoader loader(source);
  auto weight_of = [](absl::string_view prefix, const char* name) { return absl::StrCat(prefix, name, ".weight"); };
  ASSIGN_OR_RETURN(const std::string prefix, PrefixOf(names, config, source));

  const TensorView* embedding = loader.Take(weight_of(prefix, names.embedding), {config.vocabulary_size, config.width});
  Stack positions, head;
  if (names.positions != nullptr)
    positions = Stack::Of({loader.Take(weight_of(prefix, names.positions), {config.max_position, config.width})});
  LayerStacks::Norm final_norm{.weight = Stack::Of({loader.Take(weight_of(prefix, names.final_norm), {config.width})}),
                               .bias = {}};
  if (HasNormBias(config.blocks))
    final_norm.bias = Stack::Of({loader.Take(absl::StrCat(prefix, names.final_norm, ".bias"), {config.width})});
  const char* head_name = names.head;
  const Wrapper* wrapper = FindWrapper(config.wrapper);
  for (const char* older : {names.older_head, wrapper == nullptr ? nullptr : wrapper->older_head}) {
    if (older != nullptr && loader.Holds(weight_of("", older))) head_name = older;
  }
  for (size_t i = 0; wrapper != nullptr && i < std::size(wrapper->skipped); ++i) {
    if (wrapper->skipped[i] != nullptr) loader.SkipPrefix(wrapper->skipped[i]);
  }
  const std::vector<int64_t> head_shape = {config.vocabulary_size, config.width};
  const TensorView* stored_head = config.tied_embeddings ? loader.TakeIfPresent(weight_of("", head_name), head_shape)
                                                         : loader.Take(weight_of("", head_name), head_shape);
  Stack head_bias;
  if (names.head_bias) head_bias = Stack::Of({loader.Take(absl::StrCat(head_name, ".bias"), {config.vocabulary_size})});
  if (names.skipped_prefix != nullptr) loader.SkipPrefix(names.skipped_prefix);
  if (names.skipped != nullptr) loader.Skip(absl::StrCat(prefix, names.skipped));
  const LayerInputStacks layer_inputs = TakeLayerInputs(loader, names.layer_inputs, config, prefix);
  const StreamStacks streams = TakeStreams(loader, names.streams, config, prefix);
  for (int64_t layer = config.layer_count; layer < config.layer_count + config.further_layers; ++layer)
    loader.SkipPrefix(LayerPrefix(names, prefix, layer));
  LayerLoader layer_loader(loader, architecture, config, prefix);
  std::vector<LayerStacks> layers;
  for (int64_t layer = 0; layer < config.layer_count; ++layer) layers.push_back(layer_loader.Take(layer));
  RETURN_IF_ERROR(loader.Finish());
  bool is_tied = config.tied_embeddings;
  if (is_tied && stored_head != nullptr) {
    // Some exports store the tied matrix twice; others store a head of their own beside a key, or its default, that ties.
    ASSIGN_OR_RETURN(is_tied, HaveSameValues(source, digests, *embedding, *stored_head));
    if (is_tied) loader.Uncount(*stored_head);
  }
  if (!is_tied) head = Stack::Of({stored_head});

  auto model = std::unique_ptr<Transformer>(new Transformer);
  model->config_ = config;
  model->config_.tied_embeddings = is_tied;
  model->backend_ = std::move(backend);
  model->parameter_count_ = loader.parameter_count();
  for (size_t group = 0; group < config.page_groups.size(); ++group)
    RETURN_IF_ERROR(ToStatus(model->backend_->CheckShape(model->KvShape(group))));
  TensorPacker packer(*model->backend_, source, digests);
  using kernels::WeightUse;
  const WeightUse embedding_use = is_tied ? WeightUse::kEmbeddingAndHead : WeightUse::kEmbedding;
  if (admit) {
    int64_t needed_bytes = packer.MatrixBytes(Stack::Of({embedding}), embedding_use) +
                           packer.MatrixBytes(positions, WeightUse::kEmbedding) +
                           packer.MatrixBytes(head, WeightUse::kHead) + LayerInputBytes(packer, layer_inputs) +
                           StreamBytes(packer, streams);
    for (const LayerStacks& stacks : layers) needed_bytes += LayerBytes(packer, stacks, config);
    RETURN_IF_ERROR(admit(*model->backend_, needed_bytes));
  }
  ASSIGN_OR_RETURN(model->embedding_, packer.Matrix(Stack::Of({embedding}), embedding_use));
  ASSIGN_OR_RETURN(model->positions_, packer.Matrix(positions, WeightUse::kEmbedding));
  ASSIGN_OR_RETURN(model->head_, packer.Matrix(head, WeightUse::kHead));
  ASSIGN_OR_RETURN(model->head_bias_, packer.Vector(head_bias));
  ASSIGN_OR_RETURN(model->final_norm_, PackNorm(packer, final_norm, config.blocks));
  ASSIGN_OR_RETURN(model->layer_inputs_, PackLayerInputs(packer, layer_inputs));
  ASSIGN_OR_RETURN(model->streams_, PackStreams(packer, streams));
  for (const LayerStacks& stacks : layers) {
    ASSIGN_OR_RETURN(LayerWeights packed, PackLayer(packer, stacks, config, *model->backend_));
    model->layers_.push_back(std::move(packed));
  }
  for (const auto& file : source.files()) file->Release(file->bytes());
  model->weight_bytes_ = packer.matrix_bytes();
  return model;
}

}  // namespace varifocal
