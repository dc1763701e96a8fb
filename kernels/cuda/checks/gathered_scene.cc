#include "kernels/cuda/checks/gathered_scene.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/wide_product.h"
#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/attention_sm90_layout.h"
#include "kernels/cuda/emulator/emulated_runtime.h"
#include "kernels/cuda/emulator/hopper.h"
#include "kernels/cuda/page_layout.h"

namespace varifocal::kernels::cuda {
namespace {

// Scratch as the device might have it: what was not written is NaN, and no place.
template <typename T>
std::vector<T> Poisoned(size_t count) {
  std::vector<T> all(count);
  std::memset(static_cast<void*>(all.data()), 0xFF, count * sizeof(T));
  return all;
}

}  // namespace

TokenGroups GroupsOf(const Scene& scene, int sequence, int position) {
  if (scene.kind == Scene::Kind::kEvery) return (1u << scene.group_count) - 1;
  TokenGroups groups = scene.kind == Scene::Kind::kOneGroup ? 1u << 2 : 0;
  for (uint64_t draw = 0; std::popcount(groups) < scene.top_k; ++draw) {
    const uint64_t number = Mix(300 + sequence, position * 64 + draw);
    int group = static_cast<int>(number % scene.group_count);
    // Half of all draws.
    if (scene.kind == Scene::Kind::kUneven && number >> 40 & 1) group = 1;
    if (scene.kind == Scene::Kind::kOneEmpty && group == 3) continue;
    groups |= 1u << group;
  }
  return groups;
}
Scene SmallScene(int dim) {
  return {.sequences = {{0, 300, 0}, {100, 90, 1}, {0, 30, 2}}, .head_dim = dim, .row_scales = true};
}

int TileRowsOf(const Scene& scene, int pass) {
  if (scene.sm90) return kSm90TileRows;
  return scene.halves ? 64 : 64 * GatherTilesPerWarp(scene.head_dim, pass > 0);
}

int BlockKeysOf(const Scene& scene) { return scene.sm90 ? Sm90BlockKeys(scene.head_dim) : kBlockKeys; }

uint16_t SceneNumber(int kind, int sequence, int position, int head, int dim) {
  return RoundToBF16(2 * Uniform(kind * 1000 + sequence, WideProduct(position, 1024) + head * 256 + dim));
}
float ScaleOfRow(const Scene& scene, int sequence, int position) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(scene.head_dim));
  return scene.row_scales ? scale * (1 + 0.5f * Uniform(77 + sequence, position)) : scale;
}

SceneRun RunScene(const Scene& scene) {
  const auto runtime = MakeEmulatedRuntime(std::make_shared<EmulatedMachine>());
  const KernelTable& kernels = runtime->kernels();
  const int dim = scene.head_dim, heads = scene.kv_heads * scene.queries_per_kv;
  SceneRun run;
  int rows = 0, pages = 3;
  for (const auto& s : scene.sequences) {
    rows += s.row_count;
    pages += CeilDivide(s.end(), kPageTokenCount);
  }
  std::vector<int32_t> order(pages);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[Mix(scene.page_order, i) % (i + 1)]);
  // Sixteen bytes of slack align the pool.
  const size_t head_bytes = HeadPageBytes(dim);
  const int stride = kPageTokenCount * 4 + kAnnotationTailBytes;
  auto pool = Poisoned<unsigned char>(pages * scene.kv_heads * head_bytes + 1024);
  auto annotations = Poisoned<unsigned char>(pages * stride + 16);
  const auto aligned = [](unsigned char* at, size_t to) {
    return reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(at) + to - 1) / to * to);
  };
  unsigned char* const pool_start = aligned(pool.data(), 1024);
  unsigned char* const annotation_start = aligned(annotations.data(), 16);
  std::vector<int32_t> row_sequences, row_positions, first_rows, first_positions, page_tables, table_starts;
  std::vector<RowInterval> mask;
  std::vector<float> queries, scales;
  std::vector<QueryTile> tiles;
  size_t next_page = 0;
  for (int s = 0; s < std::ssize(scene.sequences); ++s) {
    const auto& sequence = scene.sequences[s];
    first_rows.push_back(static_cast<int32_t>(mask.size()));
    first_positions.push_back(sequence.first_position);
    table_starts.push_back(static_cast<int32_t>(page_tables.size()));
    run.tables.emplace_back();
    for (int p = 0; p * kPageTokenCount < sequence.end(); ++p) run.tables[s].push_back(order[next_page++]);
    page_tables.insert(page_tables.end(), run.tables[s].begin(), run.tables[s].end());
    for (int position = 0; position < sequence.end(); ++position) {
      const int32_t page = run.tables[s][position / kPageTokenCount];
      const int token = position % kPageTokenCount;
      for (int head = 0; head < scene.kv_heads; ++head) {
        unsigned char* const tile = pool_start + (WideProduct(page, scene.kv_heads) + head) * head_bytes;
        for (int i = 0; i < dim; ++i) {
          const uint16_t key = SceneNumber(1, sequence.id, position, head, i),
                         value = SceneNumber(2, sequence.id, position, head, i);
          std::memcpy(tile + ElementOffset(dim, token, i), &key, 2);
          std::memcpy(tile + TileBytes(dim, kPageTokenCount) + ElementOffset(dim, token, i), &value, 2);
        }
      }
      const TokenGroups groups = GroupsOf(scene, sequence.id, position);
      std::memcpy(annotation_start + page * stride + token * 4, &groups, 4);
    }
    for (int position = sequence.first_position; position < sequence.end(); ++position) {
      row_sequences.push_back(s);
      row_positions.push_back(position);
      mask.push_back(CausalInterval(position));
      scales.push_back(ScaleOfRow(scene, sequence.id, position));
      for (int head = 0; head < heads; ++head) {
        for (int i = 0; i < dim; ++i) queries.push_back(WidenBF16(SceneNumber(3, sequence.id, position, head, i)));
      }
    }
    const int all = sequence.row_count * scene.queries_per_kv, tile_rows = PrefillTileRows(dim);
    for (int first = 0; first < all; first += tile_rows) tiles.push_back({s, first, std::min(tile_rows, all - first)});
  }
  first_rows.push_back(rows);

  int room = 0;
  for (const auto& s : scene.sequences)
    room += GatherRoom(scene.top_k, s.end() > scene.from ? s.end() : 0, scene.group_count);
  const int list_count = static_cast<int>(scene.sequences.size()) * scene.group_count;
  auto places = Poisoned<int32_t>(room + 4);
  auto key_groups = Poisoned<TokenGroups>(room + 4);
  run.rows = Poisoned<GatherRow>(WideProduct(scene.top_k, rows));
  run.lists = Poisoned<GatherList>(list_count);
  const int tile_stride = GatherTilesMax(rows, scene.queries_per_kv, 64, list_count);
  auto gather_tiles = Poisoned<GatherTile>(WideProduct(scene.top_k, tile_stride));
  auto tile_counts = Poisoned<int32_t>(scene.top_k);
  auto partials = Poisoned<float>(WideProduct(rows, heads, dim + 2) + 2);
  auto out = Poisoned<uint16_t>(WideProduct(rows, heads, dim));
  auto log_sum_exps = Poisoned<float>(WideProduct(rows, heads));

  AttendParams p;
  p.step = {.row_count = rows,
            .sequence_count = static_cast<int>(scene.sequences.size()),
            .row_sequences = row_sequences.data(),
            .row_positions = row_positions.data(),
            .first_rows = first_rows.data(),
            .first_positions = first_positions.data(),
            .page_tables = page_tables.data()};
  p.pool = {.tiles = pool_start,
            .annotations = annotation_start,
            .annotation_stride = stride,
            .table_starts = table_starts.data(),
            .kv_head_count = scene.kv_heads,
            .head_dim = dim};
  p.mask = mask.data();
  p.token_groups = {.words = reinterpret_cast<const TokenGroups*>(annotation_start),
                    .page_stride = stride / 4,
                    .window = scene.window};
  p.queries = queries.data();
  p.row_scales = scales.data();
  p.soft_cap = scene.soft_cap;
  p.query_head_count = heads;
  p.queries_per_kv = scene.queries_per_kv;
  p.item_count = static_cast<int>(tiles.size());
  p.tiles = tiles.data();
  p.partials = partials.data();
  p.out = out.data();
  p.log_sum_exp = log_sum_exps.data();
  p.multiprocessor_count = 1;
  uint32_t taken[2] = {};
  p.sm90_taken = taken;
  p.gather.uses_sm90 = scene.sm90;
  p.gather.from = scene.from;
  p.gather.group_count = scene.group_count;
  p.gather.top_k = scene.top_k;
  const auto must = [](int code) { VF_CHECK(code == 0, "a launch of a valid scene"); };
  must(kernels.attend_prefill(p, {}));
  const int64_t before = emulator::GetCounters().multiplies, products = emulator::GetHopperCounters().products;
  if (scene.window > 0) must(kernels.gather_window(p, {}));
  const auto on_16_bytes = [](auto* at) {
    return reinterpret_cast<decltype(at)>((reinterpret_cast<uintptr_t>(at) + 15) / 16 * 16);
  };
  p.gather.sequence_count = p.step.sequence_count;
  p.gather.row_count = rows;
  p.gather.places = on_16_bytes(places.data());
  p.gather.key_groups = on_16_bytes(key_groups.data());
  p.gather.lists = run.lists.data();
  p.gather.rows = run.rows.data();
  p.gather.tiles = gather_tiles.data();
  p.gather.tile_counts = tile_counts.data();
  p.gather.tile_stride = tile_stride;
  for (int pass = 0; pass < scene.top_k; ++pass) p.gather.tile_rows[pass] = TileRowsOf(scene, pass);
  must(kernels.gather_lists(p, {}));
  must(kernels.gather_passes(p, {}));
  run.multiplies = emulator::GetCounters().multiplies - before;
  run.products = emulator::GetHopperCounters().products - products;
  run.places.assign(p.gather.places, p.gather.places + room);
  for (int pass = 0; pass < scene.top_k; ++pass) {
    const auto first = gather_tiles.begin() + WideProduct(pass, tile_stride);
    run.tiles.emplace_back(first, first + std::clamp(tile_counts[pass], 0, tile_stride));
  }
  size_t number = 0, row = 0;
  for (const auto& s : scene.sequences) {
    const size_t width = WideProduct(heads, dim);
    std::vector<float> numbers;
    for (size_t i = 0; i < s.row_count * width; ++i) numbers.push_back(WidenBF16(out[number++]));
    run.outs.push_back(std::move(numbers));
    run.log_sum_exps.emplace_back(log_sum_exps.begin() + row * heads,
                                  log_sum_exps.begin() + (row + s.row_count) * heads);
    row += s.row_count;
  }
  return run;
}

}  // namespace varifocal::kernels::cuda
