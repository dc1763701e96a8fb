// Attention through Backend::Attend: prompts, suffixes on a prefix, decode, decode over a shared prefix, learned groups.
//
// Keys and values are written by QkvRopeWrite from random rows of width 64; layers alternate where the keys of one
// would fit the cache.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/wide_product.h"
#include "kernels/cuda/bench/bench.h"

namespace varifocal::kernels::cuda {
namespace {

// 2.4e-3 as derived in tile_checks.cc, plus a fifth for the few rows that are sampled.
constexpr double kAttentionErrorMax = 2.9e-3;
constexpr size_t kRotationBytes = size_t{256} << 20;
constexpr int kWidth = 64, kRoutingDim = 16, kFillRows = 4096;

class AttentionBench final : public Bench {
 public:
  AttentionBench(const BenchPlace& place, const Cell& cell)
      : Bench(place, cell), backend_(place.backend), decode_(cell.kind == "decode") {
    PlanSequences();
    const int width = (cell.heads + 2 * cell.kv_heads) * cell.head_dim;
    const int longest = cell.context + cell.rows, chunk = std::min(longest, kFillRows);
    const int rows_max = StepRowsOf(cell);
    key_bytes_ = size_t{4} * page_count_ * kPageTokens * cell.kv_heads * cell.head_dim;
    layers_ = decode_ && !place.tiny ? static_cast<int>(kRotationBytes / key_bytes_) + 1 : 1;
    workspace_ = ValueOrDie(backend_.CreateWorkspace({.row_count_max = rows_max,
                                                      .sequence_count_max = cell.sequences,
                                                      .head_row_count_max = 1,
                                                      .context_length_max = longest,
                                                      .model_dim = kWidth,
                                                      .query_head_count = cell.heads,
                                                      .kv_head_count = cell.kv_heads,
                                                      .head_dim = cell.head_dim,
                                                      .ffn_dim = 16,
                                                      .vocab_size = 16,
                                                      .gather_top_k_max = cell.top_k}));
    KvShape kv{.layer_count = layers_, .kv_head_count = cell.kv_heads, .head_dim = cell.head_dim};
    if (cell.group_count > 0) {
      kv.annotation_bytes = GroupAnnotationBytes(GroupBias::kStored, cell.group_count);
      const std::vector<float> zeros(cell.group_count);
      const auto tensor = [&](const std::vector<float>& values) {
        auto buffer = ValueOrDie(backend_.Allocate(values.size() * sizeof(float)));
        Must(backend_.Write({buffer.get(), 0}, values.data(), values.size() * sizeof(float)));
        return buffer;
      };
      routing_[0] = tensor(RandomOperands(backend_, 21, WideProduct(kRoutingDim, kWidth)));
      routing_[1] = tensor(RandomOperands(backend_, 22, WideProduct(cell.group_count, kRoutingDim)));
      routing_[2] = tensor(zeros);
    }
    pool_ = ValueOrDie(backend_.CreateKvPool(kv, page_count_));
    const std::vector<float> weights = RandomOperands(backend_, 5, WideProduct(width, kWidth));
    const HostMatrix matrix = MatrixOf(weights, width, kWidth);
    weight_ = ValueOrDie(backend_.CreateWeight({&matrix, 1}, WeightUse::kPlain));
    const size_t numbers = WideProduct(rows_max, cell.heads, cell.head_dim);
    queries_ = ValueOrDie(backend_.Allocate(numbers * sizeof(float)));
    out_ = ValueOrDie(backend_.Allocate(numbers * sizeof(uint16_t)));
    x_ = ValueOrDie(backend_.Allocate(WideProduct(rows_max, kWidth) * sizeof(uint16_t)));
    for (int layer = 0; layer < layers_; ++layer) {
      for (int s = 0; s < (cell.shared_prefix ? 1 : cell.sequences); ++s) {
        const int total = cell.context + sequences_[s].row_count;
        for (int first = 0; first < total; first += chunk) {
          const SequenceRows piece{
              .row_count = std::min(chunk, total - first), .first_position = first, .page_tables = {&spans_[s], 1}};
          Must(backend_.BeginStep(*workspace_, {.sequences = {&piece, 1}}));
          Project(100 + 1000 * s + first + layer, piece.row_count, layer);
        }
      }
    }
    const float scale = 1.0f / std::sqrt(static_cast<float>(cell.head_dim));
    scales_.assign(mask_.size(), scale);
    if (cell.scale == ScaleKind::kPerRow) {
      for (size_t i = 0; i < scales_.size(); ++i) scales_[i] = scale * (1.0f + 0.5f * Uniform(9, i));
    }
    scale_buffer_ = ValueOrDie(backend_.Allocate(scales_.size() * sizeof(float)));
    Must(backend_.Write({scale_buffer_.get(), 0}, scales_.data(), scales_.size() * sizeof(float)));
  }

  Outcome Round() override {
    const std::span<const RowInterval> mask = mask_;
    Must(backend_.BeginStep(
        *workspace_,
        {.phase = decode_ ? Phase::kDecode : Phase::kPrefill, .sequences = sequences_, .masks = {&mask, 1}}));
    // The timed rows write their keys again, for all sequences together.
    for (int layer = 0; layer < layers_; ++layer) Project(77, mask_.size(), layer);
    AttendArgs attend{.queries = {queries_.get(), 0},
                      .query_head_count = cell_.heads,
                      .pool = pool_.get(),
                      .scale = scales_[0],
                      .out = {out_.get(), 0}};
    if (cell_.scale != ScaleKind::kConstant) attend.row_scales = {scale_buffer_.get(), 0};
    GroupTest groups{.group_count = cell_.group_count, .top_k = cell_.top_k, .window = cell_.window};
    const bool gathers = backend_.info().gathers_groups && cell_.group_count > 0 && !decode_;
    if (gathers) {
      groups.gather_from = place_.tiny
                               ? cell_.window
                               : GatherFrom(cell_.group_count, cell_.top_k, cell_.window, backend_.info().gather_costs);
    }
    if (cell_.group_count > 0) attend.groups = &groups;
    const auto run = [&] {
      attend.layer = (attend.layer + 1) % layers_;
      Must(backend_.Attend(*workspace_, attend));
    };
    if (error_ < 0) {
      attend.layer = layers_ - 1;
      error_ = Check(run);
    }
    // The pairs of the intervals: with groups the speed of dense attention that would take as long.
    double pairs = 0;
    for (const RowInterval& seen : mask_) pairs += seen.end - seen.begin;
    Outcome outcome{.flops = 4 * pairs * cell_.heads * cell_.head_dim,
                    .bytes = static_cast<double>(key_bytes_),
                    .error = error_,
                    .error_max = kAttentionErrorMax};
    if (cell_.scale != ScaleKind::kConstant) {
      // Alternates with its own constant-scale run.
      const Slice rows = attend.row_scales;
      attend.row_scales = {};
      outcome.more.emplace_back("constant_ms", TimeOnDevice(place_, run) * 1e3);
      attend.row_scales = rows;
    }
    if (cell_.group_count > 0) {
      // Alternates with dense attention over the same pages.
      attend.groups = nullptr;
      outcome.more.emplace_back("dense_ms", TimeOnDevice(place_, run) * 1e3);
      attend.groups = &groups;
      outcome.more.emplace_back("visible", visible_);
      if (gathers) {
        // And with testing every pair.
        GroupTest masked = groups;
        masked.gather_from = INT32_MAX;
        attend.groups = &masked;
        outcome.more.emplace_back("masked_ms", TimeOnDevice(place_, run) * 1e3);
        attend.groups = &groups;
        outcome.more.emplace_back("gather_from", groups.gather_from);
      }
    }
    outcome.seconds = TimeOnDevice(place_, run);
    return outcome;
  }

 private:
  void PlanSequences() {
    std::vector<int> rows;
    for (int s = 0; s < cell_.sequences; ++s) rows.push_back(RowsOf(cell_, s));
    const int shared = cell_.shared_prefix ? cell_.context / kPageTokens : 0;
    page_count_ = shared;
    for (int s = 0; s < cell_.sequences; ++s) {
      const int pages = (cell_.context + rows[s] + kPageTokens - 1) / kPageTokens;
      tables_.emplace_back(pages);
      for (int i = 0; i < pages; ++i) tables_[s][i] = i < shared ? i : page_count_++;
    }
    for (const auto& table : tables_) spans_.push_back({table.data(), table.size()});
    for (int s = 0; s < cell_.sequences; ++s) {
      sequences_.push_back({.row_count = rows[s], .first_position = cell_.context, .page_tables = {&spans_[s], 1}});
      for (int r = 0; r < rows[s]; ++r) mask_.push_back(CausalInterval(cell_.context + r));
    }
  }

  void Project(uint64_t seed, int rows, int layer) {
    WriteOperands(backend_, {x_.get(), 0}, RandomOperands(backend_, seed, WideProduct(rows, kWidth)));
    if (cell_.group_count > 0) {
      Must(backend_.RouteGroups(*workspace_, {.x = {x_.get(), 0},
                                              .projection = {routing_[0].get(), 0},
                                              .centroids = {routing_[1].get(), 0},
                                              .group_bias = {routing_[2].get(), 0},
                                              .group_count = cell_.group_count,
                                              .routing_dim = kRoutingDim,
                                              .top_k = cell_.top_k,
                                              .temperature = 0.1f,
                                              .pool = pool_.get(),
                                              .layer = layer}));
    }
    Must(backend_.QkvRopeWrite(*workspace_, {.x = {x_.get(), 0},
                                             .weight = weight_.get(),
                                             .query_head_count = cell_.heads,
                                             .pool = pool_.get(),
                                             .layer = layer,
                                             .queries = {queries_.get(), 0}}));
  }

  // A few rows of the last sequence, poisoned before, against float64 over the values stored in the pages.
  double Check(const std::function<void()>& run) {
    const int dim = cell_.head_dim, group = cell_.heads / cell_.kv_heads, last = sequences_.back().row_count;
    const int first = static_cast<int>(mask_.size()) - last;
    const size_t width = WideProduct(cell_.heads, dim);
    const int rows[] = {first, first + last - 1, first + static_cast<int>(Mix(6, 1) % last)};
    const auto at = [&](int row) { return Slice{out_.get(), row * width * sizeof(uint16_t)}; };
    for (const int row : rows) WriteOperands(backend_, at(row), std::vector<float>(width, NAN));
    run();
    std::vector<float> keys, values;
    const size_t page_numbers = WideProduct(kPageTokens, cell_.kv_heads, dim);
    keys.resize(page_numbers * tables_.back().size());
    values.resize(keys.size());
    for (size_t i = 0; i < tables_.back().size(); ++i) {
      Must(backend_.ReadPage(*pool_, 0, tables_.back()[i], kPageTokens, keys.data() + i * page_numbers,
                             values.data() + i * page_numbers));
    }
    std::vector<uint32_t> groups(cell_.context + last);
    if (cell_.group_count > 0) Must(backend_.ReadGroups(*pool_, 0, tables_.back(), 0, groups));
    double seen_pairs = 0, visible_pairs = 0;
    const auto visible = [&](int row, int key) {
      const int position = mask_[row].end - 1;
      return cell_.group_count == 0 || position - key <= cell_.window || (groups[key] & groups[position]) != 0;
    };
    std::vector<double> want, got;
    for (const int row : rows) {
      for (int key = mask_[row].begin; key < mask_[row].end; ++key) visible_pairs += visible(row, key);
      seen_pairs += mask_[row].end - mask_[row].begin;
      const std::vector<float> out = ReadOperands(backend_, at(row), width);
      std::vector<float> query(width);
      Must(backend_.Read(query.data(), {queries_.get(), row * width * sizeof(float)}, width * sizeof(float)));
      for (const int head : {0, cell_.heads - 1}) {
        std::vector<double> scores;
        for (int key = mask_[row].begin; key < mask_[row].end; ++key) {
          double dot = 0;
          for (int d = 0; d < dim; ++d) {
            dot += static_cast<double>(WidenBF16(RoundToBF16(query[head * dim + d]))) *
                   keys[(WideProduct(key, cell_.kv_heads) + head / group) * dim + d];
          }
          scores.push_back(visible(row, key) ? dot * scales_[row] : -INFINITY);
        }
        const double top = *std::max_element(scores.begin(), scores.end());
        double total = 0;
        std::vector<double> sums(dim);
        for (size_t k = 0; k < scores.size(); ++k) {
          const double p = std::exp(scores[k] - top);
          total += p;
          const size_t from = ((k + mask_[row].begin) * cell_.kv_heads + head / group) * dim;
          for (int d = 0; d < dim; ++d) sums[d] += p * values[from + d];
        }
        for (int d = 0; d < dim; ++d) {
          want.push_back(sums[d] / total);
          got.push_back(out[head * dim + d]);
        }
      }
    }
    visible_ = visible_pairs / seen_pairs;
    return RelativeError(want, got);
  }

  Backend& backend_;
  const bool decode_;
  double error_ = -1, visible_ = 1;  // share of pairs in the checked rows
  size_t key_bytes_ = 0;
  int layers_ = 1, page_count_ = 0;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Weight> weight_;
  std::unique_ptr<Buffer> x_, queries_, out_, scale_buffer_, routing_[3];  // projection, centroids, bias
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::span<const int32_t>> spans_;
  std::vector<SequenceRows> sequences_;
  std::vector<RowInterval> mask_;
  std::vector<float> scales_;
};

}  // namespace

int RowsOf(const Cell& cell, int sequence) {
  return cell.ragged ? cell.rows - static_cast<int>(Mix(8, sequence) % (cell.rows / 2 + 1)) : cell.rows;
}

int StepRowsOf(const Cell& cell) {
  int rows = 0;
  for (int s = 0; s < cell.sequences; ++s) rows += RowsOf(cell, s);
  return std::max(rows, std::min(cell.context + cell.rows, kFillRows));
}

std::unique_ptr<Bench> MakeAttentionBench(const BenchPlace& place, const Cell& cell) {
  return std::make_unique<AttentionBench>(place, cell);
}

}  // namespace varifocal::kernels::cuda
