// The table of cells, in order of importance: a run that reaches its deadline has the first ones.

#include <algorithm>

#include "kernels/cuda/bench/bench.h"

namespace varifocal::kernels::cuda {
namespace {

// Layers, width, heads, KV heads, head dim, hidden units, vocabulary. The largest is the reference of the floors.
constexpr LlamaShape kModels[] = {{"2.7b", 32, 2560, 20, 20, 128, 6912, 50304},
                                  {"1b", 16, 2048, 32, 8, 64, 8192, 50304},
                                  {"0.1b", 12, 768, 12, 12, 64, 2048, 50304},
                                  {"8b", 32, 4096, 32, 8, 128, 14336, 128256}};
constexpr LlamaShape kTinyModels[] = {{"2.7b", 2, 64, 2, 2, 32, 96, 300},
                                      {"1b", 2, 64, 4, 2, 16, 80, 300},
                                      {"0.1b", 1, 32, 1, 1, 32, 48, 300},
                                      {"8b", 2, 64, 4, 1, 16, 96, 300}};

struct AttentionShape {
  int heads, kv_heads, head_dim;
};
constexpr AttentionShape kShapes[] = {{20, 20, 128}, {32, 8, 128}, {16, 16, 64}};
constexpr std::pair<int, int> kLayerProducts[] = {{7680, 2560}, {2560, 2560}, {13824, 2560}, {2560, 6912}};

class Table {
 public:
  explicit Table(bool tiny) : tiny_(tiny) {}

  void Ceilings() {
    Add({.name = "ceiling_product",
         .kind = "product",
         .rows = Length(8192),
         .inner = Width(8192),
         .outputs = Width(8192)});
    Add({.name = "ceiling_copy", .kind = "copy", .rows = tiny_ ? 1 : 4096});  // MiB
  }
  void Attention(const AttentionShape& s, const std::string& name, Cell cell) {
    cell.name = name + "_" + std::to_string(s.heads) + "_" + std::to_string(s.kv_heads) + "_" +
                std::to_string(s.head_dim) + "_" + cell.name;
    // A group is kept whole, and one KV head suffices to run every kernel.
    cell.heads = tiny_ ? s.heads / s.kv_heads : s.heads;
    cell.kv_heads = tiny_ ? 1 : s.kv_heads;
    cell.head_dim = s.head_dim;
    if (tiny_) cell.sequences = std::min(cell.sequences, 3);
    Add(cell);
  }
  void Prefill(const AttentionShape& s, int length) {
    Attention(s, "prefill", {.name = std::to_string(length), .kind = "attention", .rows = Length(length)});
  }
  void Tau(const AttentionShape& s, const char* how, ScaleKind scale) {
    Attention(s, std::string("tau_") + how,
              {.name = "16384", .kind = "attention", .rows = Length(16384), .scale = scale});
  }
  // Learned groups (Focus): an eighth to a quarter of far pairs are visible.
  void Groups(const AttentionShape& s, const char* kind, int group_count, int top_k, int length) {
    const bool decode = std::string(kind) == "decode";
    Attention(s, std::string("focus_") + kind,
              {.name = std::to_string(group_count) + "_" + std::to_string(top_k) + "_" + std::to_string(length),
               .kind = kind,
               .rows = decode ? 1 : Length(length),
               .context = decode ? Context(length) : 0,
               .group_count = group_count,
               .top_k = top_k,
               .window = tiny_ ? 16 : 128});
  }
  void Suffix(const AttentionShape& s, int rows, int context, int sequences = 1) {
    const std::string many = sequences > 1 ? std::to_string(sequences) + "_ragged_x" : "";
    Attention(s, "suffix",
              {.name = many + std::to_string(rows) + "_on_" + std::to_string(context),
               .kind = "attention",
               .rows = Length(rows),
               .context = Context(context),
               .sequences = sequences,
               .ragged = sequences > 1});
  }
  void Decode(const AttentionShape& s, int batch, int length, bool shared = false) {
    Attention(s, shared ? "cascade" : "decode",
              {.name = std::to_string(batch) + "x" + std::to_string(length),
               .kind = "decode",
               .rows = 1,
               // A split must be whole to be shared.
               .context = tiny_ && shared ? 1024 : Context(length),
               .sequences = batch,
               .shared_prefix = shared});
  }
  void Product(int m, const std::pair<int, int>& nk) {
    const bool decode = m <= 32;
    Add({.name = "product_" + std::to_string(m) + "x" + std::to_string(nk.first) + "x" + std::to_string(nk.second),
         .kind = decode ? "decode_product" : "product",
         .rows = decode ? m : Length(m),
         .inner = Width(nk.second),
         .outputs = Width(nk.first)});
  }
  void Model(const std::string& name, const char* kind, int model, Cell cell) {
    cell.model = tiny_ ? kTinyModels[model] : kModels[model];
    cell.name = name;
    cell.kind = kind;
    if (tiny_) cell.sequences = std::min(cell.sequences, 2);
    Add(cell);
  }
  void ModelPrefill(int model, int length) {
    Model(std::string("model_prefill_") + kModels[model].name + "_" + std::to_string(length), "model_prefill", model,
          {.rows = Length(length) * (tiny_ ? 4 : 1)});
  }
  void LayerOps(int model, int rows) {
    Model(std::string("layer_ops_") + kModels[model].name + "_" + std::to_string(rows), "layer_ops", model,
          {.rows = Length(rows) * (tiny_ ? 4 : 1)});
  }
  void ModelDecode(int batch, int length, const char* name = "model_decode", Cell cell = {}) {
    cell.rows = 1;
    cell.context = Context(length);
    cell.sequences = batch;
    Model(std::string(name) + "_2.7b_" + std::to_string(batch) + "x" + std::to_string(length), "model_decode", 0, cell);
  }
  void TwoModels(int rows, int context) {
    Cell cell{.rows = Length(rows) * (tiny_ ? 4 : 1), .context = Context(context)};
    cell.other = tiny_ ? kTinyModels[2] : kModels[2];
    Model("two_models_2.7b_" + std::to_string(rows) + "_0.1b_1x" + std::to_string(context), "two_models", 0, cell);
  }
  void Add(Cell cell) { cells.push_back(std::move(cell)); }

  // Reduced length for the emulator, which multiplies a million times slower.
  int Length(int n) const { return tiny_ ? std::max(1, n / 256) : n; }
  int Context(int n) const { return tiny_ ? 128 * std::max(1, n / 16384) : n; }
  int Width(int n) const { return tiny_ ? 64 : n; }

  std::vector<Cell> cells;

 private:
  const bool tiny_;
};

}  // namespace

std::vector<Cell> Cells(bool tiny) {
  Table t(tiny);
  const AttentionShape& reference = kShapes[0];
  t.Ceilings();
  for (const int length : {16384, 32768, 8192, 2048}) t.Prefill(reference, length);
  for (const int length : {16384, 32768, 8192}) t.ModelPrefill(0, length);
  for (const int model : {0, 3}) t.LayerOps(model, 8192);
  for (const int length : {32768, 8192}) t.Decode(reference, 1, length);
  t.Decode(reference, 8, 32768);
  t.Tau(reference, "scalar", ScaleKind::kDeviceScalar);
  t.Tau(reference, "rows", ScaleKind::kPerRow);
  for (const auto& [group_count, top_k] : {std::pair{8, 1}, {16, 2}}) {
    t.Groups(reference, "attention", group_count, top_k, 16384);
    t.Groups(reference, "decode", group_count, top_k, 32768);
  }
  t.Model("questions_1000x100_on_32768", "continuations", 0,
          {.rows = tiny ? 5 : 100, .context = t.Context(32768), .sequences = 32, .total = tiny ? 3 : 1000});
  t.Model("determinism_2.7b", "determinism", 0, {.rows = tiny ? 300 : 4096});
  t.Model("scoring_64x64_on_16384", "continuations", 0,
          {.rows = tiny ? 4 : 64, .context = t.Context(16384), .sequences = 64, .total = tiny ? 2 : 64});
  for (const int batch : {1, 8}) t.ModelDecode(batch, 32768);
  for (const int batch : {8, 32}) t.Decode(reference, batch, 32768, true);
  for (const auto& nk : kLayerProducts) t.Product(8192, nk);
  for (const auto& nk : kLayerProducts) t.Product(1, nk);
  for (const int length : {8192, 32768}) t.Prefill(kShapes[2], length);
  for (const int length : {8192, 32768}) t.Prefill(kShapes[1], length);
  t.Suffix(reference, 2048, 32768);
  t.Suffix(reference, 128, 32768);
  t.Suffix(reference, 128, 16384, 16);
  for (const int batch : {1, 8}) t.ModelDecode(batch, 1024);
  for (const int batch : {1, 8}) t.ModelDecode(batch, 1024, "graph_decode", {.graphs = true});
  t.ModelDecode(8, 1024, "sampled_decode", {.draws = true});
  t.Model("tau_model_2.7b_8192", "model_prefill", 0, {.rows = t.Length(8192) * (tiny ? 4 : 1), .learned_tau = true});
  t.Model("lone_suffix_128_on_32768", "continuations", 0,
          {.rows = tiny ? 5 : 128, .context = t.Context(32768), .total = 1});
  for (const int rows : {8192, 32768}) t.TwoModels(rows, 1024);
  t.Model("load_2.7b", "load", 0, {});
  for (const AttentionShape& s : {kShapes[1], kShapes[2]}) {
    for (const int batch : {1, 8}) t.Decode(s, batch, 32768);
  }
  for (const int model : {1, 2}) t.ModelPrefill(model, 16384);
  for (const int m : {2048, 32768, 8, 32, 128, 64, 256, 512}) {
    for (const auto& nk : kLayerProducts) t.Product(m, nk);
  }
  for (const AttentionShape& s : {kShapes[1], kShapes[2]}) {
    for (const int length : {2048, 16384}) t.Prefill(s, length);
    for (const int batch : {1, 8}) t.Decode(s, batch, 8192);
    t.Suffix(s, 2048, 32768);
  }
  t.Decode(reference, 8, 8192);
  for (const auto& [group_count, top_k] : {std::pair{8, 1}, {16, 2}})
    t.Groups(reference, "attention", group_count, top_k, 32768);
  // Head dims of other models, for the attention kernels alone.
  for (const AttentionShape& s : {AttentionShape{16, 16, 96}, {8, 8, 256}}) t.Prefill(s, 8192);
  for (const int model : {1, 2}) t.ModelPrefill(model, 32768);
  return t.cells;
}

}  // namespace varifocal::kernels::cuda
