// Layers over several residual streams (kernels/residual_streams.h), a product of low rank beside attention, gates that are
// cut.
#include <cmath>

#include "base/status_macros.h"
#include "base/wide_product.h"
#include "server/model/forward.h"
#include "server/model/kernel_status.h"

namespace varifocal {
namespace {

constexpr float kStreamSquareMin = 1e-5f;  // of mean squares; transformers has no key for it

kernels::Slice WholeOf(const std::unique_ptr<kernels::Buffer>& buffer) { return {buffer.get(), 0}; }

}  // namespace

kernels::Slice Forward::StreamAt(int64_t stream) const {
  return {streams_.get(), WideProduct(stream, masks_[0].size(), model_.config().width) * sizeof(float)};
}

// Stream 0 is the embedding, in the residual; the others are products of it in its size.
absl::Status Forward::StartStreams() {
  kernels::Backend& backend = model_.backend();
  const int count = static_cast<int>(model_.config().streams.count);
  RETURN_IF_ERROR(ToStatus(backend.Norm(*workspace_, NormOf(no_norm_))));
  const size_t bytes = StreamAt(count).offset_bytes;
  RETURN_IF_ERROR(ToStatus(backend.Clear(*workspace_, StreamAt(0), bytes)));
  for (int i = 1; i < count; ++i) {
    RETURN_IF_ERROR(ToStatus(backend.LinearResidual(
        *workspace_, {.x = WholeOf(normed_), .weight = model_.streams().start[i - 1].get(), .residual = StreamAt(i)})));
  }
  return ToStatus(backend.MatchStreams(
      *workspace_,
      {.streams = StreamAt(0), .stream_count = count, .floor = kStreamSquareMin, .first = WholeOf(residual_)}));
}

// residual = the mean of stream 0 and products of the others in its size.
absl::Status Forward::JoinStreams() {
  kernels::Backend& backend = model_.backend();
  const int count = static_cast<int>(model_.config().streams.count);
  for (int i = 1; i < count; ++i) {
    kernels::NormArgs as_operands = NormOf(no_norm_);
    as_operands.x = StreamAt(i);
    RETURN_IF_ERROR(ToStatus(backend.Norm(*workspace_, as_operands)));
    RETURN_IF_ERROR(ToStatus(backend.Clear(*workspace_, StreamAt(i), StreamAt(1).offset_bytes)));
    RETURN_IF_ERROR(ToStatus(backend.LinearResidual(
        *workspace_, {.x = WholeOf(normed_), .weight = model_.streams().end[i - 1].get(), .residual = StreamAt(i)})));
  }
  return ToStatus(backend.MatchStreams(
      *workspace_,
      {.streams = StreamAt(0), .stream_count = count, .floor = kStreamSquareMin, .mean = WholeOf(residual_)}));
}

// residual += y + norm(out (in y)), y = norm(residual), which `normed_` holds as operands.
absl::Status Forward::AddLowRank(const LayerWeights& layer) {
  kernels::Backend& backend = model_.backend();
  const float epsilon = static_cast<float>(model_.config().blocks.norm_epsilon);
  // The active stream still is the residual.
  RETURN_IF_ERROR(ToStatus(backend.NormResidual(*workspace_, {.x = StreamAt(model_.config().streams.active),
                                                              .norm_weight = WholeOf(layer.attention_norm.weight),
                                                              .norm_epsilon = epsilon,
                                                              .residual = WholeOf(residual_)})));
  RETURN_IF_ERROR(ToStatus(backend.Linear(
      *workspace_, {.x = WholeOf(normed_), .weight = layer.streams.low_rank_in.get(), .out = WholeOf(mixed_)})));
  return ToStatus(backend.LinearNormResidual(*workspace_, {.x = WholeOf(mixed_),
                                                           .weight = layer.streams.low_rank_out.get(),
                                                           .norm_weight = WholeOf(layer.streams.low_rank_norm),
                                                           .norm_epsilon = epsilon,
                                                           .residual = WholeOf(residual_)}));
}

// hidden = act(cut gates of normed) * ups.
absl::Status Forward::RunCutGates(const LayerWeights& layer) {
  kernels::Backend& backend = model_.backend();
  RETURN_IF_ERROR(ToStatus(backend.Linear(*workspace_, {.x = WholeOf(normed_),
                                                        .weight = layer.gate_up.weight.get(),
                                                        .bias = WholeOf(layer.gate_up.bias),
                                                        .out = WholeOf(mixed_)})));
  return ToStatus(backend.CutGated(*workspace_, {.x = WholeOf(mixed_),
                                                 .width = static_cast<int>(layer.gate_up.weight->rows() / 2),
                                                 .deviations = *layer.cut_deviations,
                                                 .activation = model_.config().blocks.activation,
                                                 .terms = layer.activation_terms,
                                                 .out = WholeOf(hidden_)}));
}

absl::Status Forward::RunLayerOfStreams(int64_t index, KvPools pools, const kernels::Batch& batch,
                                        const ForwardStep& step) {
  kernels::Backend& backend = model_.backend();
  const ModelConfig& config = model_.config();
  const LayerWeights& layer = model_.layers()[index];
  const int count = static_cast<int>(config.streams.count), active = static_cast<int>(config.streams.active);
  const kernels::StreamRouter router{.norm_weight = WholeOf(layer.streams.router_norm),
                                     .norm_epsilon = static_cast<float>(config.blocks.norm_epsilon),
                                     .router = WholeOf(layer.streams.router)};
  const kernels::NormArgs attention_norm = NormOf(layer.attention_norm);
  RETURN_IF_ERROR(ToStatus(backend.PredictStreams(*workspace_, {.router = router,
                                                                .coefficients = WholeOf(layer.streams.predict),
                                                                .streams = StreamAt(0),
                                                                .stream_count = count,
                                                                .active = active,
                                                                .residual = WholeOf(residual_),
                                                                .next_norm = &attention_norm})));
  RETURN_IF_ERROR(AddLowRank(layer));
  RETURN_IF_ERROR(Attend(index, pools, batch, step));
  RETURN_IF_ERROR(AddToResidual(WholeOf(attended_), layer.attention_output, layer.attention_post_norm, 1,
                                &layer.mlp_norm, static_cast<float>(std::sqrt(0.5))));
  RETURN_IF_ERROR(RunMlp(index, nullptr));
  RETURN_IF_ERROR(ToStatus(backend.CorrectStreams(*workspace_, {.router = router,
                                                                .coefficients = WholeOf(layer.streams.correct),
                                                                .streams = StreamAt(0),
                                                                .stream_count = count,
                                                                .active = active,
                                                                .made = WholeOf(residual_),
                                                                .scale = WholeOf(layer.streams.scale),
                                                                .out = WholeOf(normed_)})));
  RETURN_IF_ERROR(ToStatus(backend.Clear(*workspace_, WholeOf(residual_), StreamAt(1).offset_bytes)));
  RETURN_IF_ERROR(AddLayerInput(index, nullptr));
  return ToStatus(
      backend.AddToStreams(*workspace_, {.x = WholeOf(residual_), .streams = StreamAt(0), .stream_count = count}));
}

}  // namespace varifocal
