// Matrix products of the CPU backend on one thread, per instruction set: the shapes of small models.
//
// Every case is compared with float64 before it is timed. Counters: GF/s by CPU time and the share of the multiply-add
// peak measured in this run; for one row also the bytes of weights read per second.

#include <benchmark/benchmark.h>

#include <cmath>

#include "kernels/conformance/rig.h"
#include "kernels/cpu/bench_machine.h"

namespace varifocal::kernels {
namespace {

struct Shape {
  int rows, inner, outputs;
};

void Product(benchmark::State& state, const std::string& isa, DType dtype, const Shape& shape) {
  auto backend = std::move(*CreateBackend({.device = "cpu", .dtype = dtype, .thread_count = 1, .cpu_isa = isa}));
  const std::vector<float> weights =
      ProductInput(*backend, UniformVector(1, static_cast<size_t>(shape.inner) * shape.outputs));
  const std::vector<float> inputs =
      ProductInput(*backend, UniformVector(2, static_cast<size_t>(shape.rows) * shape.inner));
  const HostMatrix matrix = MatrixOf(weights, shape.outputs, shape.inner);
  auto weight = std::move(*backend->CreateWeight({&matrix, 1}, WeightUse::kPlain));
  auto x = Upload(*backend, inputs), out = Empty(*backend, static_cast<size_t>(shape.rows) * shape.outputs);
  PlainStep step(*backend, {.model_dim = shape.inner}, shape.rows);
  const LinearArgs args{.x = {x.get(), 0}, .weight = weight.get(), .out = {out.get(), 0}};
  VF_CHECK(backend->Linear(*step.workspace, args).ok(), "a valid product");
  const std::vector<float> got = Download(*backend, *out, static_cast<size_t>(shape.rows) * shape.outputs);
  for (size_t i = 0; i < got.size(); i += 1 + got.size() / 1000) {
    double want = 0;
    for (int k = 0; k < shape.inner; ++k) {
      want += static_cast<double>(inputs[i / shape.outputs * shape.inner + k]) *
              weights[i % shape.outputs * shape.inner + k];
    }
    if (std::fabs(want - got[i]) > 2 * kUnit * shape.inner * shape.inner)
      return state.SkipWithError("the answer is wrong");
  }
  const double peak = cpu::PeakOf(**cpu::ChooseKernels(isa, dtype));
  double seconds = 0;
  for (auto _ : state) {
    const double start = cpu::ThreadSeconds();
    VF_CHECK(backend->Linear(*step.workspace, args).ok(), "a valid product");
    seconds += cpu::ThreadSeconds() - start;
  }
  const double flops = 2.0 * shape.rows * shape.inner * shape.outputs * static_cast<double>(state.iterations());
  const double bytes = static_cast<double>(DTypeBytes(dtype)) / (2.0 * shape.rows) * flops;
  state.counters["GF/s"] = flops / seconds * 1e-9;
  state.counters["of_peak"] = flops / seconds / peak;
  if (shape.rows == 1) state.counters["GB/s"] = bytes / seconds * 1e-9;
}

const int kRegistered = [] {
  for (const auto& [isa, dtype] : cpu::MeasuredKernels()) {
    for (const Shape& shape : {Shape{512, 128, 256},
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
