// Attention of the CPU backend on one thread: prefill of a whole prompt and decode behind it, per instruction set.
//
// Every case is compared with float64 on a few rows before it is timed. Counters: GF/s by CPU time (4 D flops per
// visible pair), and prefill's share of the multiply-add peak measured in this run; decode shows the bytes of keys and
// values it reads per second.

#include <benchmark/benchmark.h>

#include "kernels/cpu/bench_attention.h"
#include "kernels/cpu/bench_machine.h"

namespace varifocal::kernels {
namespace {

void Prefill(benchmark::State& state, const std::string& isa, DType dtype, const AttentionShape& shape) {
  AttentionBench bench(isa, dtype, 1, shape);
  bench.Begin(Phase::kPrefill, shape.tokens - kChunk, kChunk);
  bench.Attend();
  if (const double error = bench.ErrorOfRow(kChunk - 1, shape.tokens - 1); error > AttentionErrorMax(dtype)) {
    return state.SkipWithError("the answer is wrong");
  }
  const double peak = cpu::PeakOf(**cpu::ChooseKernels(isa, dtype));
  double flops = 0, seconds = 0;
  for (auto _ : state) {
    const double start = cpu::ThreadSeconds();
    flops += bench.Prefill();
    seconds += cpu::ThreadSeconds() - start;
  }
  state.counters["GF/s"] = flops / seconds * 1e-9;
  state.counters["of_peak"] = flops / seconds / peak;
}

void Decode(benchmark::State& state, const std::string& isa, DType dtype, const AttentionShape& shape) {
  AttentionBench bench(isa, dtype, 1, shape);
  bench.Begin(Phase::kDecode, shape.tokens - 1, 1);
  bench.Attend();
  if (const double error = bench.ErrorOfRow(0, shape.tokens - 1); error > AttentionErrorMax(dtype)) {
    return state.SkipWithError("the answer is wrong");
  }
  double bytes = 0, seconds = 0;
  for (auto _ : state) {
    const double start = cpu::ThreadSeconds();
    bench.Attend();
    seconds += cpu::ThreadSeconds() - start;
    bytes += 2.0 * static_cast<double>(DTypeBytes(dtype)) * shape.tokens * shape.kv_heads * shape.head_dim;
  }
  state.counters["GB/s"] = bytes / seconds * 1e-9;
}

const int kRegistered = [] {
  for (const auto& [isa, dtype] : cpu::MeasuredKernels()) {
    for (const AttentionShape& shape :
         {AttentionShape{32, 4, 2, 8192}, {64, 8, 4, 8192}, {128, 4, 2, 4096}, {256, 4, 1, 4096}}) {
      const std::string name = isa + "-" + DTypeName(dtype) + "/d" + std::to_string(shape.head_dim) + "/h" +
                               std::to_string(shape.query_heads) + "k" + std::to_string(shape.kv_heads) + "/" +
                               std::to_string(shape.tokens);
      benchmark::RegisterBenchmark(("prefill/" + name).c_str(), Prefill, isa, dtype, shape)
          ->Unit(benchmark::kMillisecond);
      benchmark::RegisterBenchmark(("decode/" + name).c_str(), Decode, isa, dtype, shape)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace varifocal::kernels
