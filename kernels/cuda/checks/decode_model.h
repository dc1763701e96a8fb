// A model whose decode steps are compared: layers of random weights, run operation by operation as in kernels/backend.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "base/wide_product.h"
#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/cuda_workspace.h"
#include "kernels/cuda/emulator/fibers.h"

namespace varifocal::kernels::cuda {

struct DecodeCase {
  std::string name;
  int head_dim = 64, query_heads = 4, kv_heads = 2, width = 256, ffn = 192;
  std::vector<int> contexts = {200};  // keys before the row, by sequence
  int layers = 2, window = 0;
  int kernels_per_layer = 5;  // fused; separate ones are 10
  bool norm_first = false;    // fused: a kernel more, before the first layer
  bool biases = false, head_norms = false, value_norms = false, norm_after_rotation = false, norm_over_width = false;
  bool gated = true, rotates = true, read_once = true, layer_norm = false;
  int rotary_dim = 0;  // 0: all of the head
  float clip = 0, scale = 0.2f;
  // Values of the first two of `cancel_parts` parts of so many keys cancel, those of others are small.
  int cancel_keys = 0, cancel_parts = 1 << 20;
};

// What a decode step leaves.
struct StepResult {
  std::vector<float> residual, attended, keys_values;
  int64_t launches = 0;
  int64_t first_launch = 0;  // emulator::LaunchCount() during it
};

inline size_t Different(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  size_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) different += std::memcmp(&a[i], &b[i], sizeof a[i]) != 0;
  return different;
}
inline std::string Compare(const StepResult& want, const StepResult& got, const std::string& what) {
  for (const auto& [name, a, b] : {std::tuple{"of the residual", &want.residual, &got.residual},
                                   std::tuple{"of attention", &want.attended, &got.attended},
                                   std::tuple{"of keys and values", &want.keys_values, &got.keys_values}}) {
    if (const size_t count = Different(*a, *b); count != 0)
      return what + ": " + std::to_string(count) + " numbers " + name + " have other bits";
  }
  for (const float number : want.residual) {
    if (!std::isfinite(number)) return what + ": a number is not finite";
  }
  return "";
}

class DecodeModel {
 public:
  DecodeModel(Backend& backend, const DecodeCase& c) : backend_(backend), c_(c) {
    const int attended = c.query_heads * c.head_dim, projected = attended + 2 * c.kv_heads * c.head_dim;
    const int hidden = c.gated ? 2 * c.ffn : c.ffn;
    uint64_t seed = 1;
    const auto weight = [&](int outputs, int inner, WeightUse use) {
      const float amplitude = 2.0f / std::sqrt(static_cast<float>(inner));
      return MakeWeight(backend, UniformVector(++seed, WideProduct(outputs, inner), amplitude), outputs, inner, use);
    };
    const auto vector = [&](int count, float base) {
      std::vector<float> numbers = UniformVector(++seed, count, 0.5f);
      for (float& number : numbers) number += base;
      return Upload(backend, numbers);
    };
    for (int i = 0; i < c.layers; ++i) {
      Layer layer;
      layer.qkv = weight(projected, c.width, WeightUse::kPlain);
      layer.output = weight(c.width, attended, WeightUse::kPlain);
      layer.up = weight(hidden, c.width, c.gated ? WeightUse::kGateUp : WeightUse::kPlain);
      layer.down = weight(c.width, c.ffn, WeightUse::kPlain);
      layer.attention_norm = vector(c.width, 1);
      layer.mlp_norm = vector(c.width, 1);
      layer.query_norm = vector(c.norm_over_width ? attended : c.head_dim, 1);
      layer.key_norm = vector(c.norm_over_width ? c.kv_heads * c.head_dim : c.head_dim, 1);
      layer.value_norm = vector(c.head_dim, 1);
      layer.qkv_bias = vector(projected, 0);
      layer.output_bias = vector(c.width, 0);
      layer.up_bias = vector(hidden, 0);
      layer.norm_bias = vector(c.width, 0);
      layers_.push_back(std::move(layer));
    }
    context_max_ = *std::max_element(c.contexts.begin(), c.contexts.end()) + 2;
    const int rotary = c.rotary_dim == 0 ? c.head_dim : c.rotary_dim, half = rotary / 2;
    std::vector<float> cosines, sines;
    for (int position = 0; position < context_max_; ++position) {
      for (int i = 0; i < half; ++i) {
        cosines.push_back(std::cos(position * std::pow(100.0f, -static_cast<float>(i) / half)));
        sines.push_back(std::sin(position * std::pow(100.0f, -static_cast<float>(i) / half)));
      }
    }
    rope_ = Take(backend.CreateRopeTable({cosines, sines, context_max_, rotary}));
    for (const int context : c.contexts) {
      tables_.emplace_back();
      for (int at = 0; at <= context; at += kPageTokens) tables_.back().push_back(pages_++);
    }
    pool_ = Take(
        backend.CreateKvPool({.layer_count = c.layers, .kv_head_count = c.kv_heads, .head_dim = c.head_dim}, pages_));
    const int rows = std::max<int>(context_max_, c.contexts.size());
    workspace_ = SmallWorkspace(backend, {.row_count_max = rows,
                                          .sequence_count_max = static_cast<int>(c.contexts.size()),
                                          .head_row_count_max = static_cast<int>(c.contexts.size()),
                                          .context_length_max = context_max_,
                                          .model_dim = c.width,
                                          .query_head_count = c.query_heads,
                                          .kv_head_count = c.kv_heads,
                                          .head_dim = c.head_dim,
                                          .ffn_dim = c.ffn,
                                          .vocab_size = 64});
    head_ = weight(64, c.width, WeightUse::kHead);
    residual_ = Empty(backend, WideProduct(rows, c.width));
    normed_ = EmptyOperands(backend, WideProduct(rows, c.width));
    queries_ = Empty(backend, WideProduct(rows, attended));
    attended_ = EmptyOperands(backend, WideProduct(rows, attended));
    hidden_ = EmptyOperands(backend, WideProduct(rows, c.ffn));
    for (size_t s = 0; s < c.contexts.size(); ++s) Prefill(s);
  }

  // Sequences [first, first + count) in one step.
  StepResult Decode(int first, int count, bool as_graph = false, bool abandon = false) {
    BeginDecode(first, count);
    if (as_graph) backend_.QueueWithHead(*workspace_);
    StepResult result;
    const int64_t before = emulator::LaunchCount();
    CheckOk(backend_.Norm(*workspace_, NormOf(layers_[0].attention_norm, layers_[0])));
    if (abandon) {
      Project(0);
      backend_.EndStep(*workspace_);
      return result;
    }
    for (int i = 0; i < c_.layers; ++i) RunLayer(i);
    result.first_launch = before + 1;
    result.launches = emulator::LaunchCount() - before;
    std::vector<HeadResult> heads(1);
    const HeadRow head{.row = 0, .logits_slot = -1};
    CheckOk(backend_.LmHead(*workspace_, {.residual = {residual_.get(), 0},
                                          .norm_weight = {layers_[0].mlp_norm.get(), 0},
                                          .norm_epsilon = kEpsilon,
                                          .weight = head_.get(),
                                          .rows = {&head, 1},
                                          .results = heads}));
    backend_.EndStep(*workspace_);
    result.residual = Download(backend_, *residual_, WideProduct(count, c_.width));
    result.residual.push_back(heads[0].log_sum_exp);
    result.attended = DownloadOperands(backend_, *attended_, WideProduct(count, c_.query_heads, c_.head_dim));
    const size_t numbers = WideProduct(kPageTokens, c_.kv_heads, c_.head_dim);
    for (int i = 0; i < c_.layers; ++i) {
      for (int s = first; s < first + count; ++s) {
        std::vector<float> keys(numbers), values(numbers);
        CheckOk(backend_.ReadPage(*pool_, i, tables_[s].back(), c_.contexts[s] % kPageTokens + 1, keys.data(),
                                  values.data()));
        for (const auto* part : {&keys, &values})
          result.keys_values.insert(result.keys_values.end(), part->begin(), part->end());
      }
    }
    return result;
  }
  // A step of all sequences that ends within its first layer.
  void Abandon() {
    const int count = static_cast<int>(c_.contexts.size());
    Decode(0, count, false, true);
  }
  const CudaWorkspace& workspace() const { return static_cast<const CudaWorkspace&>(*workspace_); }
  // In the order in which a step reads them.
  std::vector<const CudaWeight*> weights() const {
    std::vector<const CudaWeight*> all;
    for (const Layer& layer : layers_) {
      for (const auto* weight : {&layer.qkv, &layer.output, &layer.up, &layer.down}) all.push_back(&Own(**weight));
    }
    all.push_back(&Own(*head_));
    return all;
  }
  // Weights of equal numbers elsewhere in memory.
  void ReplaceDown(int layer) {
    layers_[layer].down = MakeWeight(backend_, UniformVector(77, WideProduct(c_.width, c_.ffn), 0.1f), c_.width, c_.ffn,
                                     WeightUse::kPlain);
  }

  // Keys and values of a sequence's context, of every layer.
  void Prefill(int s) {
    const int rows = c_.contexts[s];
    if (rows == 0) return;
    const std::span<const int32_t> table = tables_[s];
    const SequenceRows sequence{.row_count = rows, .page_tables = {&table, 1}};
    CheckOk(backend_.BeginStep(*workspace_, {.sequences = {&sequence, 1}}));
    for (int i = 0; i < c_.layers; ++i) {
      std::vector<float> numbers = UniformVector(500 + 10 * s + i, WideProduct(rows, c_.width));
      const std::vector<float> row(numbers.begin(), numbers.begin() + c_.width);
      for (size_t n = 0; c_.cancel_keys > 0 && n < numbers.size(); ++n) {
        const size_t part = n / c_.width / c_.cancel_keys % c_.cancel_parts;
        numbers[n] = row[n % c_.width] * (part == 0 ? 0x1p20f : part == 1 ? -0x1p20f : 1.0f);
      }
      WriteOperands(backend_, {normed_.get(), 0}, numbers);
      Project(i);
    }
    backend_.EndStep(*workspace_);
  }

 protected:
  struct Layer {
    std::unique_ptr<Weight> qkv, output, up, down;
    std::unique_ptr<Buffer> attention_norm, mlp_norm, query_norm, key_norm, value_norm, qkv_bias, output_bias, up_bias,
        norm_bias;
  };

  static constexpr float kEpsilon = 1e-5f;
  NormArgs NormOf(const std::unique_ptr<Buffer>& weight, const Layer& layer) const {
    NormArgs args{.kind = c_.layer_norm ? NormKind::kLayer : NormKind::kRms,
                  .x = {residual_.get(), 0},
                  .weight = {weight.get(), 0},
                  .epsilon = kEpsilon,
                  .out = {normed_.get(), 0},
                  .read_once = c_.read_once};
    if (c_.layer_norm) args.bias = {layer.norm_bias.get(), 0};
    return args;
  }
  Slice If(bool wanted, const std::unique_ptr<Buffer>& buffer) const {
    return wanted ? Slice{buffer.get(), 0} : Slice{};
  }
  void Project(int i) {
    const Layer& layer = layers_[i];
    const RopeTable* const ropes[] = {rope_.get()};
    CheckOk(backend_.QkvRopeWrite(*workspace_, {.x = {normed_.get(), 0},
                                                .weight = layer.qkv.get(),
                                                .bias = If(c_.biases, layer.qkv_bias),
                                                .query_norm = If(c_.head_norms, layer.query_norm),
                                                .key_norm = If(c_.head_norms, layer.key_norm),
                                                .value_norm = If(c_.value_norms, layer.value_norm),
                                                .norm_over_width = c_.norm_over_width,
                                                .norm_after_rotation = c_.norm_after_rotation,
                                                .norm_epsilon = kEpsilon,
                                                .clip = c_.clip,
                                                .query_head_count = c_.query_heads,
                                                .rope_tables = c_.rotates ? std::span<const RopeTable* const>(ropes)
                                                                          : std::span<const RopeTable* const>(),
                                                .pool = pool_.get(),
                                                .layer = i,
                                                .queries = {queries_.get(), 0}}));
  }
  void RunLayer(int i) {
    const Layer& layer = layers_[i];
    const bool is_last = i + 1 == c_.layers;
    const NormArgs of_mlp = NormOf(layer.mlp_norm, layer);
    const NormArgs next = is_last ? NormArgs{} : NormOf(layers_[i + 1].attention_norm, layer);
    Project(i);
    CheckOk(backend_.Attend(*workspace_, {.queries = {queries_.get(), 0},
                                          .query_head_count = c_.query_heads,
                                          .pool = pool_.get(),
                                          .layer = i,
                                          .scale = c_.scale,
                                          .out = {attended_.get(), 0}}));
    CheckOk(backend_.LinearResidual(*workspace_, {.x = {attended_.get(), 0},
                                                  .weight = layer.output.get(),
                                                  .bias = If(c_.biases, layer.output_bias),
                                                  .multiplier = 0.7f,
                                                  .residual = {residual_.get(), 0},
                                                  .next_norm = &of_mlp}));
    if (c_.gated) {
      CheckOk(backend_.LinearGated(*workspace_, {.x = {normed_.get(), 0},
                                                 .weight = layer.up.get(),
                                                 .bias = If(c_.biases, layer.up_bias),
                                                 .out = {hidden_.get(), 0}}));
    } else {
      CheckOk(backend_.Linear(*workspace_, {.x = {normed_.get(), 0},
                                            .weight = layer.up.get(),
                                            .bias = If(c_.biases, layer.up_bias),
                                            .activation = Activation::kGeluTanh,
                                            .out = {hidden_.get(), 0}}));
    }
    CheckOk(backend_.LinearResidual(*workspace_, {.x = {hidden_.get(), 0},
                                                  .weight = layer.down.get(),
                                                  .residual = {residual_.get(), 0},
                                                  .next_norm = is_last ? nullptr : &next}));
  }
  // Sequences [first, first + count), with the residual's rows.
  void BeginDecode(int first, int count) {
    step_tables_.assign(tables_.begin() + first, tables_.begin() + first + count);
    step_rows_.clear();
    step_mask_.clear();
    std::vector<float> residual;
    for (int i = 0; i < count; ++i) {
      const int position = c_.contexts[first + i];
      step_rows_.push_back({.row_count = 1, .first_position = position, .page_tables = {&step_tables_[i], 1}});
      step_mask_.push_back({c_.window == 0 ? 0 : std::max(0, position + 1 - c_.window), position + 1});
      const std::vector<float> one = UniformVector(1000 + first + i, c_.width, 2.0f);
      residual.insert(residual.end(), one.begin(), one.end());
    }
    step_masks_ = step_mask_;
    CheckOk(backend_.Write({residual_.get(), 0}, residual.data(), residual.size() * sizeof(float)));
    CheckOk(backend_.BeginStep(*workspace_,
                               {.phase = Phase::kDecode, .sequences = step_rows_, .masks = {&step_masks_, 1}}));
  }

  Backend& backend_;
  const DecodeCase c_;
  std::vector<Layer> layers_;
  std::unique_ptr<Weight> head_;
  std::unique_ptr<RopeTable> rope_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<Buffer> residual_, normed_, queries_, attended_, hidden_;
  std::vector<std::vector<int32_t>> tables_;
  int pages_ = 0, context_max_ = 0;
  // Of the step that has begun.
  std::vector<std::span<const int32_t>> step_tables_;
  std::vector<SequenceRows> step_rows_;
  std::vector<RowInterval> step_mask_;
  std::span<const RowInterval> step_masks_;
};

}  // namespace varifocal::kernels::cuda
