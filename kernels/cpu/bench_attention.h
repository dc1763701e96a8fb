// One sequence whose keys and values are in pages, for the benchmarks of attention, and its float64 reference.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/wide_product.h"
#include "kernels/conformance/test_harness.h"
#include "kernels/group_routing.h"

namespace varifocal::kernels {

inline constexpr int kChunk = 512;

struct AttentionShape {
  int head_dim, query_heads, kv_heads, tokens;
  int step_rows = kChunk;
};

// One sequence whose keys and values are in pages.
class AttentionBench {
 public:
  // With `groups` tokens are assigned to groups by their inputs: equally many per token, all equally often.
  AttentionBench(const std::string& isa, DType dtype, int thread_count, const AttentionShape& shape,
                 const AttentionGroups& groups = {})
      : shape_(shape), groups_(groups), model_dim_(shape.query_heads * shape.head_dim) {
    backend_ =
        std::move(*CreateBackend({.device = "cpu", .dtype = dtype, .thread_count = thread_count, .cpu_isa = isa}));
    const int width = (shape.query_heads + 2 * shape.kv_heads) * shape.head_dim;
    workspace_ = std::move(*backend_->CreateWorkspace({.row_count_max = shape.step_rows,
                                                       .sequence_count_max = 1,
                                                       .head_row_count_max = 1,
                                                       .context_length_max = shape.tokens,
                                                       .model_dim = model_dim_,
                                                       .query_head_count = shape.query_heads,
                                                       .kv_head_count = shape.kv_heads,
                                                       .head_dim = shape.head_dim,
                                                       .ffn_dim = 16,
                                                       .vocab_size = 16,
                                                       .gather_top_k_max = groups.group_count > 0 ? groups.top_k : 0}));
    const int pages = shape.tokens / kPageTokens;
    KvShape kv{.layer_count = 1, .kv_head_count = shape.kv_heads, .head_dim = shape.head_dim};
    if (groups.group_count > 0) {
      kv.annotation_bytes = GroupAnnotationBytes(GroupBias::kStored, groups.group_count);
      kv.row_keys = DecodeListsKeys(groups.group_count, groups.top_k);
    }
    pool_ = std::move(*backend_->CreateKvPool(kv, pages));
    std::vector<float> identity(WideProduct(kInputs, kInputs));
    for (int i = 0; i < kInputs; ++i) identity[WideProduct(i, kInputs + 1)] = 1;
    centroids_ = Upload(*backend_, identity);
    projection_ = Upload(*backend_, Widened(identity));
    zeros_ = Upload(*backend_, std::vector<float>(kInputs));
    for (int p = 0; p < pages; ++p) pages_.push_back(p);
    tables_.push_back(pages_);
    const std::vector<float> weights = Widened(UniformVector(1, WideProduct(width, kInputs)));
    const HostMatrix matrix = MatrixOf(weights, width, model_dim_);
    auto weight = std::move(*backend_->CreateWeight({&matrix, 1}, WeightUse::kPlain));
    queries_ = Empty(*backend_, WideProduct(shape.step_rows, shape.query_heads, shape.head_dim));
    out_ = Empty(*backend_, WideProduct(shape.step_rows, shape.query_heads, shape.head_dim));
    for (int first = 0; first < shape.tokens; first += chunk()) {
      x_ = Upload(*backend_, Widened(Inputs(first)));
      Begin(Phase::kPrefill, first, chunk());
      if (groups.group_count > 0) Route();
      CheckOk(backend_->QkvRopeWrite(*workspace_, {.x = {x_.get(), 0},
                                                   .weight = weight.get(),
                                                   .query_head_count = shape.query_heads,
                                                   .pool = pool_.get(),
                                                   .queries = {queries_.get(), 0}}));
    }
  }

  // Rows of a step of prefill; divides the tokens.
  int chunk() const { return std::min(shape_.step_rows, shape_.tokens); }

  void Begin(Phase phase, int first, int rows) {
    mask_.clear();
    for (int r = 0; r < rows; ++r) mask_.push_back(CausalInterval(first + r));
    span_ = mask_;
    sequence_ = {.row_count = rows, .first_position = first, .page_tables = tables_};
    CheckOk(backend_->BeginStep(*workspace_, {.phase = phase, .sequences = {&sequence_, 1}, .masks = {&span_, 1}}));
  }

  // The groups of the last chunk's inputs.
  void Route() {
    CheckOk(backend_->RouteGroups(*workspace_, {.x = {x_.get(), 0},
                                                .projection = {projection_.get(), 0},
                                                .centroids = {centroids_.get(), 0},
                                                .group_bias = {zeros_.get(), 0},
                                                .group_count = groups_.group_count,
                                                .routing_dim = kInputs,
                                                .top_k = groups_.top_k,
                                                .pool = pool_.get()}));
  }

  void Attend() {
    const GroupTest test{.group_count = groups_.group_count,
                         .top_k = groups_.top_k,
                         .window = groups_.window,
                         .gather_from = groups_.gather_from};
    CheckOk(backend_->Attend(*workspace_, {.queries = {queries_.get(), 0},
                                           .query_head_count = shape_.query_heads,
                                           .pool = pool_.get(),
                                           .scale = 0.25f,
                                           .groups = groups_.group_count > 0 ? &test : nullptr,
                                           .out = {out_.get(), 0}}));
  }

  // The whole prompt, chunk by chunk; flops of the visible pairs.
  double Prefill() {
    for (int first = 0; first < shape_.tokens; first += chunk()) {
      Begin(Phase::kPrefill, first, chunk());
      Attend();
    }
    return 4.0 * shape_.head_dim * shape_.query_heads * 0.5 * shape_.tokens * (shape_.tokens + 1.0);
  }

  // The worst difference from float64 over the last row's heads.
  double ErrorOfRow(int row, int position) {
    const int dim = shape_.head_dim, group = shape_.query_heads / shape_.kv_heads;
    const size_t floats = WideProduct(shape_.step_rows, shape_.query_heads, dim);
    const std::vector<float> queries = Download(*backend_, *queries_, floats),
                             outs = Download(*backend_, *out_, floats);
    std::vector<std::vector<float>> keys, values;
    for (const int page : pages_) {
      keys.emplace_back(WideProduct(kPageTokens, shape_.kv_heads, dim));
      values.emplace_back(keys.back().size());
      CheckOk(backend_->ReadPage(*pool_, 0, page, kPageTokens, keys.back().data(), values.back().data()));
    }
    std::vector<uint32_t> key_groups;
    for (int first = 0; first <= position; first += shape_.step_rows) {
      const std::vector<float> inputs = Inputs(first);
      for (int i = 0; i < shape_.step_rows && groups_.group_count > 0; ++i) {
        key_groups.push_back(
            TopGroups({inputs.data() + WideProduct(i, kInputs), static_cast<size_t>(groups_.group_count)}, 1,
                      std::vector<float>(groups_.group_count), groups_.top_k));
      }
    }
    double worst = 0;
    for (int head = 0; head < shape_.query_heads; ++head) {
      const size_t at = (WideProduct(row, shape_.query_heads) + head) * dim;
      std::vector<double> sums(dim);
      double total = 0;
      for (int key = 0; key <= position; ++key) {
        if (groups_.group_count > 0 && position - key > groups_.window &&
            (key_groups[key] & key_groups[position]) == 0) {
          continue;
        }
        const size_t from = (WideProduct(key % kPageTokens, shape_.kv_heads) + head / group) * dim;
        double score = 0;
        for (int i = 0; i < dim; ++i) score += static_cast<double>(queries[at + i]) * keys[key / kPageTokens][from + i];
        const double weight = std::exp(score * 0.25);
        total += weight;
        for (int i = 0; i < dim; ++i) sums[i] += weight * values[key / kPageTokens][from + i];
      }
      for (int i = 0; i < dim; ++i) worst = std::max(worst, std::fabs(sums[i] / total - outs[at + i]));
    }
    return worst;
  }

 private:
  static constexpr int kInputs = 16;  // of a token that are not zero

  std::vector<float> Inputs(int first) const {
    return UniformVector(2 + static_cast<uint64_t>(first), WideProduct(shape_.step_rows, kInputs));
  }

  // Rows [n][kInputs] as rows [n][model_dim_]: the heads' width, so that routing costs what it costs in a model.
  std::vector<float> Widened(const std::vector<float>& rows) const {
    std::vector<float> wide(rows.size() / kInputs * model_dim_);
    for (size_t row = 0; row < rows.size() / kInputs; ++row)
      std::copy_n(rows.data() + row * kInputs, kInputs, wide.data() + row * model_dim_);
    return wide;
  }

  AttentionShape shape_;
  AttentionGroups groups_;
  int model_dim_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<KvPool> pool_;
  std::vector<int32_t> pages_;
  std::vector<std::span<const int32_t>> tables_;
  std::unique_ptr<Buffer> x_, projection_, centroids_, zeros_, queries_, out_;
  std::vector<RowInterval> mask_;
  std::span<const RowInterval> span_;
  SequenceRows sequence_;
};

// Values reach 16: an error of 1e-3 is 6e-5 of that, ten times the f32 error and far below that of a bug. In bf16 scaled
// queries, keys, values and weights are rounded to 2^-9 and scores reach 30.
// Rounding adds up over the keys: beyond 128K the limit grows with their number (1M keys show 2e-3).
inline double AttentionErrorMax(DType dtype, int tokens) {
  return dtype == DType::kBF16 ? 1.0 : 1e-3 * std::max(1.0, tokens / 131072.0);
}

}  // namespace varifocal::kernels
