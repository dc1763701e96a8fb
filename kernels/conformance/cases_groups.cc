// Attention by learned groups (Focus) against the oracle and for same bits: every pair tested, or keys gathered by
// group.

#include <algorithm>
#include <cstring>

#include "kernels/conformance/case_tools.h"
#include "kernels/conformance/cases.h"

namespace varifocal::kernels {
namespace {

std::string Name(const AttentionCase& c) {
  const AttentionGroups& g = c.groups;
  std::string name = "groups_" + std::to_string(g.top_k) + "_of_" + std::to_string(g.group_count) + "_near_" +
                     std::to_string(g.window) + "_d" + std::to_string(c.head_dim) + "_h" +
                     std::to_string(c.query_heads) + "k" + std::to_string(c.kv_heads);
  if (c.window > 0) name += "_window_" + std::to_string(c.window);
  if (g.bias == GroupBias::kPaged) name += "_paged";
  if (g.bias == GroupBias::kPrompt) name += "_prompt";
  if (!c.name.empty()) name += "_" + c.name;
  if (!c.row_keys) name += "_columns";
  return name + (g.gather_from == INT32_MAX ? "_tested" : "_gathered_from_" + std::to_string(g.gather_from));
}

std::vector<AttentionCase> GroupTable() {
  std::vector<AttentionCase> shapes;
  const std::vector<AttentionCase::Sequence> mixed = {{290, 3}, {129, 2}, {1, 3}, {128, 1}};
  for (const auto& [k, count] : {std::pair{1, 8}, {2, 8}, {2, 16}, {3, 32}, {1, 3}, {2, 4}, {1, 32}}) {
    for (const int window : {0, 3, 128, 1000}) {
      // Every window with the two settings relevant for speed, one window with the others.
      if (window != 3 && !(count == 8 && k == 1) && !(count == 16 && k == 2)) continue;
      shapes.push_back({.sequences = mixed, .groups = {.group_count = count, .top_k = k, .window = window}});
    }
  }
  for (const int dim : {1, 6, 33, 64, 256}) {
    shapes.push_back({.head_dim = dim,
                      .query_heads = 2,
                      .kv_heads = 1,
                      .sequences = {{290, 3}},
                      .groups = {.group_count = 8, .top_k = 2, .window = 20}});
  }
  for (const auto& [heads, kv] : {std::pair{1, 1}, {6, 2}, {7, 1}}) {
    shapes.push_back({.head_dim = 16,
                      .query_heads = heads,
                      .kv_heads = kv,
                      .sequences = {{700, 2}},
                      .groups = {.group_count = 8, .top_k = 1, .window = 40}});
  }
  for (const GroupBias bias : {GroupBias::kPaged, GroupBias::kPrompt}) {
    shapes.push_back({.sequences = {{600, 140}, {129, 2}, {60, 3}},
                      .groups = {.group_count = 8, .top_k = 2, .window = 10, .bias = bias}});
  }
  shapes.push_back({.name = "scaled",
                    .query_heads = 6,
                    .kv_heads = 2,
                    .sequences = {{400, 3}, {50, 3}},
                    .row_scales = true,
                    .head_scales = true,
                    .amplitude = 5.0f,
                    .groups = {.group_count = 8, .top_k = 2, .window = 30}});
  shapes.push_back({.name = "across_splits",
                    .head_dim = 16,
                    .query_heads = 2,
                    .kv_heads = 1,
                    .sequences = {{2050, 3}, {2047, 2}},
                    .groups = {.group_count = 8, .top_k = 1, .window = 128}});
  // A score cap and sinks: a row's parts, in prefill those of its groups and in decode its splits, merge to one softmax.
  shapes.push_back({.name = "capped",
                    .query_heads = 6,
                    .kv_heads = 2,
                    .sequences = {{400, 3}, {50, 3}},
                    .row_scales = true,
                    .head_scales = true,
                    .amplitude = 5.0f,
                    .soft_cap = 2.0f,
                    .groups = {.group_count = 8, .top_k = 2, .window = 30}});
  shapes.push_back(shapes.back());
  shapes.back().name = "sinks";
  shapes.back().soft_cap = 0;
  shapes.back().head_sinks = true;
  shapes.push_back({.name = "capped_sinks_across_splits",
                    .head_dim = 16,
                    .query_heads = 2,
                    .kv_heads = 1,
                    .sequences = {{2050, 3}, {2047, 2}},
                    .amplitude = 5.0f,
                    .soft_cap = 2.0f,
                    .head_sinks = true,
                    .groups = {.group_count = 8, .top_k = 1, .window = 128}});
  // The lists of keys fill their room, which ends with a page of memory.
  shapes.push_back({.name = "whole_context",
                    .head_dim = 16,
                    .query_heads = 1,
                    .kv_heads = 1,
                    .sequences = {{2047, 1}},
                    .groups = {.group_count = 8, .top_k = 1, .window = 0}});
  std::vector<AttentionCase> table;
  for (const AttentionCase& shape : shapes) {
    const bool is_first = shape.groups.window == 128 && shape.groups.top_k == 1;
    for (const int gather_from : {0, 150, INT32_MAX}) {
      // All three for some; a part of the rows gathered for the others.
      if (gather_from != 150 && !is_first) continue;
      for (const bool row_keys : {true, false}) {
        if (!row_keys && gather_from == INT32_MAX) continue;
        table.push_back(shape);
        table.back().groups.gather_from = gather_from;
        table.back().row_keys = row_keys;
      }
    }
    table.push_back(shape);
  }
  // A window layer's keys are not gathered.
  table.push_back({.sequences = mixed, .window = 100, .groups = {.group_count = 8, .top_k = 1, .window = 30}});
  return table;
}

// Which rows are computed by groups, and whether keys are rows or columns.
struct Path {
  int gather_from;
  bool row_keys = true;
  std::string Name() const {
    return (gather_from == INT32_MAX ? "tested" : "gathered_from_" + std::to_string(gather_from)) +
           (row_keys ? "" : "_columns");
  }
};

// Of the paged ones scores are capped and heads have sinks.
AttentionCase BitsCase(const Path& path, GroupBias bias) {
  return {.name = "bits",
          .query_heads = 6,
          .kv_heads = 2,
          .sequences = {{400, 2}, {129, 2}, {1, 3}, {128, 1}, {200, 60}},
          .row_scales = true,
          .amplitude = 6.0f,
          .soft_cap = bias == GroupBias::kPaged ? 3.0f : 0.0f,
          .head_sinks = bias == GroupBias::kPaged,
          .groups = {.group_count = 8, .top_k = 2, .window = 20, .gather_from = path.gather_from, .bias = bias},
          .row_keys = path.row_keys};
}

std::string CheckGroupWalks(const Path& path, GroupBias bias, Backend& tested) {
  const AttentionCase c = BitsCase(path, bias);
  const AttentionRun base = RunAttentionCase(tested, c, {});
  if (bias != GroupBias::kPrompt) {
    for (const std::vector<int>& chunks : {std::vector{48}, {1, 129, 2}, {129, 1, 1, 48}}) {
      const size_t different = CountDifferentBits(base, RunAttentionCase(tested, c, {.chunks = chunks}));
      if (different != 0) return SameBitsVerdict(different, "chunks of " + std::to_string(chunks[0]) + ", ..");
    }
  }
  const AttentionWalk alone{.one_sequence_at_a_time = true, .page_order_seed = 9, .poison_pages = true};
  return SameBitsVerdict(CountDifferentBits(base, RunAttentionCase(tested, c, alone)),
                         "being alone, on poisoned pages");
}

std::string CheckGroupThreads(Backend& tested, const Path& path) {
  const AttentionCase c = BitsCase(path, GroupBias::kPaged);
  const AttentionRun base = RunAttentionCase(tested, c, {});
  for (const int threads : {1, 2, 3}) {
    auto other =
        CreateBackend({.device = "cpu", .dtype = tested.info().dtype, .thread_count = threads, .cpu_isa = "auto"});
    if (!other.ok()) return other.error().message;
    if ((*other)->info().name != tested.info().name) return "";
    const size_t different = CountDifferentBits(base, RunAttentionCase(**other, c, {.chunks = {64}}));
    if (different != 0) return SameBitsVerdict(different, std::to_string(threads) + " threads");
  }
  return "";
}

// A first page taken from another sequence, with its annotations.
std::string CheckGroupsOfSharedPage(const Path& path, GroupBias bias, Backend& tested) {
  AttentionCase c = BitsCase(path, bias);
  c.sequences = {{400, 2}, {300, 2}, {129, 3}};
  c.same_first_page = true;
  AttentionRun full = RunAttentionCase(tested, c, {});
  for (size_t s = 1; s < full.outs.size(); ++s) {
    std::fill_n(full.outs[s].begin(), kPageTokens * c.query_heads * c.head_dim, 0.0f);
    std::fill_n(full.log_sum_exps[s].begin(), kPageTokens * c.query_heads, 0.0f);
  }
  for (const int chunk : {1 << 20, 50}) {
    const AttentionWalk walk{.chunks = {chunk}, .one_sequence_at_a_time = chunk == 50, .share_first_page = true};
    const size_t different = CountDifferentBits(full, RunAttentionCase(tested, c, walk));
    if (different != 0) return SameBitsVerdict(different, "a shared first page, chunks of " + std::to_string(chunk));
  }
  return "";
}

// The layout for collected keys changes no bit of attention without groups.
std::string CheckLayout(bool windowed, Backend& tested) {
  AttentionCase c{.name = "layout",
                  .query_heads = 6,
                  .kv_heads = 2,
                  .sequences = {{500, 4}, {129, 2}, {2050, 3}},
                  .window = windowed ? 100 : 0,
                  .amplitude = 6.0f};
  const AttentionRun base = RunAttentionCase(tested, c, {});
  c.row_keys = true;
  return SameBitsVerdict(CountDifferentBits(base, RunAttentionCase(tested, c, {.chunks = {200}})),
                         "the layout of keys");
}

// Nor of prefill with groups; decode lists keys that are rows, and adds in another order.
std::string CheckGatheredLayout(Backend& tested) {
  AttentionCase c = BitsCase({150}, GroupBias::kStored);
  for (AttentionCase::Sequence& sequence : c.sequences) sequence.decode = 0;
  const AttentionRun base = RunAttentionCase(tested, c, {});
  c.row_keys = false;
  return SameBitsVerdict(CountDifferentBits(base, RunAttentionCase(tested, c, {.chunks = {200}})),
                         "the layout of keys");
}

// With a window longer than the prompt every pair is visible: tested pair by pair, the bits equal dense attention. Where
// keys are collected, decode lists them and adds in another order, so only prefill is compared.
std::string CheckAllNear(Backend& tested) {
  for (const bool row_keys : {false, true}) {
    AttentionCase c = BitsCase({INT32_MAX}, GroupBias::kStored);
    c.row_keys = row_keys;
    c.groups.window = 1 << 20;
    for (AttentionCase::Sequence& sequence : c.sequences) sequence.decode *= row_keys ? 0 : 1;
    const AttentionRun by_groups = RunAttentionCase(tested, c, {});
    c.row_keys = false;
    c.groups = {};
    const size_t different = CountDifferentBits(RunAttentionCase(tested, c, {}), by_groups);
    if (different != 0) return SameBitsVerdict(different, "a window over everything");
  }
  return "";
}

// The control: gathering another set of rows must change bits, or the comparisons above are vacuous.
std::string CheckGatheringControl(Backend& tested) {
  const AttentionRun tested_pairs = RunAttentionCase(tested, BitsCase({INT32_MAX}, GroupBias::kStored), {}),
                     gathered = RunAttentionCase(tested, BitsCase({0}, GroupBias::kStored), {});
  return CountDifferentBits(tested_pairs, gathered) > 0 ? "" : "testing and gathering gave the same bits";
}

}  // namespace

std::vector<ConformanceCase> GroupCases() {
  std::vector<ConformanceCase> cases;
  const auto add = [&](std::string name, bool gathers, const std::function<std::string(Backend&, Backend&)>& check,
                       int head_dim = 0, Levels levels = {}) {
    cases.push_back({std::move(name), check, head_dim, gathers, std::move(levels)});
  };
  for (const AttentionCase& c : GroupTable()) {
    // A backend that gathers nothing has one layout.
    add(
        Name(c), c.row_keys || c.groups.gather_from != INT32_MAX,
        [c](Backend& tested, Backend& oracle) { return CheckAgainstOracle(c, tested, oracle); }, c.head_dim,
        LevelsOf(c));
  }
  for (const Path& path : {Path{INT32_MAX}, {0}, {150}, {150, false}}) {
    const bool gathers = path.gather_from != INT32_MAX;
    for (const auto& [name, bias] :
         {std::pair{"stored", GroupBias::kStored}, {"paged", GroupBias::kPaged}, {"prompt", GroupBias::kPrompt}}) {
      add(std::string("groups_bits_walks_") + name + "_" + path.Name(), gathers,
          [path, bias = bias](Backend& tested, Backend&) { return CheckGroupWalks(path, bias, tested); });
      if (bias == GroupBias::kPrompt) continue;
      add(std::string("groups_bits_shared_page_") + name + "_" + path.Name(), gathers,
          [path, bias = bias](Backend& tested, Backend&) { return CheckGroupsOfSharedPage(path, bias, tested); });
    }
    add("groups_bits_threads_" + path.Name(), gathers,
        [path](Backend& tested, Backend&) { return CheckGroupThreads(tested, path); });
  }
  for (const bool windowed : {false, true}) {
    add(windowed ? "groups_bits_layout_window" : "groups_bits_layout", true,
        [windowed](Backend& tested, Backend&) { return CheckLayout(windowed, tested); });
  }
  add("groups_bits_layout_gathered", true, [](Backend& tested, Backend&) { return CheckGatheredLayout(tested); });
  add("groups_bits_all_near", false, [](Backend& tested, Backend&) { return CheckAllNear(tested); });
  add("groups_bits_control", true, [](Backend& tested, Backend&) { return CheckGatheringControl(tested); });
  return cases;
}

}  // namespace varifocal::kernels
