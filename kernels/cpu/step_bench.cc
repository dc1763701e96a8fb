// A whole prefill, layer by layer as the server walks it, and where its time goes.
//
// Two shapes: the checkpoints that ship (about 1M parameters) and a 30M LLaMA. Weights are random; the operations'
// answers are the conformance table's business. Counters: tokens/s by wall time, and milliseconds per operation.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>

#include "kernels/conformance/rig.h"
#include "kernels/cpu/cpu_features.h"

namespace varifocal::kernels {
namespace {

struct Model {
  const char* name;
  int layers, width, heads, kv_heads, head_dim, ffn, vocab;
};

constexpr Model kShipped = {"1M", 4, 128, 4, 2, 32, 352, 2048};
constexpr Model kThirty = {"30M", 8, 512, 8, 4, 64, 1408, 8192};
constexpr int kChunk = 512;

template <typename T>
T Take(Result<T> result) {
  VF_CHECK(result.ok(), "the shape fits the backend");
  return std::move(*result);
}

void Prefill(benchmark::State& state, const Model& model, int tokens, int threads) {
  auto backend = Take(CreateBackend({.device = "cpu", .thread_count = threads}));
  const StepShape shape{.row_count_max = kChunk,
                        .sequence_count_max = 1,
                        .head_row_count_max = 1,
                        .context_length_max = tokens,
                        .model_dim = model.width,
                        .query_head_count = model.heads,
                        .kv_head_count = model.kv_heads,
                        .head_dim = model.head_dim,
                        .ffn_dim = model.ffn,
                        .vocab_size = model.vocab};
  auto workspace = Take(backend->CreateWorkspace(shape));
  const int pages = (tokens + kPageTokens - 1) / kPageTokens;
  auto pool = Take(backend->CreateKvPool(
      {.layer_count = model.layers, .kv_head_count = model.kv_heads, .head_dim = model.head_dim, .has_tau_sums = true},
      pages));
  std::vector<int32_t> table;
  for (int p = 0; p < pages; ++p) table.push_back(p);
  const std::span<const int32_t> tables[] = {table};

  const auto weight = [&](int64_t rows, int64_t columns, WeightUse use) {
    const std::vector<float> data =
        UniformVector(rows * 31 + columns, rows * columns, 1.7f / std::sqrt(static_cast<float>(columns)));
    const HostMatrix matrix = MatrixOf(data, rows, columns);
    return Take(backend->CreateWeight({&matrix, 1}, use));
  };
  const int attention_width = model.heads * model.head_dim;
  auto qkv = weight((model.heads + 2 * model.kv_heads) * model.head_dim, model.width, WeightUse::kPlain);
  auto o = weight(model.width, attention_width, WeightUse::kPlain);
  auto gate_up = weight(2 * model.ffn, model.width, WeightUse::kGateUp);
  auto down = weight(model.width, model.ffn, WeightUse::kPlain);
  auto embedding = weight(model.vocab, model.width, WeightUse::kEmbeddingAndHead);
  auto norm = Upload(*backend, std::vector<float>(model.width, 1.0f));
  const std::vector<float> angles(static_cast<size_t>(tokens) * model.head_dim / 2, 0.6f);
  auto rope = Take(backend->CreateRopeTable({angles, angles, tokens, model.head_dim, false}));
  const RopeTable* ropes[] = {rope.get()};

  auto residual = Empty(*backend, kChunk * model.width), normed = Empty(*backend, kChunk * model.width);
  auto queries = Empty(*backend, kChunk * attention_width), attended = Empty(*backend, kChunk * attention_width);
  auto gated = Empty(*backend, kChunk * model.ffn), scales = Empty(*backend, kChunk);
  const std::vector<int32_t> token_ids(kChunk, 7);
  std::vector<RowInterval> mask(kChunk);

  enum { kEmbed, kNorm, kTau, kQkv, kAttend, kOut, kGate, kDown, kHead, kOperations };
  double spent[kOperations] = {};
  const auto timed = [&](int operation, auto&& call) {
    const auto start = std::chrono::steady_clock::now();
    VF_CHECK(call().ok(), "a valid operation");
    spent[operation] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };

  for (auto _ : state) {
    for (int first = 0; first < tokens; first += kChunk) {
      const int rows = std::min(kChunk, tokens - first);
      for (int r = 0; r < rows; ++r) mask[r] = CausalInterval(first + r);
      const std::span<const RowInterval> seen(mask.data(), rows);
      const SequenceRows sequence{
          .row_count = rows, .first_position = first, .page_tables = tables, .prompt_row_count = tokens};
      VF_CHECK(backend->BeginStep(*workspace, {.sequences = {&sequence, 1}, .masks = {&seen, 1}}).ok(), "a valid step");
      const std::span<const int32_t> ids(token_ids.data(), rows);
      timed(kEmbed, [&] {
        return backend->Embed(*workspace, {.table = embedding.get(), .tokens = ids, .out = {residual.get(), 0}});
      });
      const NormArgs norm_args{
          .x = {residual.get(), 0}, .weight = {norm.get(), 0}, .epsilon = 1e-5f, .out = {normed.get(), 0}};
      for (int layer = 0; layer < model.layers; ++layer) {
        timed(kNorm, [&] { return backend->Norm(*workspace, norm_args); });
        timed(kTau, [&] {
          return backend->FocalTau(*workspace, {.x = {normed.get(), 0},
                                                .weight = {norm.get(), 0},
                                                .bias = 5,
                                                .tau_min = 4,
                                                .tau_max = 6,
                                                .pool = pool.get(),
                                                .layer = layer,
                                                .row_scales = {scales.get(), 0}});
        });
        timed(kQkv, [&] {
          return backend->QkvRopeWrite(*workspace, {.x = {normed.get(), 0},
                                                    .weight = qkv.get(),
                                                    .query_head_count = model.heads,
                                                    .rope_tables = ropes,
                                                    .pool = pool.get(),
                                                    .layer = layer,
                                                    .queries = {queries.get(), 0}});
        });
        timed(kAttend, [&] {
          return backend->Attend(*workspace, {.queries = {queries.get(), 0},
                                              .query_head_count = model.heads,
                                              .pool = pool.get(),
                                              .layer = layer,
                                              .row_scales = {scales.get(), 0},
                                              .out = {attended.get(), 0}});
        });
        timed(kOut, [&] {
          return backend->LinearResidual(
              *workspace, {.x = {attended.get(), 0}, .weight = o.get(), .residual = {residual.get(), 0}});
        });
        timed(kNorm, [&] { return backend->Norm(*workspace, norm_args); });
        timed(kGate, [&] {
          return backend->LinearGated(*workspace,
                                      {.x = {normed.get(), 0}, .weight = gate_up.get(), .out = {gated.get(), 0}});
        });
        timed(kDown, [&] {
          return backend->LinearResidual(
              *workspace, {.x = {gated.get(), 0}, .weight = down.get(), .residual = {residual.get(), 0}});
        });
      }
      const HeadRow head_row{.row = rows - 1};
      HeadResult result;
      timed(kHead, [&] {
        return backend->LmHead(*workspace, {.residual = {residual.get(), 0},
                                            .norm_weight = {norm.get(), 0},
                                            .norm_epsilon = 1e-5f,
                                            .weight = embedding.get(),
                                            .rows = {&head_row, 1},
                                            .results = {&result, 1}});
      });
    }
  }
  const double runs = static_cast<double>(state.iterations());
  state.counters["tokens/s"] = benchmark::Counter(runs * tokens, benchmark::Counter::kIsRate);
  const char* names[] = {"embed", "norm", "tau", "qkv", "attend", "out", "gate", "down", "head"};
  for (int i = 0; i < kOperations; ++i) state.counters[names[i]] = 1e3 * spent[i] / runs;
}

const int kRegistered = [] {
  for (const Model& model : {kShipped, kThirty}) {
    for (const int tokens : {2048, 8192, 32768}) {
      for (const int threads : {1, 2}) {
        const std::string name =
            std::string("prefill/") + model.name + "/" + std::to_string(tokens) + "/threads" + std::to_string(threads);
        benchmark::RegisterBenchmark(name.c_str(), Prefill, model, tokens, threads)
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace varifocal::kernels
