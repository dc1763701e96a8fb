// Speedup of attention by learned groups (Focus) over dense attention on one thread, by length.
//
// Both are compared with float64 on one row before they are timed, in the same run. Prefill is measured in steps of 512
// rows, or of as many as named, evenly spread over the prompt and scaled to all of them; decode is one row after the
// prompt. Dense and grouped steps alternate; times are medians. Counters:
//   times         CPU time of dense attention / by groups, both without routing
//   with_routing  the same with the routing of the rows counted
//   visible       share of visible pairs
//   GF/s          4 D flops per visible pair
// Names for --benchmark_filter: prefill or decode / instruction set / K,k,w / tokens [/ rows of a step: 512].
#include <benchmark/benchmark.h>

#include "kernels/cpu/bench_attention.h"
#include "kernels/cpu/bench_machine.h"

namespace varifocal::kernels {
namespace {

constexpr int kChunksMeasured = 12;
constexpr int kLongTokens = 32768;  // from here on also in steps of twice as many rows

double Seconds(const std::function<void()>& work) {
  const double start = cpu::ThreadSeconds();
  work();
  return cpu::ThreadSeconds() - start;
}

double Median(std::vector<double> seconds) {
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

// Share of visible pairs j <= i, for uniformly drawn groups and a window.
double VisibleShare(const AttentionGroups& groups, double tokens) {
  const double near = std::min<double>(groups.window + 1, tokens);
  const double near_pairs = near * tokens - near * (near - 1) / 2;
  const double all = tokens * (tokens + 1) / 2;
  return (near_pairs + (all - near_pairs) * SharedGroupPairs(groups.group_count, groups.top_k)) / all;
}

void Prefill(benchmark::State& state, const std::string& isa, DType dtype, const AttentionShape& shape,
             const AttentionGroups& groups) {
  AttentionBench dense(isa, dtype, 1, shape), grouped(isa, dtype, 1, shape, groups);
  const int rows = dense.chunk();
  for (AttentionBench* bench : {&dense, &grouped}) {
    bench->Begin(Phase::kPrefill, shape.tokens - rows, rows);
    bench->Attend();
    if (bench->ErrorOfRow(rows - 1, shape.tokens - 1) > AttentionErrorMax(dtype, shape.tokens))
      return state.SkipWithError("wrong result");
  }
  const int chunks = shape.tokens / rows, measured = std::min(chunks, kChunksMeasured);
  std::vector<std::vector<double>> dense_s(measured), grouped_s(measured), routing_s(measured);
  for (auto _ : state) {
    for (int n = 0; n < measured; ++n) {
      const int first = static_cast<int>((2LL * n + 1) * chunks / (2 * measured)) * rows;
      dense.Begin(Phase::kPrefill, first, rows);
      dense_s[n].push_back(Seconds([&] { dense.Attend(); }));
      grouped.Begin(Phase::kPrefill, first, rows);
      routing_s[n].push_back(Seconds([&] { grouped.Route(); }));
      grouped_s[n].push_back(Seconds([&] { grouped.Attend(); }));
    }
  }
  const auto of_prompt = [&](const std::vector<std::vector<double>>& seconds) {
    double sum = 0;
    for (const std::vector<double>& of_chunk : seconds) sum += Median(of_chunk);
    return sum * chunks / measured;
  };
  const double dense_time = of_prompt(dense_s), grouped_time = of_prompt(grouped_s), routing = of_prompt(routing_s);
  const double share = VisibleShare(groups, shape.tokens);
  const double dense_flops = 4.0 * shape.head_dim * shape.query_heads * 0.5 * shape.tokens * (shape.tokens + 1.0);
  state.counters["times"] = dense_time / grouped_time;
  state.counters["with_routing"] = dense_time / (grouped_time + routing);
  state.counters["visible"] = share;
  state.counters["GF/s"] = 1e-9 * dense_flops * share / grouped_time;
  state.counters["dense_GF/s"] = 1e-9 * dense_flops / dense_time;
}

void Decode(benchmark::State& state, const std::string& isa, DType dtype, const AttentionShape& shape,
            const AttentionGroups& groups) {
  AttentionBench dense(isa, dtype, 1, shape), grouped(isa, dtype, 1, shape, groups);
  std::vector<double> seconds[2];
  for (AttentionBench* bench : {&dense, &grouped}) {
    bench->Begin(Phase::kDecode, shape.tokens - 1, 1);
    bench->Attend();
    if (bench->ErrorOfRow(0, shape.tokens - 1) > AttentionErrorMax(dtype, shape.tokens))
      return state.SkipWithError("wrong result");
  }
  constexpr int kRowsPerTurn = 4;  // consecutive tokens find the caches as one finds them after another
  for (auto _ : state) {
    for (int turn = 0; turn < 20; ++turn) {
      for (const int which : {0, 1}) {
        AttentionBench& bench = which == 0 ? dense : grouped;
        bench.Attend();
        seconds[which].push_back(Seconds([&] {
          for (int i = 0; i < kRowsPerTurn; ++i) bench.Attend();
        }));
      }
    }
  }
  state.counters["times"] = Median(seconds[0]) / Median(seconds[1]);
  state.counters["visible"] = VisibleShare(groups, shape.tokens);
}

const int kRegistered = [] {
  struct Named {
    int group_count, top_k, window;
    std::vector<int> prefill_tokens;
  };
  const std::vector<Named> settings = {
      {8, 1, 128, {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072, 1048576}},
      {16, 2, 128, {256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072}},
      {8, 2, 128, {256, 512, 1024, 2048, 4096, 8192, 16384, 32768}},
      {4, 2, 128, {256, 512, 2048, 8192, 32768}},
  };
  for (const auto& [isa, dtype] : cpu::MeasuredKernels()) {
    if (isa == "portable") continue;
    for (const Named& setting : settings) {
      const AttentionGroups groups{
          .group_count = setting.group_count,
          .top_k = setting.top_k,
          .window = setting.window,
          .gather_from = GatherFrom(setting.group_count, setting.top_k, setting.window, HostGatherCosts(dtype))};
      const auto name = [&, isa = isa, dtype = dtype](const char* what, int tokens) {
        return std::string(what) + "/" + isa + "-" + DTypeName(dtype) + "/K" + std::to_string(groups.group_count) +
               ",k" + std::to_string(groups.top_k) + ",w" + std::to_string(groups.window) + "/" +
               std::to_string(tokens);
      };
      for (const int tokens : setting.prefill_tokens) {
        // One KV head of a layer with three query heads on it, as SmolLM2 has.
        for (const int rows : {kChunk, 2 * kChunk}) {
          if (rows > kChunk && tokens < kLongTokens) continue;
          const AttentionShape shape{64, 3, 1, tokens, rows};
          const std::string suffix = rows > kChunk ? "/rows:" + std::to_string(rows) : "";
          benchmark::RegisterBenchmark((name("prefill", tokens) + suffix).c_str(), Prefill, isa, dtype, shape, groups)
              ->Unit(benchmark::kMillisecond)
              ->Iterations(tokens > 65536  ? 1
                           : tokens > 4096 ? 3
                           : tokens > 1024 ? 20
                                           : 100);
        }
      }
      for (const int tokens : {512, 4096, 32768, 131072}) {
        benchmark::RegisterBenchmark(name("decode", tokens).c_str(), Decode, isa, dtype,
                                     AttentionShape{64, 3, 1, tokens}, groups)
            ->Unit(benchmark::kMillisecond)
            ->Iterations(3);
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace varifocal::kernels
