#include "server/engine/group_shares.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "server/model/kernel_status.h"

namespace varifocal {
namespace {

// Lookups of a subset cost this many comparisons of two sets, which vectorize (BM_CountGroups).
constexpr size_t kComparisonsPerSubset = 24;

template <typename Use>
void ForEachSubset(uint32_t set, Use use) {
  for (uint32_t subset = set; subset != 0; subset = (subset - 1) & set) use(subset);
}

// How many keys share a group with a set, for keys added one by one: a count per set that occurs. O(sets) a key.
class CountsBySet {
 public:
  explicit CountsBySet(const std::vector<uint32_t>& sets) : sets_(sets), meeting_(sets.size()) {}
  void Add(uint32_t key) {
    for (size_t s = 0; s < sets_.size(); ++s) meeting_[s] += (sets_[s] & key) != 0;
  }
  uint64_t Meeting(uint32_t set_index) const { return meeting_[set_index]; }

 private:
  const std::vector<uint32_t>& sets_;
  std::vector<uint32_t> meeting_;
};

// The same by inclusion and exclusion: a count per subset, of the keys that hold all of it. O(2^k) a key and a question.
class CountsBySubset {
 public:
  explicit CountsBySubset(const std::vector<uint32_t>& sets) : sets_(sets) {}
  void Add(uint32_t key) {
    ForEachSubset(key, [&](uint32_t subset) { ++holders_[subset]; });
  }
  uint64_t Meeting(uint32_t set_index) const {
    int64_t meeting = 0;
    ForEachSubset(sets_[set_index], [&](uint32_t subset) {
      const auto found = holders_.find(subset);
      if (found == holders_.end()) return;
      meeting += __builtin_popcount(subset) % 2 == 1 ? found->second : -found->second;
    });
    return meeting;
  }

 private:
  const std::vector<uint32_t>& sets_;
  absl::flat_hash_map<uint32_t, int64_t> holders_;
};

// Of all rows; set_of[i] is the index of the set of token i. `near` keys up to the row's own are visible anyway.
template <typename Counts>
uint64_t VisiblePairs(const std::vector<uint32_t>& groups, const std::vector<uint32_t>& set_of, size_t near,
                      Counts counts) {
  uint64_t visible = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i >= near) counts.Add(groups[i - near]);
    visible += std::min(i + 1, near) + counts.Meeting(set_of[i]);
  }
  return visible;
}

}  // namespace

void CountGroups(int32_t window, LayerGroups& layer) {
  const std::vector<uint32_t>& groups = layer.groups;
  std::vector<uint32_t> sets;  // that occur, in the order of their first token
  std::vector<uint32_t> set_of(groups.size());
  absl::flat_hash_map<uint32_t, uint32_t> known;
  std::array<uint64_t, kernels::kGroupCountMax> holders = {};
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto [at, is_new] = known.try_emplace(groups[i], static_cast<uint32_t>(sets.size()));
    if (is_new) sets.push_back(groups[i]);
    set_of[i] = at->second;
    for (uint32_t left = groups[i]; left != 0; left &= left - 1) ++holders[__builtin_ctz(left)];
  }
  const size_t near = int64_t{window} + 1;
  const size_t subset_count = size_t{1} << __builtin_popcount(groups.empty() ? 0 : groups[0]);
  layer.visible_pair_count = sets.size() <= subset_count * kComparisonsPerSubset
                                 ? VisiblePairs(groups, set_of, near, CountsBySet(sets))
                                 : VisiblePairs(groups, set_of, near, CountsBySubset(sets));
  layer.largest_group_count = *std::max_element(holders.begin(), holders.end());
}

absl::StatusOr<std::optional<GroupShares>> ReadGroupShares(const Transformer& model, KvPools pools,
                                                           const AttentionSetting& attention,
                                                           std::span<const std::vector<int32_t>> tables,
                                                           int64_t token_count) {
  const ModelConfig& config = model.config();
  const uint64_t tokens = token_count, pairs = tokens * (tokens + 1) / 2;
  GroupShares shares;
  uint64_t layer_count = 0, visible = 0, largest = 0;
  for (int64_t index = 0; index < config.layer_count; ++index) {
    const LayerConfig& placed = config.layers[index];
    const std::optional<kernels::GroupTest> test = attention.Groups(index);
    if (!test || !placed.has_attention || placed.window != 0) continue;
    ++layer_count;
    if (kernels::AllGroupSetsIntersect(test->group_count, test->top_k)) {
      visible += pairs;
      if (test->top_k == test->group_count) largest = tokens;
      continue;
    }
    LayerGroups layer{.layer = index, .group_count = test->group_count};
    layer.groups.resize(tokens);
    const size_t page_group = placed.page_group;
    const absl::Status read = ToStatus(model.backend().ReadGroups(
        *pools[page_group], placed.group_layer, tables[page_group], test->annotation_offset, layer.groups));
    if (absl::IsUnimplemented(read)) return std::nullopt;
    RETURN_IF_ERROR(read);
    CountGroups(test->window, layer);
    visible += layer.visible_pair_count;
    largest = std::max(largest, layer.largest_group_count);
    shares.layers.push_back(std::move(layer));
  }
  if (layer_count == 0) return std::nullopt;
  shares.pairs_visible = static_cast<double>(visible) / (layer_count * pairs);
  if (largest > 0) shares.largest_group = static_cast<double>(largest) / tokens;
  return shares;
}

}  // namespace varifocal
