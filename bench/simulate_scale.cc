// What limits a job on many GPUs: the measured cost of a prompt beside its model, then simulated jobs (docs/scale.md).
//
//   simulate_scale [SEED=1]        in the repository's root
//
// Reads the measured inputs, bench/scale_inputs.json and the prefill rows of docs/cpu/bench.json. The GPUs' speeds are assumptions and
// are varied.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/scale_model.h"

namespace varifocal {
namespace {

Json ReadJson(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return Json::parse(text.str());
}

double Of(const Json& inputs, const char* name) { return inputs.at(name).at("value").get<double>(); }

// Two rates, of products and of attention, by least squares on relative errors; then the model beside what was measured.
void PrintFit(const Json& bench) {
  // The checkpoint of bench/model.h: 8 layers of 512, 8 heads of 64 over 4, FFN 1408; only the last row meets the 16,384 words.
  const ModelShape shape = {8.0 * (2 * 512 * 512 + 2 * 512 * 256 + 3 * 512 * 1408), 8, 8, 4, 64, 2};
  for (const char* dtype : {"f32", "bf16"}) {
    std::vector<std::pair<PrefillFlops, Json>> rows;
    double aa = 0, ab = 0, bb = 0, ay = 0, by = 0;
    for (const Json& row : bench.at("rows")) {
      if (row.at("section") != "prefill" || row.at("dtype") != dtype) continue;
      const PrefillFlops flops = FlopsOf(shape, 0, row.at("tokens").get<double>());
      const double seconds = row.at("ours").at("cpu_s").get<double>();
      const double a = flops.products / seconds, b = flops.attention / seconds;
      aa += a * a, ab += a * b, bb += b * b, ay += a, by += b;
      rows.emplace_back(flops, row);
    }
    const double determinant = aa * bb - ab * ab;
    const double products = determinant / (ay * bb - by * ab), attention = determinant / (aa * by - ab * ay);
    std::printf("%s: %.0f GFLOP/s of products and %.0f GFLOP/s of attention per CPU second\n", dtype, products / 1e9,
                attention / 1e9);
    std::printf("%8s %14s %14s %12s %12s %8s\n", "tokens", "products, GF", "attention, GF", "measured, s",
                "modelled, s", "error");
    for (const auto& [flops, row] : rows) {
      const double measured = row.at("ours").at("cpu_s").get<double>();
      const double modelled = flops.products / products + flops.attention / attention;
      std::printf("%8.0f %14.0f %14.0f %12.2f %12.2f %+7.0f%%\n", row.at("tokens").get<double>(), flops.products / 1e9,
                  flops.attention / 1e9, measured, modelled, 100 * (modelled / measured - 1));
    }
    std::printf("\n");
  }
}

struct Gpu {
  const char* name;
  GpuAssumption speeds;
};

void PrintSimulations(const ScaleInputs& inputs, const std::string& seed) {
  // An 8 B model of the LLaMA 3 shape in bf16. Speeds are assumed, as reached: a third, about half and most of what the makers of
  // present accelerators state.
  const ModelShape shape = {7.5e9, 32, 32, 8, 128, 2};
  const Gpu gpus[] = {{"slow", {100e12, 50e12, 1.0e12, 80e9}},
                      {"middle", {400e12, 200e12, 2.0e12, 80e9}},
                      {"fast", {1000e12, 500e12, 5.0e12, 140e9}}};
  ScaleJob job;
  job.answer_count = 1'000'000;
  job.lengths = {8192, 16384, 32768};
  std::printf("1,000,000 answers: 2 variants of an 8 B model, 8K, 16K and 32K tokens, 4 questions a context\n");
  std::printf("keys and values of 32K tokens: %.1f GB; a context of 32K: %.0f TFLOP, a further question %.1f TFLOP\n\n",
              shape.KvBytes(32768) / 1e9,
              (FlopsOf(shape, 0, 32768).products + FlopsOf(shape, 0, 32768).attention) / 1e12,
              (FlopsOf(shape, 32768 - 64, 64).products + FlopsOf(shape, 32768 - 64, 64).attention) / 1e12);
  std::printf("%-7s %5s %13s %9s %9s %9s %6s %12s %9s %7s %13s %s\n", "GPU", "GPUs", "coordinators", "in flight",
              "hours", "answers/s", "GPUs", "coordinator", "database", "full", "rows/commit", "limit");
  struct Setup {
    int gpus, coordinators, in_flight;
  };
  const Setup setups[] = {{8, 1, 64},      {64, 1, 64},      {64, 1, 512},     {64, 1, 1024},   {1024, 1, 1024},
                          {1024, 1, 8192}, {1024, 16, 1024}, {1024, 64, 1024}, {1024, 1024, 64}};
  for (const Gpu& gpu : gpus) {
    for (const Setup& setup : setups) {
      // Coordinators with a shard each do not meet before the merge.
      ScaleJob part = job;
      part.answer_count = job.answer_count / setup.coordinators;
      const ScaleResult result =
          Simulate(shape, gpu.speeds, part, inputs,
                   {.gpu_count = setup.gpus / setup.coordinators, .in_flight = setup.in_flight, .seed = seed});
      std::printf("%-7s %5d %13d %9d %9.2f %9.0f %5.0f%% %11.0f%% %8.0f%% %6.0f%% %13.1f %s\n", gpu.name, setup.gpus,
                  setup.coordinators, setup.in_flight, result.seconds / 3600,
                  result.answers_per_second * setup.coordinators, 100 * result.gpu_share, 100 * result.runner_share,
                  100 * result.commit_share, 100 * result.full_share, result.answers_per_commit, result.limit.c_str());
    }
  }
}

int Main(const std::string& seed) {
  PrintFit(ReadJson("docs/cpu/bench.json"));
  const Json measured = ReadJson("bench/scale_inputs.json");
  ScaleInputs inputs;
  inputs.runner_seconds = Of(measured, "runner_seconds");
  inputs.runner_seconds_per_token = Of(measured, "runner_seconds_per_token");
  inputs.commit_seconds = Of(measured, "commit_seconds");
  inputs.round_trip_seconds = Of(measured, "round_trip_seconds");
  PrintSimulations(inputs, seed);
  return 0;
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) { return varifocal::Main(argc > 1 ? argv[1] : "1"); }
