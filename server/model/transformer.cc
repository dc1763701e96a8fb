#include "server/model/transformer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "server/model/kernel_status.h"

namespace varifocal {
namespace {

// Takes tensors by name and shape out of a source, and remembers what was taken and what was not there.
class TensorTaker {
 public:
  explicit TensorTaker(const WeightSource& source) : source_(source) {}

  // Null when missing (remembered) or of another shape (the first such error is kept).
  const TensorView* Take(const std::string& name, std::vector<int64_t> shape) {
    const TensorView* tensor = Find(name);
    if (tensor == nullptr) {
      missing_.push_back(name);
      return nullptr;
    }
    parameter_count_ += tensor->element_count();
    if (tensor->shape != shape) {
      Fail(absl::StrCat("tensor ", name, " has shape ", ShapeToString(tensor->shape), "; the config implies ",
                        ShapeToString(shape)));
      return nullptr;
    }
    if (const int64_t at = FirstNotFinite(*tensor); at >= 0) {
      Fail(absl::StrCat("tensor ", name, " has a value that is not finite, at element ", at));
      return nullptr;
    }
    return tensor;
  }
  const TensorView* TakeIfPresent(const std::string& name, std::vector<int64_t> shape) {
    return source_.tensors().contains(name) ? Take(name, std::move(shape)) : nullptr;
  }
  void Skip(const std::string& name) { taken_.insert(name); }

  int64_t parameter_count() const { return parameter_count_; }

  absl::Status Finish() const {
    RETURN_IF_ERROR(status_);
    if (!missing_.empty()) return Listed("the weights lack", missing_);
    std::vector<std::string> unexpected;
    for (const auto& [name, tensor] : source_.tensors()) {
      if (!taken_.contains(name)) unexpected.push_back(name);
    }
    if (!unexpected.empty()) return Listed("the weights hold, and the config does not explain,", unexpected);
    return absl::OkStatus();
  }

 private:
  const TensorView* Find(const std::string& name) {
    taken_.insert(name);
    auto it = source_.tensors().find(name);
    return it == source_.tensors().end() ? nullptr : &it->second;
  }
  void Fail(std::string message) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(std::move(message));
  }
  static absl::Status Listed(absl::string_view what, const std::vector<std::string>& names) {
    const auto shown = absl::MakeConstSpan(names).subspan(0, 5);
    return absl::InvalidArgumentError(absl::StrCat(what, " ", names.size(), " tensor", names.size() == 1 ? "" : "s",
                                                   ": ", absl::StrJoin(shown, ", "), names.size() > 5 ? ", .." : ""));
  }

  const WeightSource& source_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> missing_;
  absl::Status status_;
  int64_t parameter_count_ = 0;
};

// The views of one layer; null where absent. Checked as a whole before anything is packed.
struct LayerViews {
  const TensorView *input_norm, *query, *key, *value, *output, *post_norm, *gate, *up, *down;
  const TensorView *query_bias = nullptr, *key_bias = nullptr, *value_bias = nullptr, *output_bias = nullptr;
  const TensorView *tau = nullptr, *tau_bias = nullptr;
};

LayerViews TakeLayer(TensorTaker& taker, const TensorNames& names, const ModelConfig& config, int64_t layer) {
  const int64_t query_width = config.head_count * config.head_width;
  const int64_t kv_width = config.kv_head_count * config.head_width;
  auto matrix = [&](const char* pattern, int64_t rows, int64_t columns) {
    return taker.Take(LayerTensorName(pattern, layer, ".weight"), {rows, columns});
  };
  auto bias = [&](const char* pattern, int64_t rows) {
    return taker.Take(LayerTensorName(pattern, layer, ".bias"), {rows});
  };
  LayerViews views;
  views.input_norm = taker.Take(LayerTensorName(names.input_norm, layer, ""), {config.width});
  views.query = matrix(names.query, query_width, config.width);
  views.key = matrix(names.key, kv_width, config.width);
  views.value = matrix(names.value, kv_width, config.width);
  views.output = matrix(names.attention_output, config.width, query_width);
  views.post_norm = taker.Take(LayerTensorName(names.post_attention_norm, layer, ""), {config.width});
  views.gate = matrix(names.gate, config.feed_forward_width, config.width);
  views.up = matrix(names.up, config.feed_forward_width, config.width);
  views.down = matrix(names.down, config.width, config.feed_forward_width);
  if (config.attention_bias) {
    views.query_bias = bias(names.query, query_width);
    views.key_bias = bias(names.key, kv_width);
    views.value_bias = bias(names.value, kv_width);
    views.output_bias = bias(names.attention_output, config.width);
  }
  if (config.attention.mode == AttentionMode::kFocalLearned) {
    views.tau = taker.Take(LayerTensorName(names.tau, layer, ".weight"), {config.width});
    views.tau_bias = taker.TakeIfPresent(LayerTensorName(names.tau, layer, ".bias"), {1});
  }
  for (const char* pattern : names.skipped) taker.Skip(LayerTensorName(pattern, layer, ""));
  return views;
}

absl::StatusOr<std::unique_ptr<kernels::Buffer>> MakeVector(kernels::Backend& backend,
                                                            absl::Span<const TensorView* const> parts) {
  std::vector<float> values;
  for (const TensorView* part : parts) {
    const size_t at = values.size();
    values.resize(at + static_cast<size_t>(part->element_count()));
    kernels::WidenRow(ToHostMatrix(*part), 0, values.data() + at);
  }
  return ToStatusOr(backend.CreateVector({.dtype = kernels::DType::kF32,
                                          .data = values.data(),
                                          .rows = 1,
                                          .columns = static_cast<int64_t>(values.size())}));
}

absl::StatusOr<std::unique_ptr<kernels::Weight>> MakeWeight(kernels::Backend& backend,
                                                            absl::Span<const TensorView* const> parts,
                                                            kernels::WeightUse use) {
  std::vector<kernels::HostMatrix> matrices;
  for (const TensorView* part : parts) matrices.push_back(ToHostMatrix(*part));
  return ToStatusOr(backend.CreateWeight(matrices, use));
}

absl::StatusOr<LayerWeights> PackLayer(kernels::Backend& backend, const LayerViews& views) {
  using kernels::WeightUse;
  LayerWeights layer;
  ASSIGN_OR_RETURN(layer.input_norm, MakeVector(backend, {views.input_norm}));
  ASSIGN_OR_RETURN(layer.query_key_value,
                   MakeWeight(backend, {views.query, views.key, views.value}, WeightUse::kPlain));
  ASSIGN_OR_RETURN(layer.attention_output, MakeWeight(backend, {views.output}, WeightUse::kPlain));
  ASSIGN_OR_RETURN(layer.post_attention_norm, MakeVector(backend, {views.post_norm}));
  ASSIGN_OR_RETURN(layer.gate_up, MakeWeight(backend, {views.gate, views.up}, WeightUse::kGateUp));
  ASSIGN_OR_RETURN(layer.down, MakeWeight(backend, {views.down}, WeightUse::kPlain));
  if (views.query_bias != nullptr) {
    ASSIGN_OR_RETURN(layer.query_key_value_bias,
                     MakeVector(backend, {views.query_bias, views.key_bias, views.value_bias}));
    ASSIGN_OR_RETURN(layer.attention_output_bias, MakeVector(backend, {views.output_bias}));
  }
  if (views.tau != nullptr) {
    ASSIGN_OR_RETURN(layer.tau_weight, MakeVector(backend, {views.tau}));
    if (views.tau_bias != nullptr) layer.tau_bias = kernels::At(ToHostMatrix(*views.tau_bias), 0, 0);
  }
  return layer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Load(const Architecture& architecture,
                                                               const ModelConfig& config, const WeightSource& source,
                                                               std::shared_ptr<kernels::Backend> backend) {
  TensorTaker taker(source);
  const TensorNames& names = architecture.names;
  const TensorView* embedding = taker.Take(names.embedding, {config.vocabulary_size, config.width});
  const TensorView* final_norm = taker.Take(names.final_norm, {config.width});
  const TensorView* head = nullptr;
  if (config.tied_embeddings) {
    taker.Skip(names.head);  // some exports store the tied matrix twice
  } else {
    head = taker.Take(names.head, {config.vocabulary_size, config.width});
  }
  std::vector<LayerViews> layers;
  for (int64_t layer = 0; layer < config.layer_count; ++layer) layers.push_back(TakeLayer(taker, names, config, layer));
  RETURN_IF_ERROR(taker.Finish());

  auto model = std::unique_ptr<Transformer>(new Transformer);
  model->config_ = config;
  model->backend_ = std::move(backend);
  model->parameter_count_ = taker.parameter_count();
  RETURN_IF_ERROR(ToStatus(model->backend_->CheckShape(model->KvShape(0))));
  kernels::Backend& to = *model->backend_;
  ASSIGN_OR_RETURN(model->embedding_, MakeWeight(to, {embedding},
                                                 head == nullptr ? kernels::WeightUse::kEmbeddingAndHead
                                                                 : kernels::WeightUse::kEmbedding));
  if (head != nullptr) {
    ASSIGN_OR_RETURN(model->head_, MakeWeight(to, {head}, kernels::WeightUse::kHead));
  }
  ASSIGN_OR_RETURN(model->final_norm_, MakeVector(to, {final_norm}));
  for (const LayerViews& views : layers) {
    ASSIGN_OR_RETURN(LayerWeights packed, PackLayer(to, views));
    model->layers_.push_back(std::move(packed));
  }
  for (const auto& file : source.files()) file->Release();  // packed: the mapped pages are not needed again

  auto add = [&](const auto& owner) {
    model->weight_bytes_ += owner == nullptr ? 0 : static_cast<int64_t>(owner->bytes());
  };
  add(model->embedding_);
  add(model->head_);
  for (const LayerWeights& layer : model->layers_) {
    add(layer.query_key_value);
    add(layer.attention_output);
    add(layer.gate_up);
    add(layer.down);
  }
  return model;
}

kernels::KvShape Transformer::KvShape(int64_t page_group) const {
  return {.layer_count = static_cast<int>(config_.page_groups[static_cast<size_t>(page_group)].layer_count),
          .kv_head_count = static_cast<int>(config_.kv_head_count),
          .head_dim = static_cast<int>(config_.head_width),
          .has_tau_sums = config_.attention.mode == AttentionMode::kFocalLearned};
}

int64_t Transformer::PageBytes(int64_t page_group) const {
  const kernels::KvShape shape = KvShape(page_group);
  return static_cast<int64_t>(backend_->KvBytesPerPageAndLayer(shape)) * shape.layer_count;
}

int64_t Transformer::PageBytes() const {
  int64_t bytes = 0;
  for (size_t group = 0; group < config_.page_groups.size(); ++group) bytes += PageBytes(static_cast<int64_t>(group));
  return bytes;
}

}  // namespace varifocal
