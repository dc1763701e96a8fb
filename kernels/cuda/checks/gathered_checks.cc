// Attention by groups with gathered keys, on the emulated device: groups given by hand against float64, their lists against a plain
// list, what is visited against the host's count, the same bits over chunks, neighbours and pages. Then the
// conformance table's cases of gathered keys.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/wide_product.h"
#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/checks/gathered_scene.h"
#include "kernels/cuda/checks/mutants.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_workspace.h"
#include "kernels/cuda/emulator/emulated_runtime.h"
#include "kernels/cuda/emulator/fibers.h"
#include "kernels/cuda/gather_steps.h"

namespace varifocal::kernels::cuda {
namespace {

// ---- groups by hand ----

bool IsVisible(const Scene& scene, int sequence, int row, int key) {
  return row - key <= scene.window || (GroupsOf(scene, sequence, row) & GroupsOf(scene, sequence, key)) != 0;
}

// The relative error of the output that two roundings to bf16 explain (tile_checks.cc), and that of a log-sum-exp.
constexpr double kErrorMax = 2.4e-3, kLogErrorMax = 2e-4;

std::string CheckScene(const Scene& scene) {
  const SceneRun run = RunScene(scene);
  const int dim = scene.head_dim, heads = scene.kv_heads * scene.queries_per_kv;
  double error = 0, size = 0;
  for (size_t s = 0; s < scene.sequences.size(); ++s) {
    const auto& sequence = scene.sequences[s];
    for (int r = 0; r < sequence.row_count; ++r) {
      const int position = sequence.first_position + r;
      for (int head = 0; head < heads; ++head) {
        const int kv_head = head / scene.queries_per_kv;
        std::vector<double> scores(position + 1, -INFINITY), sums(dim);
        for (int key = 0; key <= position; ++key) {
          if (!IsVisible(scene, sequence.id, position, key)) continue;
          double dot = 0;
          for (int i = 0; i < dim; ++i) {
            dot += static_cast<double>(WidenBF16(SceneNumber(3, sequence.id, position, head, i))) *
                   WidenBF16(SceneNumber(1, sequence.id, key, kv_head, i));
          }
          scores[key] = dot * ScaleOfRow(scene, sequence.id, position);
          if (scene.soft_cap > 0) scores[key] = scene.soft_cap * std::tanh(scores[key] / scene.soft_cap);
        }
        const double top = *std::max_element(scores.begin(), scores.end());
        double total = 0;
        for (int key = 0; key <= position; ++key) {
          const double weight = std::exp(scores[key] - top);
          if (weight == 0) continue;
          total += weight;
          for (int i = 0; i < dim; ++i) sums[i] += weight * WidenBF16(SceneNumber(2, sequence.id, key, kv_head, i));
        }
        for (int i = 0; i < dim; ++i) {
          const double want = sums[i] / total, got = run.outs[s][(WideProduct(r, heads) + head) * dim + i];
          error += (got - want) * (got - want);
          size += want * want;
        }
        const double lse = run.log_sum_exps[s][WideProduct(r, heads) + head];
        if (!(std::abs(lse - (top + std::log(total))) < kLogErrorMax * std::max(1.0, std::abs(lse))))
          return "the log-sum-exp of position " + std::to_string(position) + " is off by " +
                 std::to_string(lse - top - std::log(total));
      }
    }
  }
  const double relative = std::sqrt(error / size);
  return relative <= kErrorMax ? "" : "errs by " + std::to_string(relative) + " of the output";
}

std::vector<std::pair<std::string, Scene>> Scenes() {
  std::vector<std::pair<std::string, Scene>> all;
  for (const int dim : {16, 32, 48, 64, 80, 96, 112, 128, 192, 256}) {
    all.emplace_back("dim_" + std::to_string(dim), SmallScene(dim));
    if (dim > 128) all.back().second.sequences = {{70, 120, 0}};
  }
  const auto add = [&](const char* name, const auto& change) {
    Scene scene = SmallScene(64);
    change(scene);
    all.emplace_back(name, scene);
  };
  add("uneven", [](Scene& s) { s.kind = Scene::Kind::kUneven; });
  add("one_group", [](Scene& s) {
    s.kind = Scene::Kind::kOneGroup;
    s.top_k = 1;
  });
  add("one_group_of_two", [](Scene& s) { s.kind = Scene::Kind::kOneGroup; });
  add("one_empty", [](Scene& s) { s.kind = Scene::Kind::kOneEmpty; });
  add("every_group", [](Scene& s) {
    s.kind = Scene::Kind::kEvery;
    s.group_count = s.top_k = 4;
  });
  add("one_of_eight", [](Scene& s) { s.top_k = 1; });
  add("two_of_sixteen", [](Scene& s) { s.group_count = 16; });
  add("four_of_32", [](Scene& s) {
    s.group_count = 32;
    s.top_k = 4;
  });
  add("no_window", [](Scene& s) { s.window = 0; });
  add("wide_window", [](Scene& s) { s.window = 150; });
  add("whole_window", [](Scene& s) { s.window = 1 << 20; });
  add("from_0", [](Scene& s) { s.from = 0; });
  add("from_129", [](Scene& s) { s.from = 129; });
  add("grouped_heads", [](Scene& s) {
    s.kv_heads = 2;
    s.queries_per_kv = 3;
    s.sequences = {{60, 100, 0}, {0, 70, 1}};
  });
  add("capped", [](Scene& s) {
    s.soft_cap = 1.5f;
    s.halves = true;
  });
  add("suffix", [](Scene& s) { s.sequences = {{1000, 5, 0}, {517, 1, 1}, {640, 33, 2}}; });
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    auto [name, scene] = all[i];
    if (!Sm90Supports(scene.head_dim, false, scene.soft_cap > 0)) continue;
    scene.sm90 = true;
    all.emplace_back("sm90_" + name, scene);
  }
  return all;
}

// Lists against a plain one, tiles longest first and each row once.
std::string CheckLists() {
  for (const auto& [name, scene] : Scenes()) {
    if (scene.head_dim != 64) continue;
    const SceneRun run = RunScene(scene);
    int first_row = 0;
    for (size_t s = 0; s < scene.sequences.size(); ++s) {
      const auto& sequence = scene.sequences[s];
      for (int group = 0; group < scene.group_count; ++group) {
        std::vector<int32_t> places;
        std::vector<std::pair<int, int>> rows[kGatherPassesMax];
        for (int position = 0; position < sequence.end() && sequence.end() > scene.from; ++position) {
          const TokenGroups groups = GroupsOf(scene, sequence.id, position);
          if ((groups >> group & 1) == 0) continue;
          if (position >= std::max(scene.from, sequence.first_position)) {
            rows[std::popcount(groups & ((1u << group) - 1))].emplace_back(
                first_row + position - sequence.first_position, static_cast<int>(places.size()));
          }
          places.push_back(run.tables[s][position / kPageTokenCount] * kPageTokenCount + position % kPageTokenCount);
        }
        const GatherList& list = run.lists[s * scene.group_count + group];
        const std::string where = name + ", group " + std::to_string(group);
        if (list.key_count != std::ssize(places) || list.first_key % 4 != 0 || list.first_key < 0 ||
            list.first_key + CeilDivide(list.key_count, kBlockKeys) * kBlockKeys > std::ssize(run.places) ||
            !std::equal(places.begin(), places.end(), run.places.begin() + list.first_key))
          return "another list of keys: " + where;
        for (int pass = 0; pass < scene.top_k; ++pass) {
          if (list.row_counts[pass] != std::ssize(rows[pass])) return "another number of rows: " + where;
          for (int i = 0; i < list.row_counts[pass]; ++i) {
            const GatherRow& row = run.rows[pass * run.rows.size() / scene.top_k + list.first_rows[pass] + i];
            if (row.row != rows[pass][i].first || row.rank != rows[pass][i].second) return "another row: " + where;
          }
        }
      }
      first_row += sequence.row_count;
    }
    for (int pass = 0; pass < scene.top_k; ++pass) {
      int placed = 0, last = INT32_MAX;
      std::vector<int> next(run.lists.size());
      for (const GatherTile& tile : run.tiles[pass]) {
        const GatherList& list = run.lists[tile.list];
        const int all = list.row_counts[pass] * scene.queries_per_kv;
        const int count = CeilDivide(all, TileRowsOf(scene, pass));
        const int index = count - 1 - next[tile.list]++;
        const int first_rank = run.rows[pass * run.rows.size() / scene.top_k + list.first_rows[pass]].rank;
        const int cost = GatherCost(first_rank, list.key_count, index, count);
        if (cost > last) return "a longer tile comes later: " + name;
        last = cost;
        placed += tile.tile_row_count;
        if (tile.first_tile_row + tile.tile_row_count > all) return "a tile beyond its list: " + name;
      }
      int want = 0;
      for (const GatherList& list : run.lists) want += list.row_counts[pass] * scene.queries_per_kv;
      if (placed != want) return "not every tile row once: " + name;
    }
  }
  return "";
}

// The products that the emulator ran are those of the blocks that the host counts.
std::string CheckVisits() {
  for (const auto& [name, scene] : Scenes()) {
    int64_t want = 0, blocks = 0;
    for (const auto& s : scene.sequences) {
      if (s.end() <= scene.from) continue;
      std::vector<TokenGroups> groups;
      for (int position = 0; position < s.end(); ++position) groups.push_back(GroupsOf(scene, s.id, position));
      GatherWork work{.groups = groups,
                      .first_position = s.first_position,
                      .from = scene.from,
                      .group_count = scene.group_count,
                      .top_k = scene.top_k,
                      .window = scene.window,
                      .queries_per_kv = scene.queries_per_kv,
                      .head_dim = scene.head_dim,
                      .block_keys = BlockKeysOf(scene)};
      for (int pass = 0; pass < scene.top_k; ++pass) work.tile_rows[pass] = TileRowsOf(scene, pass);
      const GatherVisits visits = VisitsOf(work);
      // Of 16 rows and 64 keys: scores, then weighted values.
      const int products = scene.head_dim / 16 * (kBlockKeys / 8) + kBlockKeys / 16 * (scene.head_dim / 8);
      want += visits.window_warps * products;
      for (int pass = 0; pass < scene.top_k; ++pass) {
        if (!scene.sm90) want += visits.pass_warps[pass] * products * (work.tile_rows[pass] / 64);
        if (scene.sm90) blocks += visits.pass_blocks[pass];
      }
    }
    const SceneRun run = RunScene(scene);
    const int64_t got = run.multiplies;
    // Of 64 rows and a block's keys: scores by steps of 16 dims, values by steps of 16 keys for all panels of 64 and each other one.
    const int rest = scene.head_dim % 64, panels = 1 + (rest >= 32) + (rest % 32 != 0);
    const int64_t products =
        blocks * kSm90Consumers * (scene.head_dim / 16 + BlockKeysOf(scene) / 16 * panels) * scene.kv_heads;
    if (run.products != products)
      return name + ": " + std::to_string(run.products) + " of wgmma, and " + std::to_string(products) + " counted";
    if (got != want * scene.kv_heads)
      return name + ": " + std::to_string(got) + " products, and " + std::to_string(want * scene.kv_heads) + " counted";
  }
  return "";
}

size_t CountDifferent(const std::vector<float>& a, const std::vector<float>& b, size_t from_a, size_t from_b,
                      size_t count) {
  size_t different = 0;
  for (size_t i = 0; i < count; ++i) different += std::memcmp(&a[from_a + i], &b[from_b + i], sizeof(float)) != 0;
  return different;
}

// A row's bits depend on neither its chunk, its neighbours, its pages nor the size of tiles.
std::string CheckSceneBits(const Scene& base) {
  const SceneRun whole = RunScene(base);
  const int heads = base.kv_heads * base.queries_per_kv;
  const size_t width = WideProduct(heads, base.head_dim);
  const auto compare = [&](const Scene& other, const std::string& what) -> std::string {
    const SceneRun run = RunScene(other);
    size_t different = 0;
    for (size_t s = 0; s < other.sequences.size(); ++s) {
      const auto& part = other.sequences[s];
      const auto of =
          std::find_if(base.sequences.begin(), base.sequences.end(), [&](const auto& b) { return b.id == part.id; });
      const size_t at = of - base.sequences.begin(), first = part.first_position - of->first_position;
      different +=
          CountDifferent(whole.outs[at], run.outs[s], first * width, 0, part.row_count * width) +
          CountDifferent(whole.log_sum_exps[at], run.log_sum_exps[s], first * heads, 0, part.row_count * heads);
    }
    return SameBitsVerdict(different, what);
  };
  std::vector<std::pair<std::string, Scene>> others;
  const auto add = [&](const std::string& what, const auto& change) {
    others.emplace_back(what, base);
    change(others.back().second);
  };
  add("other pages", [](Scene& s) { s.page_order = 9; });
  if (!base.sm90) add("half tiles", [](Scene& s) { s.halves = true; });
  add("another order of sequences", [](Scene& s) { std::reverse(s.sequences.begin(), s.sequences.end()); });
  for (size_t i = 0; i < base.sequences.size(); ++i) {
    add("being alone", [&](Scene& s) { s.sequences = {base.sequences[i]}; });
    for (const int chunk : {1, 37, 128}) {
      const auto sequence = base.sequences[i];
      const int at = sequence.row_count > chunk ? sequence.row_count / 2 : 0;
      const int count = std::min(chunk, sequence.row_count - at);
      add("a chunk of " + std::to_string(count), [&](Scene& s) {
        s.sequences = {{sequence.first_position + at, count, sequence.id}};
      });
    }
  }
  for (const auto& [what, scene] : others) RETURN_COMPLAINT(compare(scene, what));
  for (const uint64_t seed : {1, 2, 3}) {
    emulator::SetScheduleSeed(seed);
    const std::string verdict = compare(base, "another order of threads");
    emulator::SetScheduleSeed(0);
    if (!verdict.empty()) return verdict;
  }
  // The control: testing every pair has other bits.
  Scene tested = base, other = base;
  tested.from = INT32_MAX;
  if (compare(tested, "").empty()) return "testing every pair gave the same bits";
  other.sm90 = !base.sm90;
  return compare(other, "").empty() ? "mma and sm90 gave the same bits" : "";
}

std::string CheckBits(bool sm90) {
  Scene scene = SmallScene(64);
  scene.sm90 = sm90;
  scene.kind = Scene::Kind::kUneven;
  RETURN_COMPLAINT(CheckSceneBits(scene));
  scene = SmallScene(96);
  scene.sm90 = sm90;
  scene.queries_per_kv = 3;
  scene.sequences = {{0, 170, 0}, {90, 50, 1}};
  scene.group_count = 4;
  scene.top_k = 1;
  return CheckSceneBits(scene);
}

// ---- through the backend ----

std::unique_ptr<Backend> MakeGathered(const std::string& kernel = "mma:focus=gathered", int multiprocessors = 1) {
  auto machine = std::make_shared<EmulatedMachine>();
  machine->multiprocessor_count = multiprocessors;
  return Take(CreateBackendOn(MakeEmulatedRuntime(machine), 0, {.dtype = DType::kBF16, .attention_kernel = kernel}));
}

// By both kernels, whose bits differ; and the same bits where tiles are halves, and however the work is divided.
std::string CheckBeside() {
  const AttentionCase c{.name = "beside",
                        .head_dim = 64,
                        .query_heads = 2,
                        .kv_heads = 1,
                        .sequences = {{300, 2}, {129, 0}, {40, 1}},
                        .amplitude = 3.0f,
                        .groups = {.group_count = 8, .top_k = 2, .window = 20, .gather_from = 100}};
  auto oracle = MakeOracle(DType::kBF16);
  auto sm90 = MakeGathered("sm90:focus=gathered"), mma = MakeGathered();
  const std::pair<Backend*, std::string> kernels[] = {{sm90.get(), "sm90-gathered2-bf16"},
                                                      {mma.get(), "mma-gathered-bf16"}};
  for (const auto& [backend, name] : kernels) {
    if (backend->info().name.find(name) == std::string::npos || !backend->info().gathers_groups)
      return "named " + backend->info().name;
    RETURN_COMPLAINT(CheckAgainstOracle(c, *backend, *oracle));
    const size_t different =
        CountDifferentBits(RunAttentionCase(*backend, c, {}), RunAttentionCase(*backend, c, {.chunks = {70}}));
    if (different != 0) return SameBitsVerdict(different, "chunks on " + backend->info().name);
  }
  for (const char* kernel : {"mma:focus=gathered", "sm90:focus=gathered", "sm90:turns=off:items=1:focus=gathered",
                             "sm90:items=0:sections=off:focus=gathered"}) {
    for (const int multiprocessors : {1, 1000}) {
      auto other = MakeGathered(kernel, multiprocessors);
      Backend& base = kernel[0] == 'm' ? *mma : *sm90;
      const size_t different = CountDifferentBits(RunAttentionCase(base, c, {}), RunAttentionCase(*other, c, {}));
      if (different != 0)
        return SameBitsVerdict(different, kernel + (", multiprocessors: " + std::to_string(multiprocessors)));
    }
  }
  if (CountDifferentBits(RunAttentionCase(*mma, c, {}), RunAttentionCase(*sm90, c, {})) == 0)
    return "mma and sm90 gave the same bits";
  // Narrow heads and caps keep mma.
  AttentionCase narrow = c, capped = c;
  narrow.head_dim = 32;
  capped.soft_cap = 4;
  for (const AttentionCase* other : {&narrow, &capped}) {
    const size_t different =
        CountDifferentBits(RunAttentionCase(*mma, *other, {}), RunAttentionCase(*sm90, *other, {}));
    if (different != 0) return SameBitsVerdict(different, "what sm90 does not support");
  }
  // What lists do not support, every pair is tested for.
  auto masked = MakeGathered("mma");
  AttentionCase broad = c, many = c;
  broad.head_dim = 512;
  broad.sequences = {{140, 1}};
  many.groups = {.group_count = 32, .top_k = 5, .window = 20, .gather_from = 100};
  for (const AttentionCase* other : {&broad, &many}) {
    const size_t different =
        CountDifferentBits(RunAttentionCase(*mma, *other, {}), RunAttentionCase(*masked, *other, {}));
    if (different != 0) return SameBitsVerdict(different, "asking for lists where there are none");
  }
  return CountDifferentBits(RunAttentionCase(*mma, c, {}), RunAttentionCase(*masked, c, {})) > 0
             ? ""
             : "gathered keys gave the bits of masks";
}

// Sequences are listed in turns where the scratch does not hold them all; those without rows to gather take no room.
std::string CheckWaves() {
  const std::vector<SequenceRows> sequences = {{.row_count = 10, .first_position = 90},
                                               {.row_count = 5, .first_position = 0},
                                               {.row_count = 300, .first_position = 0},
                                               {.row_count = 1, .first_position = 99}};
  GatherSizes sizes{.entries = static_cast<size_t>(GatherRoom(2, 300, 8))};
  const auto waves = PlanGather(sequences, 50, 8, 2, sizes);
  if (waves.size() != 3 || waves[0].sequence_count != 2 || waves[0].row_count != 10 || waves[1].row_count != 250 ||
      waves[2].first_sequence != 3 || waves[2].row_count != 1)
    return "other waves";
  if (!PlanGather(sequences, 300, 8, 2, sizes).empty()) return "waves without rows";
  sizes.entries *= 4;
  if (PlanGather(sequences, 50, 8, 2, sizes).size() != 1) return "more waves than the scratch needs";
  const std::vector<SequenceRows> many(3000, {.row_count = 1, .first_position = 99});
  sizes.entries = size_t{1} << 30;
  for (const GatherWave& wave : PlanGather(many, 50, 32, 2, sizes)) {
    if (wave.sequence_count * 32 > kGatherListsMax) return "more lists than a launch has tiles";
  }
  return HasRowsBelow(sequences, 0) || !HasRowsBelow(sequences, 50) ? "other rows below" : "";
}

}  // namespace

std::vector<ConformanceCase> GatheredCases() {
  std::vector<ConformanceCase> cases;
  for (const auto& more : {AttentionCases(), GroupCases(), InspectionCases()}) {
    for (const ConformanceCase& c : more) {
      // Pages have one layout, and threads are the emulator's.
      const auto contains = [&](const char* part) { return c.name.find(part) != std::string::npos; };
      if (c.gathers && !contains("_columns") && !contains("_bits_threads") && !contains("_tested")) cases.push_back(c);
    }
  }
  for (const ConformanceCase& c : WideGatheredCases()) cases.push_back(c);
  return cases;
}

std::vector<NamedCheck> GatheredChecks() {
  std::vector<NamedCheck> checks = {{"gathered_lists", CheckLists},
                                    {"gathered_visits", CheckVisits},
                                    {"gathered_bits", [] { return CheckBits(false); }},
                                    {"gathered_bits_sm90", [] { return CheckBits(true); }},
                                    {"gathered_mutants", [] { return CheckGatherMutants(false); }},
                                    {"gathered_mutants_sm90", [] { return CheckGatherMutants(true); }},
                                    {"gathered_beside", CheckBeside},
                                    {"gathered_waves", CheckWaves}};
  for (const auto& [name, scene] : Scenes())
    checks.push_back({"gathered_scene_" + name, [scene = scene] { return CheckScene(scene); }});
  for (const std::string kernel : {"mma", "sm90"}) {
    std::vector<Levels> combinations;
    const size_t first = checks.size();
    const std::string flag = kernel + ":focus=gathered";
    auto backend = MakeGathered(flag);
    for (const ConformanceCase& c : GatheredCases()) {
      if (!IsSupportedBy(c, *backend) || (kernel == "sm90" && !Sm90Supports(c.head_dim, false, false))) continue;
      checks.push_back({(kernel == "mma" ? "gathered_" : "gathered_sm90_") + c.name,
                        [c, flag] {
                          auto oracle = MakeOracle(DType::kBF16);
                          return c.check(*MakeGathered(flag), *oracle);
                        },
                        true});
      combinations.push_back(c.is_slow ? Levels{} : c.levels.empty() ? Levels{"case=" + c.name} : c.levels);
    }
    for (const size_t chosen : CoveringDesign(combinations)) checks[first + chosen].is_slow = false;
  }
  return checks;
}

}  // namespace varifocal::kernels::cuda
