#include "kernels/cuda/cuda_inspection.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/wide_product.h"

namespace varifocal::kernels::cuda {

Error RunInspection(CudaStorage& storage, CudaWorkspace& own, const PoolView& pool, const InspectAttentionArgs& args) {
  Device& device = storage.device();
  if (Error error = own.QueueKept(); !error.ok()) return error;
  const AttendArgs& attend = args.attend;
  const int row = args.row, heads = attend.query_head_count, position = own.flat.row_positions[row];
  const RowInterval seen = own.flat.batch.masks[attend.mask_index][row];
  const int count = std::max(0, seen.end - seen.begin), first_page = seen.begin / kPageTokens;
  float row_scale = attend.scale;
  if (attend.row_scales.buffer != nullptr) {
    const float* scales = DeviceData<float>(attend.row_scales, own.flat.row_count());
    if (Error error = device.Download(&row_scale, scales + row, sizeof row_scale); !error.ok()) return error;
  }
  std::vector<float> head_scales(heads, 1.0f), sinks(heads, attend.sink), scores(count);
  if (attend.head_scales.buffer != nullptr) {
    const float* scales = DeviceData<float>(attend.head_scales, heads);
    if (Error error = device.Download(head_scales.data(), scales, heads * sizeof(float)); !error.ok()) return error;
  }
  if (attend.sinks.buffer != nullptr) {
    const float* from = DeviceData<float>(attend.sinks, heads);
    if (Error error = device.Download(sinks.data(), from, heads * sizeof(float)); !error.ok()) return error;
  }
  MaskRow mask{.seen = seen};
  std::vector<uint32_t> groups;  // of the positions from first_page on
  if (attend.groups != nullptr && count > 0) {
    const SequenceRows& sequence = own.flat.batch.sequences[own.flat.row_sequences[row]];
    groups.resize(seen.end - first_page * kPageTokens);
    if (Error error =
            storage.ReadGroups(*attend.pool, attend.layer, sequence.page_tables[attend.page_group].subspan(first_page),
                               attend.groups->annotation_offset, groups);
        !error.ok())
      return error;
    mask.window_begin = position - attend.groups->window;
    mask.token_groups = groups[position - first_page * kPageTokens];
  }
  const size_t segments = args.boundaries.size() - 1;
  for (int head = 0; head < heads; ++head) {
    AttentionStatistics statistics(args.boundaries, args.masses.subspan(head * segments, segments));
    const float scale = attend.head_scales.buffer != nullptr ? row_scale * head_scales[head] : row_scale;
    if (count > 0) {
      ScoresParams p;
      p.step = own.step();
      p.pool = pool;
      p.queries = DeviceData<float>(attend.queries, WideProduct(own.flat.row_count(), heads, p.pool.head_dim));
      p.query_head_count = heads;
      p.row = row;
      p.head = head;
      p.begin = seen.begin;
      p.end = seen.end;
      p.scores = own.row_numbers.as<float>();
      if (Error error = device.Check(device.kernels().scores(p, own.stream()), "inspecting attention"); !error.ok())
        return error;
      if (Error error = device.Download(scores.data(), p.scores, count * sizeof(float)); !error.ok()) return error;
    }
    const auto key_at = [&](int n) { return seen.begin + n; };
    statistics.Add(
        count,
        [&](int n) {
          const double score = static_cast<double>(scores[n]) * scale, cap = attend.soft_cap;
          return cap > 0 ? cap * std::tanh(score / cap) : score;
        },
        key_at,
        [&](int n) {
          return groups.empty() ||
                 WindowOrGroupMask::IsVisible(mask, key_at(n), groups[key_at(n) - first_page * kPageTokens]);
        });
    args.heads[head] = statistics.Finish(scale, sinks[head]);
  }
  return {};
}

}  // namespace varifocal::kernels::cuda
