#include "kernels/cuda/cuda_head.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/wide_product.h"
#include "kernels/cuda/cuda_storage.h"
#include "kernels/cuda/schedule.h"

namespace varifocal::kernels::cuda {
namespace {

std::vector<DrawItem> DrawsOf(std::span<const HeadRow> rows) {
  std::vector<DrawItem> draws;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].draw.temperature > 0) draws.push_back({.draw = rows[r].draw, .head_row = static_cast<int32_t>(r)});
  }
  return draws;
}

// Whether a row's logits leave the device; those of a drawn row do not.
bool WantsLogits(const HeadRow& row) { return row.logits_slot >= 0 && row.draw.temperature == 0; }

// The rows and targets of an LM head call, and its draws with the draw of each row or -1.
Error UploadHeadRows(Device& device, CudaWorkspace& own, std::span<const HeadRow> rows,
                     std::span<const DrawItem> draws) {
  std::vector<int32_t> asked;
  for (const HeadRow& row : rows) asked.push_back(row.row);
  for (const HeadRow& row : rows) asked.push_back(row.target);
  if (!draws.empty()) {
    const size_t indices = asked.size();
    asked.resize(indices + rows.size(), -1);
    for (size_t d = 0; d < draws.size(); ++d) asked[indices + draws[d].head_row] = d;
    if (Error error = device.Upload(own.draws.as(), draws.data(), draws.size_bytes()); !error.ok()) return error;
  }
  return device.Upload(own.tokens.as(), asked.data(), asked.size() * sizeof(int32_t));
}

// Logits of the slices in `stats` to the host, for the rows that ask for them.
Error DownloadLogits(Device& device, const HeadStatsParams& stats, const LmHeadArgs& args) {
  for (int begin = 0; begin < stats.count; begin += kHeadSlice) {
    const int count = std::min(kHeadSlice, stats.count - begin);
    const float* slice = stats.product + begin / kHeadSlice * stats.slice_stride;
    const size_t row_stride = stats.row_stride != 0 ? stats.row_stride : count;
    for (int r = 0; r < stats.row_count; ++r) {
      if (!WantsLogits(args.rows[r])) continue;
      float* to = args.logits + args.rows[r].logits_slot * stats.vocab + stats.first + begin;
      if (Error error = device.Download(to, slice + r * row_stride, count * sizeof(float)); !error.ok()) return error;
    }
  }
  return {};
}

// Logits and their statistics, as many slices of the vocabulary at a time as scratch holds.
Error RunHeadSlices(Device& device, CudaProducts& products, CudaWorkspace& own, const LmHeadArgs& args,
                    HeadStatsParams stats) {
  const CudaWeight& weight = Own(*args.weight);
  const int splits = own.flat.batch.phase == Phase::kDecode ? DecodeSplitK(stats.vocab, weight.columns()) : 1;
  const int64_t step = HeadSlicesAtOnce(stats.row_count, stats.vocab, splits) * kHeadSlice;
  for (int64_t first = 0; first < stats.vocab; first += step) {
    stats.first = first;
    stats.count = static_cast<int>(std::min(step, stats.vocab - first));
    if (Error error = products.Head(own, stats.row_count, weight, splits, &stats); !error.ok()) return error;
    if (Error error = device.Check(device.kernels().head_stats(stats, own.stream()), "starting the LM head");
        !error.ok())
      return error;
    if (!stats.keeps_logits) continue;
    if (Error error = own.EndTurn(); !error.ok()) return error;
    if (Error error = DownloadLogits(device, stats, args); !error.ok()) return error;
  }
  return {};
}

Error ReadHeadResults(Device& device, CudaWorkspace& own, const LmHeadArgs& args) {
  if (Error error = own.EndTurn(); !error.ok()) return error;
  std::vector<HeadState> states(args.rows.size());
  if (Error error = device.Download(states.data(), own.head_states.as(), states.size() * sizeof(HeadState));
      !error.ok())
    return error;
  for (size_t r = 0; r < states.size(); ++r) {
    const HeadState& state = states[r];
    const HeadRow& row = args.rows[r];
    // In float64, so that a log-probability rounds once.
    const double log_sum_exp = state.largest + std::log(static_cast<double>(state.sum));
    args.results[r] = {
        .log_sum_exp = static_cast<float>(log_sum_exp),
        .target_log_probability = row.target < 0 ? 0.0f : static_cast<float>(state.target_logit - log_sum_exp),
        .argmax = state.argmax,
        .argmax_logit = state.largest,
        .runner_up_logit = state.runner_up,
        .finite = state.finite != 0,
        .drawn = row.draw.temperature > 0 ? DrawnToken{state.drawn, state.drawn_logit} : DrawnToken{}};
  }
  return {};
}

}  // namespace

Error RunHead(Device& device, CudaProducts& products, CudaWorkspace& own, const LmHeadArgs& args) {
  if (Error error = own.QueueKept(); !error.ok()) return error;
  const int rows = args.rows.size();
  if (rows > own.shape.head_row_count_max) {
    return {ErrorCode::kInvalidArgument, "an LM head call of " + std::to_string(rows) + " rows exceeds the planned " +
                                             std::to_string(own.shape.head_row_count_max)};
  }
  VF_CHECK(args.results.size() == args.rows.size(), "one result per head row");
  if (rows == 0) return {};
  const int64_t width = Own(*args.weight).columns(), vocab = Own(*args.weight).rows();
  VF_CHECK(width <= own.shape.model_dim, "the workspace was planned for this model");
  for (const HeadRow& row : args.rows) VF_CHECK(row.target < vocab, "a target outside the vocabulary");
  const std::vector<DrawItem> draws = DrawsOf(args.rows);
  if (draws.size() > own.draw_count_max()) {
    return {ErrorCode::kInvalidArgument, "an LM head call that draws " + std::to_string(draws.size()) +
                                             " tokens exceeds the planned " + std::to_string(own.draw_count_max())};
  }
  if (Error error = UploadHeadRows(device, own, args.rows, draws); !error.ok()) return error;
  NormParams norm = NormOf(args.norm_kind, args.norm_weight, args.norm_bias, args.norm_epsilon, width);
  norm.x = DeviceData<float>(args.residual, WideProduct(own.flat.row_count(), width));
  norm.rows = own.tokens.as<int32_t>();
  norm.row_count = rows;
  norm.out = own.head_rows.as<uint16_t>();
  if (Error error = device.Check(device.kernels().norm(norm, own.stream()), "starting the LM head"); !error.ok())
    return error;
  HeadStatsParams stats;
  stats.targets = own.tokens.as<int32_t>() + rows;
  stats.row_count = rows;
  stats.bias = OptionalDeviceData<float>(args.bias, vocab);
  stats.multiplier = args.logit_multiplier;
  stats.soft_cap = args.logit_soft_cap;
  stats.partials = own.head_partials.as<HeadState>();
  stats.states = own.head_states.as<HeadState>();
  stats.vocab = vocab;
  stats.keeps_logits = std::any_of(args.rows.begin(), args.rows.end(), WantsLogits);
  if (!draws.empty()) {
    stats.draw_indices = stats.targets + rows;
    stats.draw_logits = own.draw_logits.as<float>();
  }
  if (Error error = RunHeadSlices(device, products, own, args, stats); !error.ok()) return error;
  if (!draws.empty()) {
    const DrawParams draw{.items = own.draws.as<DrawItem>(),
                          .logits = stats.draw_logits,
                          .draw_count = static_cast<int>(draws.size()),
                          .vocab = static_cast<int>(vocab),
                          .states = stats.states};
    if (Error error = device.Check(device.kernels().draw(draw, own.stream()), "drawing tokens"); !error.ok())
      return error;
  }
  return ReadHeadResults(device, own, args);
}

}  // namespace varifocal::kernels::cuda
