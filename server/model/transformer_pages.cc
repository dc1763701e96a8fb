// Sizes of a loaded model's pages and of the weights that it shares.
#include "base/wide_product.h"
#include "server/model/transformer.h"

namespace varifocal {

int64_t Transformer::shared_weight_bytes() const {
  int64_t bytes = 0;
  const auto add = [&](const std::shared_ptr<kernels::Weight>& weight) {
    if (weight != nullptr && weight.use_count() > 1) bytes += weight->bytes();
  };
  for (const auto* weight : {&embedding_, &positions_, &head_, &layer_inputs_.table, &layer_inputs_.projection})
    add(*weight);
  for (const auto* of_streams : {&streams_.start, &streams_.end}) {
    for (const auto& weight : *of_streams) add(weight);
  }
  for (const LayerWeights& layer : layers_) {
    for (const LinearWeights* linear : {&layer.query_key_value, &layer.recurrence_inputs, &layer.recurrence_output,
                                        &layer.attention_output, &layer.gate_up, &layer.up, &layer.down})
      add(linear->weight);
    for (const auto* weight :
         {&layer.shared_gate_up, &layer.shared_down, &layer.attention_gate, &layer.parts.input_gate,
          &layer.parts.input_output, &layer.latent.query_down, &layer.latent.down, &layer.latent.queries,
          &layer.latent.keys_values, &layer.streams.low_rank_in, &layer.streams.low_rank_out})
      add(*weight);
  }
  return bytes;
}

kernels::KvShape Transformer::KvShape(int64_t page_group) const {
  if (config_.page_groups[page_group].holds_states) {
    return {.layer_count = static_cast<int>(config_.page_groups[page_group].layer_count),
            .recurrence = config_.recurrence};
  }
  kernels::KvShape shape{.layer_count = static_cast<int>(config_.page_groups[page_group].layer_count),
                         .kv_head_count = static_cast<int>(config_.page_groups[page_group].kv_head_count),
                         .head_dim = static_cast<int>(config_.page_groups[page_group].head_width),
                         .annotation_bytes = static_cast<int>(config_.attention.AnnotationBytes())};
  for (int64_t layer = 0; layer < config_.layer_count; ++layer) {
    const bool is_inside = config_.layers[layer].page_group == page_group;
    shape.row_keys = shape.row_keys || (is_inside && config_.attention.RowKeys(layer));
  }
  return shape;
}

int64_t Transformer::PageBytes(int64_t page_group) const {
  const kernels::KvShape shape = KvShape(page_group);
  return WideProduct(backend_->KvBytesPerPageAndLayer(shape), shape.layer_count);
}

int64_t Transformer::PageBytes() const {
  int64_t bytes = 0;
  for (size_t group = 0; group < config_.page_groups.size(); ++group) bytes += PageBytes(group);
  return bytes;
}

}  // namespace varifocal
