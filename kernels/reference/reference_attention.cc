#include "kernels/reference/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/wide_product.h"
#include "kernels/reference/reference_math.h"

namespace varifocal::kernels {
namespace {

void Rotate(const HostRopeTable& table, int position, double* head) {
  VF_CHECK(position < table.position_count(), "a position beyond the rope table");
  const int half = table.rotary_dim() / 2;
  for (int i = 0; i < half; ++i) {
    double& a = head[i];
    double& b = head[i + half];
    const double c = table.cosines(position)[i], s = table.sines(position)[i];
    const double rotated = a * c - b * s;
    b = b * c + a * s;
    a = rotated;
  }
}

// One row of an Attend: the keys it sees, and its scores.
struct RowView {
  RowView(const FlatBatch& flat, const AttendArgs& args, int row)
      : pool(static_cast<const ReferencePool&>(*args.pool)),
        args(args),
        sequence(flat.batch.sequences[flat.row_sequences[row]]),
        seen(flat.batch.masks[args.mask_index][row]) {
    const size_t width = WideProduct(args.query_head_count, pool.shape.head_dim);
    queries = HostData<float>(args.queries, flat.row_count() * width) + row * width;
    const float* row_scales = OptionalHostData<float>(args.row_scales, flat.row_count());
    row_scale = row_scales != nullptr ? row_scales[row] : args.scale;
    head_scales = OptionalHostData<float>(args.head_scales, args.query_head_count);
    sinks = OptionalHostData<float>(args.sinks, args.query_head_count);
    if (args.groups == nullptr) return;
    const int position = flat.row_positions[row];
    const MaskRow mask{
        .seen = seen, .window_begin = position - args.groups->window, .token_groups = GroupsOf(position)};
    for (int key = seen.begin; key < seen.end; ++key)
      visible.push_back(WindowOrGroupMask::IsVisible(mask, key, GroupsOf(key)));
  }

  uint32_t GroupsOf(int position) const {
    const char* page = pool.page_annotations(args.layer, PageOf(sequence, args.page_group, position)) +
                       args.groups->annotation_offset * kPageTokens;
    return reinterpret_cast<const uint32_t*>(page)[position % kPageTokens];
  }
  bool IsVisible(int key) const { return visible.empty() || visible[key - seen.begin] != 0; }
  // Of the key or value of a head.
  size_t at(int key, int head) const {
    const int queries_per_kv = args.query_head_count / pool.shape.kv_head_count;
    return pool.token(args.layer, PageOf(sequence, args.page_group, key), key % kPageTokens) * pool.width() +
           WideProduct(head / queries_per_kv, pool.shape.head_dim);
  }
  double scale(int head) const { return head_scales != nullptr ? row_scale * head_scales[head] : row_scale; }
  double sink(int head) const { return sinks != nullptr ? sinks[head] : args.sink; }
  // Scaled scores of the interval's keys; returns the largest of those that count and the sink (0 when there is none).
  double Scores(int head, std::vector<double>& scores) const {
    scores.clear();
    double top = sink(head);
    const float* query = queries + WideProduct(head, pool.shape.head_dim);
    for (int key = seen.begin; key < seen.end; ++key) {
      const double* k = pool.keys.data() + at(key, head);
      double dot = 0;
      for (int i = 0; i < pool.shape.head_dim; ++i) dot += query[i] * k[i];
      const double score = dot * scale(head), cap = args.soft_cap;
      scores.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
      if (IsVisible(key)) top = std::max(top, scores.back());
    }
    return std::isinf(top) ? 0.0 : top;
  }

  const ReferencePool& pool;
  const AttendArgs& args;
  const SequenceRows& sequence;
  RowInterval seen;
  const float* queries = nullptr;
  float row_scale = 1;
  const float* head_scales = nullptr;
  const float* sinks = nullptr;
  std::vector<char> visible;  // empty: all of the interval
};

}  // namespace

void ReferenceQkvRopeWrite(const FlatBatch& flat, const QkvRopeWriteArgs& args) {
  auto& pool = static_cast<ReferencePool&>(*args.pool);
  const auto& weight = static_cast<const ReferenceWeight&>(*args.weight);
  const int dim = pool.shape.head_dim, kv_heads = pool.shape.kv_head_count;
  const int heads = args.query_head_count + (args.queries_alone ? 0 : 2 * kv_heads);
  VF_CHECK(weight.rows() == static_cast<int64_t>(heads) * dim, "the weight has (H + 2K) D rows, or H D");
  const float* x = HostData<float>(args.x, flat.row_count() * weight.columns());
  const float* bias = OptionalHostData<float>(args.bias, weight.rows());
  // Heads that one norm spans.
  const int query_span = args.norm_over_width ? args.query_head_count : 1;
  const int key_span = args.norm_over_width ? kv_heads : 1;
  const float* query_norm = OptionalHostData<float>(args.query_norm, query_span * dim);
  const float* key_norm = OptionalHostData<float>(args.key_norm, key_span * dim);
  const float* value_norm = OptionalHostData<float>(args.value_norm, dim);
  float* queries = HostData<float>(args.queries, WideProduct(flat.row_count(), args.query_head_count, dim));
  std::vector<double> row(weight.rows());
  const int keys = args.queries_alone ? 0 : kv_heads;
  const auto normalize = [&](int first, int count, int span, const float* norm) {
    for (int h = first; norm != nullptr && h < first + count; h += span) {
      double* x = row.data() + WideProduct(h, dim);
      Normalize(NormKind::kRms, x, norm, nullptr, WideProduct(span, dim), args.norm_epsilon, x);
    }
  };
  for (int t = 0; t < flat.row_count(); ++t) {
    const SequenceRows& sequence = flat.batch.sequences[flat.row_sequences[t]];
    const int position = flat.row_positions[t];
    const size_t token = pool.token(args.layer, PageOf(sequence, args.page_group, position), position % kPageTokens);
    for (int64_t n = 0; n < weight.rows(); ++n) {
      row[n] = Dot(weight.row(n), x + t * weight.columns(), weight.columns()) + (bias != nullptr ? bias[n] : 0.0f);
    }
    const auto normalize_both = [&] {
      normalize(0, args.query_head_count, query_span, query_norm);
      normalize(args.query_head_count, keys, key_span, key_norm);
      normalize(args.query_head_count + keys, keys, 1, value_norm);
    };
    if (!args.norm_after_rotation) normalize_both();
    for (double& v : row) v = args.clip > 0 ? std::clamp<double>(v, -args.clip, args.clip) : v;
    for (int h = 0; !args.rope_tables.empty() && h < args.query_head_count + keys; ++h) {
      Rotate(static_cast<const HostRopeTable&>(*args.rope_tables[sequence.rope_table]), position,
             row.data() + WideProduct(h, dim));
    }
    if (args.norm_after_rotation) normalize_both();
    for (int h = 0; h < heads; ++h) {
      double* head = row.data() + WideProduct(h, dim);
      const bool is_query = h < args.query_head_count, is_key = !is_query && h < args.query_head_count + kv_heads;
      if (is_query) {
        float* out = queries + (WideProduct(t, args.query_head_count) + h) * dim;
        for (int i = 0; i < dim; ++i) out[i] = head[i];
      } else {
        const int k = h - args.query_head_count - (is_key ? 0 : kv_heads);
        double* out = (is_key ? pool.keys : pool.values).data() + token * pool.width() + WideProduct(k, dim);
        std::copy(head, head + dim, out);
      }
    }
  }
}

Error ReferenceAttend(const FlatBatch& flat, const AttendArgs& args) {
  const auto& pool = static_cast<const ReferencePool&>(*args.pool);
  const int dim = pool.shape.head_dim, heads = args.query_head_count;
  float* out = HostData<float>(args.out, WideProduct(flat.row_count(), heads, dim));
  float* lse = OptionalHostData<float>(args.log_sum_exp, WideProduct(flat.row_count(), heads));
  std::vector<double> scores, sums(dim);
  for (int t = 0; t < flat.row_count(); ++t) {
    if (IsCancelled(flat.batch)) return CancelledError();
    const RowView view(flat, args, t);
    for (int h = 0; h < heads; ++h) {
      const size_t row = WideProduct(t, heads) + h;
      const double top = view.Scores(h, scores);
      std::fill(sums.begin(), sums.end(), 0.0);
      double total = std::exp(view.sink(h) - top);
      for (int key = view.seen.begin; key < view.seen.end; ++key) {
        if (!view.IsVisible(key)) continue;
        const double p = std::exp(scores[key - view.seen.begin] - top);
        total += p;
        const double* value = pool.values.data() + view.at(key, h);
        for (int i = 0; i < dim; ++i) sums[i] += p * value[i];
      }
      for (int i = 0; i < dim; ++i) out[row * dim + i] = total > 0 ? static_cast<float>(sums[i] / total) : 0.0f;
      if (lse != nullptr) lse[row] = total > 0 ? static_cast<float>(top + std::log(total)) : kEmptyLse;
    }
  }
  return {};
}

// From the definitions, over all weights of a row.
void ReferenceInspectAttention(const FlatBatch& flat, const InspectAttentionArgs& args) {
  const RowView view(flat, args.attend, args.row);
  const size_t segments = args.boundaries.size() - 1;
  std::fill(args.masses.begin(), args.masses.end(), 0.0);
  std::vector<double> scores;
  for (int h = 0; h < args.attend.query_head_count; ++h) {
    const double top = view.Scores(h, scores), of_sink = std::exp(view.sink(h) - top);
    double of_keys = 0;
    for (int key = view.seen.begin; key < view.seen.end; ++key) {
      if (view.IsVisible(key)) of_keys += std::exp(scores[key - view.seen.begin] - top);
    }
    const double total = of_keys + of_sink;
    HeadAttention head{.scale = static_cast<float>(view.scale(h))};
    if (total > 0) {
      head.log_sum_exp = top + std::log(total);
      head.sink_weight = of_sink / total;
    }
    for (int key = view.seen.begin; key < view.seen.end; ++key) {
      if (!view.IsVisible(key)) continue;
      const double weight = std::exp(scores[key - view.seen.begin] - top), p = weight / total;
      ++head.visible_count;
      if (weight > 0) head.entropy -= weight / of_keys * std::log(weight / of_keys);
      head.largest_weight = std::max(head.largest_weight, p);
      for (size_t i = 0; i < segments; ++i) {
        if (key >= args.boundaries[i] && key < args.boundaries[i + 1]) args.masses[h * segments + i] += p;
      }
    }
    args.heads[h] = head;
  }
}

}  // namespace varifocal::kernels
