// Lists of the keys of each group, and of the rows of each pass, for attention by groups with gathered keys (attention_gathered.h).
//
// A block lists one group of one sequence: a warp counts the tokens of its range, a prefix sum over the warps gives each its place,
// then it writes them in order. A second kernel orders the tiles of each pass, longest first.

#include "kernels/cuda/attention_masks.h"
#include "kernels/cuda/gather_steps.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kWarps = kGatherThreads / 32;
static_assert(kWarps == 32 && kGroupCountMax == 32, "a lane a warp, and a lane a group");

// What a warp has counted: entries of lower groups, of the group; of each pass, rows whose group of that pass is lower, or is the group.
struct GatherCounts {
  int lower, own;
  int lower_rows[kGatherPassesMax], own_rows[kGatherPassesMax];
};

struct GatherSequence {
  int token_count = 0, first_position = 0, first_row = 0;
  const int32_t* table = nullptr;
};
// A sequence without a row that is computed by groups has no tokens here.
VF_DEVICE GatherSequence GatherSequenceOf(const AttendParams& p, int index) {
  const int first_row = p.step.first_rows[index], first_position = p.step.first_positions[index];
  const int rows = p.step.first_rows[index + 1] - first_row, end = first_position + rows;
  return {rows > 0 && end > p.gather.from ? end : 0, first_position, first_row,
          p.step.page_tables + p.pool.table_starts[index]};
}
// The first position whose row is computed by groups.
VF_DEVICE int GatheredFrom(const AttendParams& p, const GatherSequence& sequence) {
  return sequence.first_position > p.gather.from ? sequence.first_position : p.gather.from;
}

// Lanes of a warp where it holds, a bit each.
VF_DEVICE uint32_t Ballot(bool holds) { return WarpOr(holds ? 1u << LaneIndex() : 0u); }
VF_DEVICE int RankInWarp(uint32_t lanes) {
  const int before = CountBits(lanes & ((1u << LaneIndex()) - 1));
  return IsOmitted(GatherStep::kListOrder) ? CountBits(lanes) - 1 - before : before;
}

// The groups of a token, 0 past the end.
VF_DEVICE TokenGroups GroupsAt(const AttendParams& p, const GatherSequence& sequence, int position) {
  if (position >= sequence.token_count) return 0;
  return PageGroups(p, sequence.table[position / kPageTokenCount])[position % kPageTokenCount];
}

VF_KERNEL(kGatherThreads, 1) ListGroupsKernel(const AttendParams p) {
  FollowPreviousLaunch();
  VF_SHARED int counts[kWarps][2 + 2 * kGatherPassesMax];
  const int group = BlockX(), passes = p.gather.top_k, warp = WarpIndex(), lane = LaneIndex();
  const GatherSequence sequence = GatherSequenceOf(p, p.gather.first_sequence + BlockY());
  const TokenGroups bit = 1u << group, below = bit - 1;
  const int from = GatheredFrom(p, sequence);
  // Whole warps of tokens each.
  const int each = CeilDivide(CeilDivide(sequence.token_count, 32), kWarps) * 32, begin = warp * each;
  const int end = begin + each < sequence.token_count ? begin + each : sequence.token_count;

  int lower = 0, own = 0, lower_rows[kGatherPassesMax] = {}, own_rows[kGatherPassesMax] = {};
  for (int first = begin; first < end; first += 32) {
    const TokenGroups groups = GroupsAt(p, sequence, first + lane);
    const int before = CountBits(groups & below);
    const bool has = (groups & bit) != 0, is_row = first + lane >= from;
    lower += before;
    own += has;
    VF_UNROLL
    for (int pass = 0; pass < kGatherPassesMax; ++pass) {
      lower_rows[pass] += is_row && before > pass;
      own_rows[pass] += is_row && has && before == pass;
    }
  }
  lower = WarpSum(lower);
  own = WarpSum(own);
  VF_UNROLL
  for (int pass = 0; pass < kGatherPassesMax; ++pass) {
    lower_rows[pass] = WarpSum(lower_rows[pass]);
    own_rows[pass] = WarpSum(own_rows[pass]);
  }
  if (lane == 0) {
    counts[warp][0] = lower;
    counts[warp][1] = own;
    VF_UNROLL
    for (int pass = 0; pass < kGatherPassesMax; ++pass) {
      counts[warp][2 + 2 * pass] = lower_rows[pass];
      counts[warp][3 + 2 * pass] = own_rows[pass];
    }
  }
  if (!IsOmitted(GatherStep::kListSync)) SyncThreads();

  // Of the sequences before: the room of their lists, and their rows.
  int room = 0, rows_before = 0;
  for (int s = lane; s < static_cast<int>(BlockY()); s += 32) {
    const GatherSequence other = GatherSequenceOf(p, p.gather.first_sequence + s);
    const int rows = other.token_count - GatheredFrom(p, other);
    room += GatherRoom(passes, other.token_count, p.gather.group_count);
    rows_before += rows > 0 ? rows : 0;
  }
  room = WarpSum(room);
  rows_before = WarpSum(rows_before);
  // A lane has the counts of a warp.
  GatherList list;
  list.first_key = room + GatherFirstKey(WarpSum(counts[lane][0]), group);
  list.key_count = WarpSum(counts[lane][1]);
  const bool is_before = lane < warp && !IsOmitted(GatherStep::kListBegin);
  int key = WarpSum(is_before ? counts[lane][1] : 0), row_at[kGatherPassesMax];
  VF_UNROLL
  for (int pass = 0; pass < kGatherPassesMax; ++pass) {
    list.first_rows[pass] = rows_before + WarpSum(counts[lane][2 + 2 * pass]);
    list.row_counts[pass] = WarpSum(counts[lane][3 + 2 * pass]);
    row_at[pass] = list.first_rows[pass] + WarpSum(is_before ? counts[lane][3 + 2 * pass] : 0);
  }
  if (ThreadX() == 0) p.gather.lists[BlockY() * p.gather.group_count + group] = list;

  for (int first = begin; first < end; first += 32) {
    const int position = first + lane;
    const TokenGroups groups = GroupsAt(p, sequence, position);
    const bool has = (groups & bit) != 0;
    const uint32_t lanes = Ballot(has);
    const int rank = key + RankInWarp(lanes);
    if (has) {
      const int32_t page = sequence.table[position / kPageTokenCount];
      p.gather.places[list.first_key + rank] = page * kPageTokenCount + position % kPageTokenCount;
      p.gather.key_groups[list.first_key + rank] = groups;
    }
    key += CountBits(lanes);
    if (first + 32 <= from) continue;
    const int before = CountBits(groups & below);
    VF_UNROLL
    for (int pass = 0; pass < kGatherPassesMax; ++pass) {
      if (pass >= passes) break;
      const bool is_of_pass = has && position >= from && before == pass;
      const uint32_t of_pass = Ballot(is_of_pass);
      if (is_of_pass) {
        p.gather.rows[WideProduct(pass, p.step.row_count) + row_at[pass] + RankInWarp(of_pass)] = {
            sequence.first_row + position - sequence.first_position, rank};
      }
      row_at[pass] += CountBits(of_pass);
    }
  }
}

// The tiles of a list under a pass.
struct ListTiles {
  int first_rank = 0, key_count = 0, count = 0, all_rows = 0;
  VF_DEVICE int Cost(int index) const { return GatherCost(first_rank, key_count, index, count); }
  // How many cost at least this.
  VF_DEVICE int CountFrom(int cost) const {
    int below = 0, most = count;
    while (below < most) {
      const int middle = (below + most) / 2;
      if (Cost(middle) < cost) {
        below = middle + 1;
      } else {
        most = middle;
      }
    }
    return count - below;
  }
};
VF_DEVICE ListTiles TilesOf(const AttendParams& p, int list, int pass) {
  const GatherList& of = p.gather.lists[list];
  const int all_rows = of.row_counts[pass] * p.queries_per_kv;
  if (all_rows == 0) return {};
  return {p.gather.rows[WideProduct(pass, p.step.row_count) + of.first_rows[pass]].rank, of.key_count,
          CeilDivide(all_rows, p.gather.tile_rows[pass]), all_rows};
}

// A block has the tiles of one list and pass, a warp one at a time: its place is the number of tiles before it.
VF_KERNEL(kGatherThreads, 1) PlanGatheredKernel(const AttendParams p) {
  FollowPreviousLaunch();
  const int own = BlockX(), pass = BlockY(), lane = LaneIndex();
  const int list_count = p.gather.sequence_count * p.gather.group_count, tile_rows = p.gather.tile_rows[pass];
  const ListTiles tiles = TilesOf(p, own, pass);
  for (int index = WarpIndex(); index < tiles.count; index += kWarps) {
    const int cost = tiles.Cost(index);
    int before = 0;
    for (int list = lane; list < list_count; list += 32) {
      // Of equal cost: lower lists first, in a list its last tile.
      if (list == own) {
        before += tiles.count - 1 - index;
      } else {
        before += TilesOf(p, list, pass).CountFrom(list < own ? cost : cost + 1);
      }
    }
    before = WarpSum(before);
    const int first = index * tile_rows, left = tiles.all_rows - first;
    if (lane == 0) {
      p.gather.tiles[WideProduct(pass, p.gather.tile_stride) + before] = {own, first,
                                                                          left < tile_rows ? left : tile_rows, 0};
    }
  }
  if (own != 0 || WarpIndex() != 0) return;
  int all = 0;
  for (int list = lane; list < list_count; list += 32) all += TilesOf(p, list, pass).count;
  all = WarpSum(all);
  if (lane == 0) p.gather.tile_counts[pass] = all;
}

}  // namespace

int LaunchGatherLists(const AttendParams& p, LaunchStream stream) {
  const int code =
      VF_LAUNCH(ListGroupsKernel, p.gather.group_count, p.gather.sequence_count, 1, kGatherThreads, 0, stream, p);
  if (code != 0) return code;
  return VF_LAUNCH(PlanGatheredKernel, p.gather.sequence_count * p.gather.group_count, p.gather.top_k, 1,
                   kGatherThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
