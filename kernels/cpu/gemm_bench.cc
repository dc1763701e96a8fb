// Matrix products of the CPU backend on one thread, per instruction set: the shapes of small models.
//
// Every case is compared with float64 before it is timed. Counters: GF/s by CPU time and the share of the multiply-add
// peak measured in this run; for one row also the bytes of weights read per second.

#include <benchmark/benchmark.h>

#include "kernels/cpu/bench_machine.h"
#include "kernels/cpu/bench_product.h"

namespace varifocal::kernels {
namespace {

void Product(benchmark::State& state, const std::string& isa, DType dtype, const ProductShape& shape) {
  ProductBench bench(isa, dtype, 1, shape);
  bench.Run();
  if (!bench.IsRight()) return state.SkipWithError("wrong result");
  const double peak = cpu::PeakOf(**cpu::ChooseKernels(isa, dtype));
  double seconds = 0;
  for (auto _ : state) {
    const double start = cpu::ThreadSeconds();
    bench.Run();
    seconds += cpu::ThreadSeconds() - start;
  }
  const double flops = shape.flops() * state.iterations();
  const double bytes = DTypeBytes(dtype) / (2.0 * shape.rows) * flops;
  state.counters["GF/s"] = flops / seconds * 1e-9;
  state.counters["of_peak"] = flops / seconds / peak;
  if (shape.rows == 1) state.counters["GB/s"] = bytes / seconds * 1e-9;
}

const int kRegistered = [] {
  for (const auto& [isa, dtype] : cpu::MeasuredKernels()) {
    for (const ProductShape& shape : {ProductShape{512, 128, 256},
                                      {512, 128, 704},
                                      {512, 352, 128},
                                      {512, 512, 1024},
                                      {512, 512, 2816},
                                      {512, 1408, 512},
                                      {1, 512, 2816},
                                      {1, 1408, 512},
                                      {8, 512, 2816}}) {
      const std::string name = isa + "-" + DTypeName(dtype) + "/m" + std::to_string(shape.rows) + "k" +
                               std::to_string(shape.inner) + "n" + std::to_string(shape.outputs);
      benchmark::RegisterBenchmark(("product/" + name).c_str(), Product, isa, dtype, shape)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace varifocal::kernels
