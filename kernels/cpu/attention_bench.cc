// Attention of the CPU backend on one thread: prefill of a whole prompt and decode after it, per instruction set.
//
// Every case is compared with float64 on a few rows before it is timed. Counters: GF/s by CPU time (4 D flops per
// visible pair), and prefill's share of the multiply-add peak measured in this run; decode: bytes of keys and values
// read per second; cascade: speedup of batching sequences with shared pages over running them one by one.

#include <benchmark/benchmark.h>

#include <climits>
#include <cstring>

#include "kernels/cpu/bench_attention.h"
#include "kernels/cpu/bench_machine.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels {
namespace {

void Prefill(benchmark::State& state, const std::string& isa, DType dtype, const AttentionShape& shape) {
  AttentionBench bench(isa, dtype, 1, shape);
  bench.Begin(Phase::kPrefill, shape.tokens - kChunk, kChunk);
  bench.Attend();
  if (const double error = bench.ErrorOfRow(kChunk - 1, shape.tokens - 1);
      error > AttentionErrorMax(dtype, shape.tokens)) {
    return state.SkipWithError("wrong result");
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
  if (const double error = bench.ErrorOfRow(0, shape.tokens - 1); error > AttentionErrorMax(dtype, shape.tokens))
    return state.SkipWithError("wrong result");
  double bytes = 0, seconds = 0;
  for (auto _ : state) {
    const double start = cpu::ThreadSeconds();
    bench.Attend();
    seconds += cpu::ThreadSeconds() - start;
    bytes += 2.0 * DTypeBytes(dtype) * shape.tokens * shape.kv_heads * shape.head_dim;
  }
  state.counters["GB/s"] = bytes / seconds * 1e-9;
}

// Sixteen sequences of twelve query lanes after 16,384 shared keys, one by one and batched; the bits must agree.
void Cascade(benchmark::State& state, const std::string& isa, DType dtype) {
  constexpr int kSequences = 16, kLanesEach = 12, kLanesAll = kSequences * kLanesEach, kDim = 64, kSharedPages = 128;
  static_assert(kLanesAll <= cpu::kPrefillLanesMax);
  const cpu::KernelTable& kernels = **cpu::ChooseKernels(isa, dtype);
  const size_t stride = size_t{2} * kPageTokens * kDim / kernels.elements_per_word;
  std::vector<float> pages(stride * (kSharedPages + kSequences)), queries = UniformVector(2, size_t{kLanesAll} * kDim),
                                                                  alone(queries.size()), together(queries.size());
  for (size_t i = 0; i < pages.size(); ++i)
    pages[i] = kernels.elements_per_word == 1 ? Uniform(1, i) : cpu::PairOf(Uniform(1, 2 * i), Uniform(1, 2 * i + 1));
  std::vector<std::vector<int32_t>> tables(kSequences);
  for (int s = 0; s < kSequences; ++s) {
    for (int p = 0; p < kSharedPages; ++p) tables[s].push_back(p);
    tables[s].push_back(kSharedPages + s);
  }
  AlignedArray<float> scratch = AllocateAligned<float>(cpu::PrefillScratchFloats(kDim));
  std::vector<cpu::PrefillBlock> blocks(cpu::kPrefillBlocksMax);
  const auto run = [&](int first, int count, int shared_keys, std::vector<float>& outs) {
    for (int n = 0; n < count; ++n) {
      cpu::PrefillBlock& block = blocks[n / kernels.query_lanes];
      const int i = n % kernels.query_lanes, lane = first + n;
      block.lane_count = i + 1;
      block.queries[i] = queries.data() + lane * kDim;
      block.scales[i] = 0.125f;
      block.masks[i] = {.seen = {0, kSharedPages * kPageTokens + 1 + lane % kLanesEach}};
      block.pages[i] = tables[lane / kLanesEach].data();
      block.outs[i] = outs.data() + lane * kDim;
      block.log_sum_exps[i] = nullptr;
    }
    kernels.attend_prefill[static_cast<size_t>(cpu::PrefillKind::kInterval)](
        {.kv = {pages.data(), stride, tables[first / kLanesEach].data()},
         .shared_keys = shared_keys,
         .head_dim = kDim,
         .block_count = (count + kernels.query_lanes - 1) / kernels.query_lanes,
         .blocks = blocks.data()},
        scratch.get());
  };
  double alone_s = 0, together_s = 0;
  for (auto _ : state) {
    const double start = cpu::ThreadSeconds();
    for (int s = 0; s < kSequences; ++s) run(s * kLanesEach, kLanesEach, INT_MAX, alone);
    const double middle = cpu::ThreadSeconds();
    run(0, kLanesAll, kSharedPages * kPageTokens, together);
    alone_s += middle - start;
    together_s += cpu::ThreadSeconds() - middle;
  }
  if (std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)) != 0)
    return state.SkipWithError("the bits differ");
  state.counters["times"] = alone_s / together_s;
}

const int kRegistered = [] {
  for (const auto& [isa, dtype] : cpu::MeasuredKernels()) {
    benchmark::RegisterBenchmark(("cascade/" + isa + "-" + DTypeName(dtype)).c_str(), Cascade, isa, dtype)
        ->Unit(benchmark::kMillisecond);
    for (AttentionShape shape :
         {AttentionShape{32, 4, 2, 8192}, {64, 8, 4, 8192}, {80, 4, 2, 8192}, {128, 4, 2, 8192}, {256, 4, 1, 8192}}) {
      if (isa == "portable") shape.tokens /= 8;  // 40 times as slow
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
