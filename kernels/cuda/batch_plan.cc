#include "kernels/cuda/batch_plan.h"

#include <algorithm>
#include <unordered_map>

namespace varifocal::kernels::cuda {

std::vector<QueryTile> PlanTiles(const FlatBatch& flat, int queries_per_kv, int tile_rows) {
  std::vector<QueryTile> tiles;
  for (size_t s = 0; s < flat.batch.sequences.size(); ++s) {
    const int total = flat.batch.sequences[s].row_count * queries_per_kv;
    for (int first = 0; first < total; first += tile_rows) {
      tiles.push_back({static_cast<int32_t>(s), first, std::min(tile_rows, total - first)});
    }
  }
  const auto last_position = [&](const QueryTile& tile) {
    return flat.batch.sequences[tile.sequence].first_position +
           (tile.first_tile_row + tile.tile_row_count - 1) / queries_per_kv;
  };
  std::stable_sort(tiles.begin(), tiles.end(),
                   [&](const QueryTile& a, const QueryTile& b) { return last_position(a) > last_position(b); });
  return tiles;
}

std::vector<RowInterval> KeysOfTiles(const FlatBatch& flat, const std::vector<QueryTile>& tiles,
                                     std::span<const RowInterval> mask, int queries_per_kv) {
  std::vector<RowInterval> keys;
  for (const QueryTile& tile : tiles) {
    const RowInterval* rows = mask.data() + flat.first_rows[tile.sequence];
    const int last_lane = tile.first_tile_row + tile.tile_row_count - 1;
    keys.push_back({rows[tile.first_tile_row / queries_per_kv].begin, rows[last_lane / queries_per_kv].end});
  }
  return keys;
}

DecodePlan PlanSplits(const FlatBatch& flat, std::span<const RowInterval> mask, int queries_per_kv) {
  constexpr size_t kSplitPages = kSplitKeys / kPageTokens;
  const size_t rows_max = DecodeRows(queries_per_kv);
  const auto tables_of = [&](size_t row) { return flat.batch.sequences[flat.row_sequences[row]].page_tables; };
  // A split that is not visible to its end belongs to one row only.
  const auto whole = [&](size_t row, size_t split) {
    if (mask[row].end < static_cast<int>(split + 1) * kSplitKeys) return false;
    for (const auto& table : tables_of(row)) {
      if (table.size() < (split + 1) * kSplitPages) return false;
    }
    return !tables_of(row).empty();
  };
  const auto alike = [&](size_t a, size_t b, size_t split) {
    const auto left = tables_of(a), right = tables_of(b);
    if (left.size() != right.size()) return false;
    for (size_t g = 0; g < left.size(); ++g) {
      const auto begin = left[g].begin() + split * kSplitPages;
      if (!std::equal(begin, begin + kSplitPages, right[g].begin() + split * kSplitPages)) return false;
    }
    return true;
  };
  DecodePlan plan;
  int last = 0;
  for (const RowInterval& seen : mask) last = std::max(last, SplitsOf(seen.begin, seen.end).last);
  std::vector<std::vector<int32_t>> open;            // rows of the items of one split
  std::unordered_map<int32_t, size_t> open_by_page;  // by the split's first page, the item that still takes rows
  for (int split = 0; split < last; ++split) {
    open.clear();
    open_by_page.clear();
    for (size_t row = 0; row < mask.size(); ++row) {
      const BlockRange splits = SplitsOf(mask[row].begin, mask[row].end);
      if (split < splits.first || split >= splits.last) continue;
      if (rows_max > 1 && whole(row, split)) {
        const int32_t page = tables_of(row)[0][split * kSplitPages];
        const auto known = open_by_page.find(page);
        if (known != open_by_page.end() && open[known->second].size() < rows_max &&
            alike(open[known->second][0], row, split)) {
          open[known->second].push_back(row);
          continue;
        }
        open_by_page[page] = open.size();
      }
      open.push_back({static_cast<int32_t>(row)});
    }
    for (const std::vector<int32_t>& rows : open) {
      plan.items.push_back({static_cast<int32_t>(plan.rows.size()), static_cast<int32_t>(rows.size()), split});
      plan.rows.insert(plan.rows.end(), rows.begin(), rows.end());
    }
  }
  return plan;
}

}  // namespace varifocal::kernels::cuda
