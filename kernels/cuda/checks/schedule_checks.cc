// Tiles, blocks and splits, against the definition: every tile row in one tile, every visible key in one block and split,
// independent of neighbours.

#include <algorithm>
#include <map>
#include <tuple>
#include <type_traits>

#include "kernels/conformance/test_harness.h"
#include "kernels/cuda/attention_sm90_load.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/cuda_workspace.h"

namespace varifocal::kernels::cuda {
namespace {

std::string CheckBlocksOf() {
  for (int begin = 0; begin < 300; ++begin) {
    for (int end = 0; end < 300; ++end) {
      const BlockRange blocks = BlocksOf(begin, end);
      for (int block = 0; block < 6; ++block) {
        const bool holds = std::max(begin, block * kBlockKeys) < std::min(end, (block + 1) * kBlockKeys);
        if (begin < end && holds != (block >= blocks.first && block < blocks.last))
          return "block " + std::to_string(block) + " of keys " + std::to_string(begin) + ".." + std::to_string(end);
      }
      if (begin >= end && blocks.first < blocks.last) return "no keys have a block";
    }
  }
  return "";
}

// The mask's classification of a tile against its pairs, one by one.
template <typename Mask>
std::string CheckMaskTile(uint64_t seed) {
  constexpr int kRows = 5, kCount = 8;
  const int window = Mix(seed, 1) % 12, span = static_cast<int>(Mix(seed, 2) % 40) + 1;
  int position = Mix(seed, 3) % 40;
  std::vector<MaskRow> rows;
  MaskRange added;
  uint32_t row_groups = 0;
  for (int i = 0; i < kRows; ++i, position += Mix(seed, 10 + i) % 3) {
    // A few rows at the start may have no visible key.
    const RowInterval seen =
        i < static_cast<int>(Mix(seed, 4) % 12) - 9 ? RowInterval{} : WindowInterval(position, span);
    rows.push_back({seen, position - window, 1u << Mix(seed, 20 + i) % 6});
    row_groups |= rows.back().token_groups;
    added.Add(rows.back());
  }
  uint32_t keys[kCount], key_groups = 0;
  for (int i = 0; i < kCount; ++i) key_groups |= keys[i] = 1u << Mix(seed, 30 + i) % 3;
  const int first = Mix(seed, 5) % 48;
  int visible = 0;
  bool by_groups = true, all_far = true;
  for (const MaskRow& row : rows) {
    for (int i = 0; i < kCount; ++i) {
      const bool counts = Mask::IsVisible(row, first + i, keys[i]);
      visible += counts;
      if constexpr (Mask::kReadsGroups) by_groups = by_groups && counts == Mask::GroupsMatch(row.token_groups, keys[i]);
      all_far = all_far && IntervalMask::IsVisible(row, first + i, 0) && first + i < row.window_begin;
    }
  }
  for (const MaskRange& range : {MaskRange::Between(rows[0], rows[kRows - 1], row_groups), added}) {
    std::vector<TileCover> covers = {Mask::Tile(range, first, kCount)};
    if constexpr (Mask::kReadsGroups) covers.push_back(Mask::Tile(range, first, kCount, key_groups));
    for (const TileCover cover : covers) {
      if (cover == TileCover::kSkip && visible != 0) return "a tile with a visible pair is skipped";
      if (cover == TileCover::kFull && visible != kRows * kCount) return "a tile is taken for full";
      if (cover == TileCover::kGroups && !by_groups) return "a tile is not decided by groups";
    }
    if (std::is_same_v<Mask, WindowOrGroupMask> && all_far && visible == 0 && covers.back() != TileCover::kSkip)
      return "a far tile without a visible pair is not skipped";
  }
  return "";
}

std::string CheckMaskTiles() {
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    for (const auto& check :
         {CheckMaskTile<IntervalMask>, CheckMaskTile<WindowOrGroupMask>, CheckMaskTile<DisjointMask>}) {
      if (const std::string verdict = check(seed); !verdict.empty()) return verdict + ", seed " + std::to_string(seed);
    }
  }
  return "";
}

// Every split of every row is in exactly one item; rows share an item only where they have the same pages in every page
// group and the split is visible to its end, and then as many as fit.
std::string CheckSplits() {
  constexpr int kPages = 48, kSplitPages = kSplitKeys / kPageTokens;
  std::vector<RowInterval> mask;
  for (int i = 0; i < 400; ++i) {
    const int begin = Mix(1, i) % 5000, end = Mix(2, i) % 5000;
    mask.push_back({i % 3 == 0 ? begin : 0, end});
  }
  mask.push_back({0, 0});
  mask.push_back({kSplitKeys, kSplitKeys + 1});
  mask.push_back({kSplitKeys - 1, kSplitKeys});
  const int rows = mask.size();
  // Four families of prompts, each row with its own pages from somewhere on; a second page group breaks a few apart.
  std::vector<std::vector<int32_t>> tables(2 * rows, std::vector<int32_t>(kPages));
  std::vector<std::vector<std::span<const int32_t>>> spans(rows);
  std::vector<SequenceRows> sequences(rows);
  FlatBatch flat;
  for (int row = 0; row < rows; ++row) {
    const int family = Mix(3, row) % 4, shared = Mix(4, row) % kPages;
    for (int i = 0; i < kPages; ++i) {
      tables[2 * row][i] = i < shared ? family * kPages + i : 1000 + row * kPages + i;
      tables[2 * row + 1][i] = row % 7 == 0 ? 100000 + row * kPages + i : tables[2 * row][i];
    }
    for (int g = 0; g < 2; ++g) spans[row].push_back({tables[2 * row + g].data(), tables[2 * row + g].size()});
    sequences[row] = {.row_count = 1, .page_tables = spans[row]};
    flat.row_sequences.push_back(row);
  }
  flat.batch.sequences = sequences;
  for (const int queries_per_kv : {1, 3, 5, 16, 40}) {
    const DecodePlan plan = PlanSplits(flat, mask, queries_per_kv);
    std::map<int, std::vector<int>> found;
    int shared_rows = 0;
    for (const DecodeItem& item : plan.items) {
      if (item.row_count < 1 || item.row_count > DecodeRows(queries_per_kv)) return "an item has no rows, or too many";
      const int first = plan.rows[item.first_row];
      for (int i = 0; i < item.row_count; ++i) {
        const int row = plan.rows[item.first_row + i];
        found[row].push_back(item.split);
        if (item.row_count == 1) continue;
        ++shared_rows;
        if (mask[row].end < (item.split + 1) * kSplitKeys)
          return "a row shares a split that it does not see to its end";
        for (int g = 0; g < 2; ++g) {
          for (int page = item.split * kSplitPages; page < (item.split + 1) * kSplitPages; ++page) {
            if (tables[2 * row + g][page] != tables[2 * first + g][page]) return "rows with other pages share an item";
          }
        }
      }
    }
    for (int row = 0; row < rows; ++row) {
      std::vector<int> wanted;
      for (int split = 0; split < kPages / kSplitPages; ++split) {
        if (std::max(mask[row].begin, split * kSplitKeys) < std::min(mask[row].end, (split + 1) * kSplitKeys))
          wanted.push_back(split);
      }
      if (mask[row].begin >= mask[row].end) wanted.clear();
      if (found[row] != wanted) return "row " + std::to_string(row) + " has other splits than its keys";
    }
    if ((shared_rows > 0) != (DecodeRows(queries_per_kv) > 1))
      return "rows share items where they cannot, or do not where they can";
  }
  // Sixteen rows of one prompt: one item a split.
  FlatBatch alike;
  const std::vector<RowInterval> whole(16, RowInterval{0, 2 * kSplitKeys});
  std::vector<SequenceRows> same(16, sequences[0]);
  alike.batch.sequences = same;
  for (int row = 0; row < 16; ++row) alike.row_sequences.push_back(row);
  return PlanSplits(alike, whole, 1).items.size() == 2 ? "" : "rows that share everything are read more than once";
}

// Every tile row of every sequence is in exactly one tile; long ranges come first.
std::string CheckTiles() {
  for (const int queries_per_kv : {1, 2, 3, 7, 16, 200}) {
    for (const int tile_rows : {64, 128}) {
      std::vector<SequenceRows> sequences(6);
      const int rows[] = {300, 1, 0, 129, 64, 17}, firsts[] = {0, 999, 5, 128, 4000, 1};
      for (int s = 0; s < 6; ++s) sequences[s] = {.row_count = rows[s], .first_position = firsts[s]};
      FlatBatch flat;
      const StepShape shape{.row_count_max = 1000, .sequence_count_max = 6, .context_length_max = 5000};
      if (!flat.Assign({.sequences = sequences}, shape).ok()) return "the batch is valid";
      std::map<std::pair<int, int>, int> seen;
      int last = 1 << 30;
      for (const QueryTile& tile : PlanTiles(flat, queries_per_kv, tile_rows)) {
        if (tile.tile_row_count < 1 || tile.tile_row_count > tile_rows) return "a tile has no rows, or too many";
        for (int i = 0; i < tile.tile_row_count; ++i) ++seen[{tile.sequence, tile.first_tile_row + i}];
        const int position = firsts[tile.sequence] + (tile.first_tile_row + tile.tile_row_count - 1) / queries_per_kv;
        if (position > last) return "a longer tile comes later";
        last = position;
      }
      size_t total = 0;
      for (const int r : rows) total += r * queries_per_kv;
      if (seen.size() != total) return "tile rows are missing or double";
      for (const auto& [tile_row, count] : seen) {
        if (count != 1) return "a tile row is in two tiles";
      }
    }
  }
  return "";
}

// Every tile, head and segment is one item of one block of the sm90 kernel's grid, and the heads of a section are next to each
// other.
std::string CheckSm90Items() {
  for (const int tiles : {1, 3, 64}) {
    for (const int heads : {1, 5, 20}) {
      for (const int segments : {1, 4}) {
        for (const bool apart : {false, true}) {
          for (const int items_per_block : {0, 1, 8}) {
            const Sm90Grid grid = PlanSm90Grid(tiles, heads, segments * kSegmentKeys, apart, 128,
                                               {.items_per_block = items_per_block}, 132);
            const int each = items_per_block > 0 ? items_per_block : grid.work_count;
            if (grid.work_count != tiles * heads * (apart ? segments : 1))
              return "tiles, heads or segments are missing or double";
            if (grid.block_count < std::min(132, grid.work_count) || int64_t{grid.block_count} * each < grid.work_count)
              return "too few blocks for the work";
            std::map<std::tuple<int, int, int>, int> seen;
            int last_section = 0;
            for (int item = 0; item < grid.work_count; ++item) {
              const Sm90ItemPlace place = Sm90PlaceOf(grid, heads, item);
              ++seen[{place.segment, place.tile, place.kv_head}];
              const int section = place.segment * heads + place.kv_head / grid.section_heads;
              if (section < last_section) return "a section begins before the one before ends";
              last_section = section;
            }
            if (seen.size() != size_t(tiles) * heads * (apart ? segments : 1))
              return "tiles, heads or segments are missing";
          }
        }
      }
    }
  }
  return "";
}

// The load against numbers counted by hand, and its bounds; segments are apart where that ends earlier.
std::string CheckSm90Load() {
  const auto load = [](const std::vector<RowInterval>& tiles, int heads, bool apart, int multiprocessors) {
    return LoadOfSm90({.tiles = tiles,
                       .row_count = 128 * static_cast<int>(tiles.size()),
                       .query_head_count = heads,
                       .kv_head_count = heads,
                       .head_dim = 128,
                       .key_count = 4 * kSegmentKeys},
                      apart, {.items_per_block = 8}, multiprocessors);
  };
  const RowInterval longest{0, 4 * kSegmentKeys};  // 256 blocks of 128 keys
  const struct {
    std::vector<RowInterval> tiles;
    int heads, multiprocessors;
    double in_order, apart;
  } cases[] = {
      {{longest}, 1, 132, 257, 65},          {{longest}, 1, 2, 257, 130},  // four segments on two
      {{longest, {0, 128}}, 1, 1, 259, 262},                               // the short tile has one segment
      {{longest, longest}, 3, 4, 514, 390},                                // six items on four; 24 items, six each
      {{{100, 129}, {5, 5}}, 1, 2, 3, 3},  // keys 100 to 128 are in two blocks; nothing to see takes a unit, or none
  };
  for (const auto& c : cases) {
    if (load(c.tiles, c.heads, false, c.multiprocessors).units != c.in_order)
      return "segments in order take other units";
    if (load(c.tiles, c.heads, true, c.multiprocessors).units != c.apart) return "segments apart take other units";
  }
  const auto apart = [](int rows, int context, int heads) {
    std::vector<RowInterval> tiles;
    for (int end = context + rows; end > context; end -= 128) tiles.push_back({0, end});
    return Sm90SegmentsApart({.tiles = tiles,
                              .row_count = rows,
                              .query_head_count = heads,
                              .kv_head_count = heads,
                              .head_dim = 128,
                              .key_count = context + rows},
                             {}, 132);
  };
  if (!apart(128, 32768, 20)) return "one tile a head leaves most multiprocessors idle";
  if (!apart(1024, 32768, 20)) return "160 items on 132 multiprocessors take two rounds in order";
  if (apart(8192, 24576, 20)) return "a whole chunk fills the device as it is";
  if (apart(128, 4096, 20)) return "one segment cannot be divided";
  return "";
}

// K is cut into whole steps that cover it, the same for every number of rows, and not too finely.
std::string CheckSplitK() {
  for (const int outputs : {1, 63, 64, 65, 512, 2560, 7680, 8192, 13824, 50257}) {
    for (const int inner : {1, 16, 64, 65, 255, 256, 1000, 2560, 6912, 13824}) {
      const int splits = DecodeSplitK(outputs, inner), steps = SplitSteps(inner, splits), all = CeilDivide(inner, 64);
      if (splits < 1 || steps * splits < all || (splits > 1 && (splits - 1) * steps >= all))
        return std::to_string(splits) + " splits of " + std::to_string(steps) + " steps for K " + std::to_string(inner);
      if (splits > 1 && steps < 4) return "a split of fewer than 4 steps for K " + std::to_string(inner);
      // The scratch of a product is enough for all smaller ones.
      for (const int fewer : {1, 64, 100, outputs / 2, outputs - 64, outputs}) {
        for (const int shorter : {1, 256, inner / 3, inner - 70, inner}) {
          if (fewer < 1 || shorter < 1 || fewer > outputs || shorter > inner) continue;
          if (int64_t{fewer} * DecodeSplitK(fewer, shorter) > DecodeNumbersMax(outputs, inner))
            return "a product of " + std::to_string(fewer) + " by " + std::to_string(shorter) + " needs more scratch";
        }
      }
    }
  }
  return "";
}

// The planned bytes equal the allocated bytes of a workspace, and grow only with the number of rows.
std::string CheckSizes() {
  const StepShape shape{.row_count_max = 2048,
                        .sequence_count_max = 16,
                        .head_row_count_max = 64,
                        .context_length_max = 32768,
                        .model_dim = 2560,
                        .query_head_count = 20,
                        .kv_head_count = 20,
                        .head_dim = 128,
                        .ffn_dim = 6912,
                        .vocab_size = 50257};
  const WorkspaceSizes sizes = SizesFor(shape);
  // The largest product of such a step is q, k and v in f32; gate and up are bf16.
  if (sizes.product_bytes != size_t{2048} * 7680 * 4) return "scratch is " + std::to_string(sizes.product_bytes);
  // A result of every row over the segments so far is more than 16 rows with 64 splits; one segment needs none.
  if (sizes.partial_floats != size_t{2048} * 20 * 130) return "partials are " + std::to_string(sizes.partial_floats);
  StepShape short_shape = shape;
  short_shape.context_length_max = 8192;
  if (const size_t partials = SizesFor(short_shape).partial_floats;
      partials != size_t{16} * 20 * (8192 / kSplitKeys) * 130)
    return "partials within one segment are " + std::to_string(partials);
  // Half the layers have 4 key heads of 64 numbers: five query heads share one, in tiles of their own.
  StepShape two_shapes = shape;
  two_shapes.mask_heads = {{20, 128}, {4, 64}};
  const WorkspaceSizes of_two = SizesFor(two_shapes);
  if (of_two.product_bytes != sizes.product_bytes || of_two.metadata_words < sizes.metadata_words)
    return "layers of two shapes take other scratch than the larger of them";
  return "";
}

}  // namespace

std::vector<NamedCheck> ScheduleChecks() {
  return {{"schedule_blocks", CheckBlocksOf},      {"schedule_mask_tiles", CheckMaskTiles},
          {"schedule_decode_splits", CheckSplits}, {"schedule_tiles", CheckTiles},
          {"schedule_split_k", CheckSplitK},       {"schedule_sizes", CheckSizes},
          {"schedule_sm90_items", CheckSm90Items}, {"schedule_sm90_load", CheckSm90Load}};
}

}  // namespace varifocal::kernels::cuda
