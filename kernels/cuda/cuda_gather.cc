#include "kernels/cuda/cuda_gather.h"

namespace varifocal::kernels::cuda {

Error RunAttentionByGroups(Device& device, CudaWorkspace& own, const GroupTest& groups, const AttentionWork& work,
                           AttendParams& p) {
  const auto launch = [&](int (*start)(const AttendParams&, LaunchStream)) {
    return device.Check(start(p, own.stream()), "starting attention");
  };
  const std::span<const SequenceRows> sequences = own.flat.batch.sequences;
  VF_CHECK(groups.top_k <= own.gather_sizes().passes, "the workspace was planned for these groups");
  const std::vector<GatherWave> waves =
      PlanGather(sequences, groups.gather_from, groups.group_count, groups.top_k, own.gather_sizes());
  if (waves.empty()) return launch(device.kernels().attend_prefill);
  p.gather.from = groups.gather_from;
  p.gather.group_count = groups.group_count;
  p.gather.top_k = groups.top_k;
  if (HasRowsBelow(sequences, groups.gather_from)) {
    if (Error error = launch(device.kernels().attend_prefill); !error.ok()) return error;
  }
  p.tiles = work.tiles;
  p.item_count = work.count;
  p.segments_apart = false;
  if (groups.window > 0) {
    if (Error error = launch(device.kernels().gather_window); !error.ok()) return error;
  }
  for (const GatherWave& wave : waves) {
    own.PlaceGather(wave, p.gather);
    for (int pass = 0; pass < groups.top_k; ++pass) {
      if (p.gather.uses_sm90) {
        p.gather.tile_rows[pass] = kSm90TileRows;
        continue;
      }
      const int most = 64 * GatherTilesPerWarp(p.pool.head_dim, pass > 0);
      const int shared = GatherSharedBytes(p.pool.head_dim, pass > 0, most) + GatherStaticBytes(pass > 0, most);
      const int tiles =
          GatherTilesMax(wave.row_count, p.queries_per_kv, most, wave.sequence_count * groups.group_count);
      // Caps take registers, some devices have less shared memory, and few tiles leave multiprocessors idle.
      const bool halves =
          p.soft_cap > 0 || shared > p.shared_bytes_max || tiles * p.pool.kv_head_count < p.multiprocessor_count;
      p.gather.tile_rows[pass] = halves ? 64 : most;
    }
    for (const auto start : {device.kernels().gather_lists, device.kernels().gather_passes}) {
      if (Error error = launch(start); !error.ok()) return error;
    }
  }
  return {};
}

}  // namespace varifocal::kernels::cuda
