// The conformance table, case by case, on the emulated device: the same kernels and backend as on a GPU. Scratch and
// new memory are filled with NaNs; asynchronous copies complete only when they are waited for.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/wide_product.h"
#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"
#include "kernels/cuda/emulator/fibers.h"
#include "kernels/cuda/schedule.h"

namespace varifocal::kernels::cuda {
namespace {

Result<std::unique_ptr<Backend>> MakeEmulated() {
  return CreateBackendOn(MakeEmulatedRuntime(std::make_shared<EmulatedMachine>()), 0, {.dtype = DType::kBF16});
}

std::string CheckCase(const ConformanceCase& c) {
  auto tested = MakeEmulated();
  if (!tested.ok()) return tested.error().message;
  auto oracle = MakeOracle(DType::kBF16);
  return c.check(**tested, *oracle);
}

// A missing barrier makes bits depend on the order in which threads run.
std::string CheckThreadOrder(const AttentionGroups& groups) {
  const AttentionCase c{.name = "order",
                        .head_dim = 80,
                        .query_heads = 4,
                        .kv_heads = 2,
                        .sequences = {{150, 2}, {70, 1}},
                        .window = 100,
                        .row_scales = true,
                        .amplitude = 4.0f,
                        .groups = groups};
  auto tested = MakeEmulated();
  if (!tested.ok()) return tested.error().message;
  const AttentionRun base = RunAttentionCase(**tested, c, {});
  for (const uint64_t seed : {1, 2, 3}) {
    emulator::SetScheduleSeed(seed);
    const size_t different = CountDifferentBits(base, RunAttentionCase(**tested, c, {}));
    emulator::SetScheduleSeed(0);
    if (different != 0) return "another order of threads changed " + std::to_string(different) + " numbers";
  }
  return "";
}

std::string CheckThreadOrderOfRecurrence() {
  for (const ConformanceCase& c : RecurrenceCases()) {
    if (c.name != "recurrence") continue;
    for (const uint64_t seed : {1, 2}) {
      emulator::SetScheduleSeed(seed);
      const std::string verdict = CheckCase(c);
      emulator::SetScheduleSeed(0);
      if (!verdict.empty()) return verdict;
    }
    return "";
  }
  return "no case of a recurrence";
}

// A device with many multiprocessors halves query tiles, one with little shared memory has fewer decode stages: other
// kernels, the same bits.
std::string CheckOtherDevices() {
  const auto run = [](const AttentionCase& c, int multiprocessors, int shared_bytes, AttentionRun* out) -> int64_t {
    auto machine = std::make_shared<EmulatedMachine>();
    machine->multiprocessor_count = multiprocessors;
    machine->limits.shared_bytes_max = shared_bytes;
    auto backend = CreateBackendOn(MakeEmulatedRuntime(machine), 0, {.dtype = DType::kBF16});
    VF_CHECK(backend.ok(), "the emulated device opens");
    const int64_t before = emulator::GetCounters().blocks;
    *out = RunAttentionCase(**backend, c, {});
    return emulator::GetCounters().blocks - before;
  };
  for (const int dim : {64, 96, 128}) {
    for (const int group_count : {0, 8}) {
      AttentionCase c{.name = "devices",
                      .head_dim = dim,
                      .query_heads = 2,
                      .kv_heads = 1,
                      .sequences = {{150, 2}, {70, 1}},
                      .window = 100,
                      .row_scales = true,
                      .amplitude = 4.0f};
      if (group_count > 0) c.groups = {.group_count = group_count, .top_k = 2, .window = 9};
      AttentionRun base, halved, small;
      const int64_t whole_blocks = run(c, 1, 227 << 10, &base), half_blocks = run(c, 1000, 227 << 10, &halved);
      run(c, 1, kSmallSharedBytes, &small);
      const std::string where = " at head dim " + std::to_string(dim);
      if (CountDifferentBits(base, halved) != 0) return "half tiles have other bits" + where;
      if (CountDifferentBits(base, small) != 0) return "fewer stages have other bits" + where;
      if ((half_blocks > whole_blocks) != (RowTilesPerWarp(dim, group_count > 0) > 1))
        return "tiles are not halved" + where;
    }
  }
  return "";
}

// Rows behind several segments of 8,192 keys: a whole prompt in blocks that process one segment after the other, and its
// last chunk with blocks for every segment, have the same bits.
std::string CheckSegmentsOf(float soft_cap, bool head_sinks, const AttentionGroups& groups) {
  // The last rows see three segments, of the first one a part. The others see nothing: they only fill the pages.
  const AttentionCase c{.name = "segments",
                        .head_dim = 16,
                        .query_heads = 1,
                        .kv_heads = 1,
                        .sequences = {{2 * kSegmentKeys + 40, 0}},
                        .window = kSegmentKeys + 500,
                        .blind_rows = 2 * kSegmentKeys - 100,
                        .amplitude = 4.0f,
                        .soft_cap = soft_cap,
                        .head_sinks = head_sinks,
                        .groups = groups};
  AttentionRun runs[2];
  int64_t blocks[2];
  for (const bool apart : {false, true}) {
    auto machine = std::make_shared<EmulatedMachine>();
    if (apart) machine->multiprocessor_count = 4096;
    auto backend = CreateBackendOn(MakeEmulatedRuntime(machine), 0, {.dtype = DType::kBF16});
    VF_CHECK(backend.ok(), "the emulated device opens");
    const int64_t before = emulator::GetCounters().blocks;
    runs[apart] = RunAttentionCase(**backend, c, {.chunks = {apart ? 4096 : 1 << 20}});
    blocks[apart] = emulator::GetCounters().blocks - before;
  }
  if (CountDifferentBits(runs[0], runs[1]) != 0) return "segments apart have other bits";
  if (blocks[1] <= blocks[0]) return "no segment had blocks of its own";
  auto tested = MakeEmulated();
  auto oracle = MakeOracle(DType::kBF16);
  return CheckAgainstOracle({.name = "segments",
                             .head_dim = 16,
                             .query_heads = 1,
                             .kv_heads = 1,
                             .sequences = {{kSegmentKeys + 100, 0}},
                             .blind_rows = kSegmentKeys - 60,
                             .soft_cap = soft_cap,
                             .head_sinks = head_sinks,
                             .groups = groups},
                            **tested, *oracle);
}
std::string CheckSegments() { return CheckSegmentsOf(0, false, {}); }
std::string CheckCappedSegments() { return CheckSegmentsOf(2.0f, true, {}); }
std::string CheckCappedSegmentsOfGroups() {
  return CheckSegmentsOf(2.0f, true, {.group_count = 4, .top_k = 2, .window = 30});
}

// Tiles without a visible pair are skipped: fewer products than where every key is near.
std::string CheckSkippedTiles() {
  AttentionCase c{.query_heads = 1, .kv_heads = 1, .sequences = {{300, 4}}, .groups = {.group_count = 32, .top_k = 1}};
  auto backend = MakeEmulated();
  if (!backend.ok()) return backend.error().message;
  const auto multiplies = [&](int window) {
    c.groups.window = window;
    const int64_t before = emulator::GetCounters().multiplies;
    RunAttentionCase(**backend, c, {});
    return emulator::GetCounters().multiplies - before;
  };
  const int64_t by_groups = multiplies(0), all_near = multiplies(1 << 20);
  return by_groups < all_near ? ""
                              : std::to_string(by_groups) + " products where few pairs are visible, " +
                                    std::to_string(all_near) + " where all are";
}

// Decode over shared pages: sequences that have the tokens of a whole split in the same pages, all in one step, against
// each alone. Bits are the same, and the shared split is read once.
std::string CheckSharedDecode(int query_heads, int kv_heads, int window, bool row_scales) {
  constexpr int kDim = 32, kWidth = 32, kPrefix = kSplitKeys, kSequences = 4;
  const int own_tokens[kSequences] = {1, 40, 130, 7};
  auto made = MakeEmulated();
  if (!made.ok()) return made.error().message;
  Backend& backend = **made;
  const int width = (query_heads + 2 * kv_heads) * kDim;
  auto weight =
      MakeWeight(backend, ProductInput(backend, UniformVector(1, width * kWidth)), width, kWidth, WeightUse::kPlain);
  auto workspace = SmallWorkspace(backend, {.row_count_max = kPrefix,
                                            .sequence_count_max = kSequences,
                                            .context_length_max = kPrefix + 256,
                                            .model_dim = kWidth,
                                            .query_head_count = query_heads,
                                            .kv_head_count = kv_heads,
                                            .head_dim = kDim});
  auto pool = Take(backend.CreateKvPool({.layer_count = 1, .kv_head_count = kv_heads, .head_dim = kDim}, 64));
  auto queries = Empty(backend, kPrefix * query_heads * kDim), scales = Upload(backend, UniformVector(2, kSequences));
  auto out = EmptyOperands(backend, kSequences * query_heads * kDim);
  // The last sequence shares no pages.
  std::vector<std::vector<int32_t>> tables;
  for (int s = 0; s < kSequences; ++s) {
    tables.emplace_back();
    for (int i = 0; i < kPrefix / kPageTokens + 2; ++i) {
      const bool shared = i < kPrefix / kPageTokens && s + 1 < kSequences;
      tables[s].push_back(shared ? i : 10 + s * 12 + i);
    }
  }
  std::vector<std::span<const int32_t>> spans(tables.begin(), tables.end());
  const auto project = [&](uint64_t seed, int rows) {
    auto x = UploadOperands(backend, ProductInput(backend, UniformVector(seed, rows * kWidth)));
    CheckOk(backend.QkvRopeWrite(*workspace, {.x = {x.get(), 0},
                                              .weight = weight.get(),
                                              .query_head_count = query_heads,
                                              .pool = pool.get(),
                                              .queries = {queries.get(), 0}}));
  };
  for (int s = 0; s < kSequences; ++s) {
    for (const auto& [first, rows] : {std::pair{0, kPrefix}, {kPrefix, own_tokens[s] - 1}}) {
      const SequenceRows piece{.row_count = rows, .first_position = first, .page_tables = {&spans[s], 1}};
      if (rows == 0 || (first == 0 && s > 0 && s + 1 < kSequences)) continue;
      CheckOk(backend.BeginStep(*workspace, {.sequences = {&piece, 1}}));
      project(10 + s + first, rows);
    }
  }
  // Decodes sequences [begin, end) in one step; counts the blocks that attention ran.
  int64_t blocks = 0;
  const auto decode = [&](int begin, int end) {
    std::vector<SequenceRows> rows;
    std::vector<RowInterval> intervals;
    for (int s = begin; s < end; ++s) {
      const int position = kPrefix + own_tokens[s] - 1;
      rows.push_back({.row_count = 1, .first_position = position, .page_tables = {&spans[s], 1}});
      intervals.push_back({window == 0 ? 0 : std::max(0, position + 1 - window), position + 1});
    }
    const std::span<const RowInterval> mask = intervals;
    CheckOk(backend.BeginStep(*workspace, {.phase = Phase::kDecode, .sequences = rows, .masks = {&mask, 1}}));
    for (int s = begin; s < end; ++s) {
      // The values of each row do not depend on the others.
      auto query = Upload(backend, UniformVector(100 + s, query_heads * kDim, 3.0f));
      const std::vector<float> numbers = Download(backend, *query, query_heads * kDim);
      CheckOk(backend.Write({queries.get(), (s - begin) * numbers.size() * sizeof(float)}, numbers.data(),
                            numbers.size() * sizeof(float)));
      const float scale = 0.2f + 0.1f * s;
      CheckOk(backend.Write({scales.get(), (s - begin) * sizeof(float)}, &scale, sizeof scale));
    }
    AttendArgs args{.queries = {queries.get(), 0},
                    .query_head_count = query_heads,
                    .pool = pool.get(),
                    .scale = 0.18f,
                    .out = {out.get(), 0}};
    if (row_scales) args.row_scales = {scales.get(), 0};
    const int64_t before = emulator::GetCounters().blocks;
    CheckOk(backend.Attend(*workspace, args));
    blocks += emulator::GetCounters().blocks - before;
    return DownloadOperands(backend, *out, (end - begin) * query_heads * kDim);
  };
  // Keys of the rows themselves: values past the last key must be zeros, and every page has been begun.
  for (int s = 0; s < kSequences; ++s) {
    const SequenceRows piece{
        .row_count = 1, .first_position = kPrefix + own_tokens[s] - 1, .page_tables = {&spans[s], 1}};
    CheckOk(backend.BeginStep(*workspace, {.sequences = {&piece, 1}}));
    project(500 + s, 1);
  }
  const std::vector<float> together = decode(0, kSequences);
  const int64_t blocks_together = blocks;
  blocks = 0;
  std::vector<float> apart;
  for (int s = 0; s < kSequences; ++s) {
    const std::vector<float> one = decode(s, s + 1);
    apart.insert(apart.end(), one.begin(), one.end());
  }
  for (size_t i = 0; i < together.size(); ++i) {
    if (!(together[i] == apart[i]))
      return "number " + std::to_string(i) + " differs beside sequences of the same pages";
  }
  // Three sequences share a split: two blocks less for every KV head, where their tile rows fit one tile.
  const int64_t saved = DecodeRows(query_heads / kv_heads) >= 3 ? 2 * kv_heads : 0;
  return blocks - blocks_together == saved ? ""
                                           : "sharing saved " + std::to_string(blocks - blocks_together) +
                                                 " blocks instead of " + std::to_string(saved);
}

// What a thread creates is filled on its own stream, and complete when another one may use it.
std::string CheckCreatedObjectsAreComplete() {
  auto machine = std::make_shared<EmulatedMachine>();
  auto backend = CreateBackendOn(MakeEmulatedRuntime(machine), 0, {.dtype = DType::kBF16});
  if (!backend.ok()) return backend.error().message;
  const std::vector<float> numbers = UniformVector(1, 256);
  const HostMatrix matrix{DType::kF32, numbers.data(), 16, 16};
  auto buffer = (*backend)->Allocate(64);
  const std::pair<const char*, std::function<bool()>> makers[] = {
      {"Allocate", [&] { return (*backend)->Allocate(64).ok(); }},
      {"Write",
       [&] {
         return (*backend)->Write({buffer->get(), 0}, numbers.data(), 64).ok();
       }},
      {"CreateVector", [&] { return (*backend)->CreateVector(matrix).ok(); }},
      {"CreateWeight",
       [&] {
         return (*backend)->CreateWeight({&matrix, 1}, WeightUse::kPlain).ok();
       }},
      {"CreateRopeTable",
       [&] {
         return (*backend)
             ->CreateRopeTable({.cosines = {numbers.data(), 64},
                                .sines = {numbers.data(), 64},
                                .position_count = 8,
                                .rotary_dim = 16})
             .ok();
       }},
      {"CreateKvPool",
       [&] { return (*backend)->CreateKvPool({.layer_count = 1, .kv_head_count = 1, .head_dim = 16}, 2).ok(); }},
      {"CreateWorkspace", [&] {
         return (*backend)
             ->CreateWorkspace({.row_count_max = 1, .sequence_count_max = 1, .context_length_max = 1, .model_dim = 16})
             .ok();
       }}};
  for (const auto& [name, make] : makers) {
    const int before = machine->calls["Synchronize"];
    if (!make()) return std::string(name) + " failed";
    if (machine->calls["Synchronize"] == before) return std::string(name) + " does not wait for its stream";
  }
  return "";
}

// The statistics of a vocabulary of four slices and a half, all at once and slices at a time: the same bits, in either layout.
std::string CheckHeadSlices() {
  const auto runtime = MakeEmulatedRuntime(std::make_shared<EmulatedMachine>());
  constexpr int kRows = 3, kVocab = 4 * kHeadSlice + 100, kSplits = 2;
  const std::vector<float> partial[kSplits] = {UniformVector(91, WideProduct(kRows, kVocab), 8.0f),
                                               UniformVector(92, WideProduct(kRows, kVocab), 8.0f)};
  const std::vector<int32_t> targets = {-1, kHeadSlice, kVocab - 1};
  const auto run = [&](int slices_at_once, bool by_slice) {
    std::vector<HeadState> states(kRows);
    for (int first = 0; first < kVocab; first += slices_at_once * kHeadSlice) {
      const int count = std::min(slices_at_once * kHeadSlice, kVocab - first);
      std::vector<float> product;
      for (const std::vector<float>& split : partial) {
        for (int outer = 0; outer < (by_slice ? count : 1); outer += kHeadSlice) {
          const int width = by_slice ? std::min(kHeadSlice, count - outer) : count;
          for (int row = 0; row < kRows; ++row) {
            const auto begin = split.begin() + WideProduct(row, kVocab) + first + outer;
            product.insert(product.end(), begin, begin + width);
          }
        }
      }
      std::vector<HeadState> slices(WideProduct(kRows, CeilDivide(count, kHeadSlice)));
      const HeadStatsParams p{.product = product.data(),
                              .split_count = kSplits,
                              .split_stride = WideProduct(kRows, count),
                              .slice_stride = by_slice ? WideProduct(kRows, kHeadSlice) : kHeadSlice,
                              .row_stride = by_slice ? 0 : count,
                              .targets = targets.data(),
                              .row_count = kRows,
                              .first = first,
                              .count = count,
                              .multiplier = 0.5f,
                              .partials = slices.data(),
                              .states = states.data()};
      VF_CHECK(runtime->kernels().head_stats(p, {}) == 0, "valid");
    }
    return states;
  };
  const std::vector<HeadState> whole = run(5, false);
  for (const int slices : {1, 2, 5}) {
    for (const bool by_slice : {false, true}) {
      const std::vector<HeadState> parts = run(slices, by_slice);
      if (std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(HeadState)) != 0)
        return "other bits with " + std::to_string(slices) + " slices at a time";
    }
  }
  for (int row = 0; row < kRows; ++row) {
    double sum = 0;
    const auto logit = [&](int token) {
      return 0.5 * (partial[0][WideProduct(row, kVocab) + token] + partial[1][WideProduct(row, kVocab) + token]);
    };
    for (int token = 0; token < kVocab; ++token) sum += std::exp(logit(token));
    const double log_sum_exp = whole[row].largest + std::log(static_cast<double>(whole[row].sum));
    if (!(std::abs(log_sum_exp - std::log(sum)) < 1e-5))
      return "a sum is off by " + std::to_string(log_sum_exp - std::log(sum));
    if (targets[row] >= 0 && !(std::abs(whole[row].target_logit - logit(targets[row])) < 1e-6))
      return "another target's logit";
  }
  return "";
}

}  // namespace

std::vector<NamedCheck> EmulatedChecks() {
  std::vector<NamedCheck> checks;
  std::vector<Levels> combinations;
  auto backend = MakeEmulated();
  for (const ConformanceCase& c : AllCases()) {
    // The thread count does not apply to a device; see CheckThreadOrder. Groups with a computed b cover those with a
    // stored one.
    const auto contains = [&](const char* part) { return c.name.find(part) != std::string::npos; };
    if (contains("_bits_threads") || (contains("groups_bits") && contains("_stored_")) ||
        !IsSupportedBy(c, **backend)) {
      continue;
    }
    checks.push_back({"emulated_" + c.name, [c] { return CheckCase(c); }, true});
    combinations.push_back(c.is_slow ? Levels{} : c.levels.empty() ? Levels{"case=" + c.name} : c.levels);
  }
  for (const size_t chosen : CoveringDesign(combinations)) checks[chosen].is_slow = false;
  checks.push_back({"emulated_thread_order", [] { return CheckThreadOrder({}); }});
  checks.push_back({"emulated_thread_order_groups", [] {
                      return CheckThreadOrder({.group_count = 8, .top_k = 2, .window = 20, .bias = GroupBias::kPaged});
                    }});
  checks.push_back({"emulated_thread_order_recurrence", CheckThreadOrderOfRecurrence});
  checks.push_back({"emulated_skipped_tiles", CheckSkippedTiles});
  checks.push_back({"emulated_other_devices", CheckOtherDevices});
  checks.push_back({"emulated_segments", CheckSegments});
  checks.push_back({"emulated_segments_capped_with_sinks", CheckCappedSegments});
  checks.push_back({"emulated_segments_of_groups_capped_with_sinks", CheckCappedSegmentsOfGroups});
  checks.push_back({"emulated_head_slices", CheckHeadSlices});
  checks.push_back({"emulated_created_objects_are_complete", CheckCreatedObjectsAreComplete});
  checks.push_back({"emulated_shared_decode", [] { return CheckSharedDecode(4, 2, 0, false); }});
  checks.push_back({"emulated_shared_decode_scales", [] { return CheckSharedDecode(3, 3, 0, true); }});
  checks.push_back({"emulated_shared_decode_window", [] { return CheckSharedDecode(5, 1, 500, true); }});
  checks.push_back({"emulated_shared_decode_many_heads", [] { return CheckSharedDecode(18, 1, 0, true); }});
  return checks;
}

}  // namespace varifocal::kernels::cuda
