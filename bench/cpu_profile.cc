// Time profile of a whole prefill on the CPU: products, attention, the rest, waiting; and the share of the machine's
// multiply-add peak of the first two.
//
//   cpu_profile [--model=DIRECTORY] [--longest=32768] [--threads=N] [--cpu-isa=ISA]
//
// The engine runs one prompt of 2,048, 8,192 and 32,768 tokens, in f32 and bf16, with one thread and with N (2). Shares
// are of threads x wall time: "rest" is norms, rotations, writing pages and the engine thread's own work between
// operations; "waiting" is threads without an item. Rates are flops by the time inside items; "of peak" is against
// multiply-adds on registers, measured before each case on the same number of threads, so that load affects both
// equally. Without --model, the 30M LLaMA of cpu_bench.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/clock.h"
#include "bench/model.h"
#include "kernels/cpu/bench_machine.h"
#include "kernels/cpu/thread_pool.h"
#include "server/engine/engine.h"

namespace varifocal {
namespace {

using kernels::DType;
using kernels::cpu::PoolProfile;
using kernels::cpu::PoolWork;

// Of one thread, while the others run the same.
double PeakOfThreads(const kernels::cpu::KernelTable& table, int threads) {
  std::vector<double> peaks(threads);
  std::vector<std::thread> others;
  for (size_t i = 1; i < peaks.size(); ++i) others.emplace_back([&, i] { peaks[i] = kernels::cpu::PeakOf(table); });
  peaks[0] = kernels::cpu::PeakOf(table);
  for (std::thread& other : others) other.join();
  return std::accumulate(peaks.begin(), peaks.end(), 0.0) / threads;
}

// Two per multiply-add of every weight that is not an embedding.
double ProductFlops(const LoadedModel& model, int64_t tokens) {
  const ModelConfig& config = model.config();
  const int64_t embeddings = config.vocabulary_size * config.width * (config.tied_embeddings ? 1 : 2);
  return 2.0 * (model.provenance().parameter_count - embeddings) * tokens +
         2.0 * (config.vocabulary_size * config.width);
}

// 4 D per visible pair.
double AttentionFlops(const ModelConfig& config, int64_t tokens) {
  double pairs = 0;
  for (const LayerConfig& layer : config.layers) {
    const int64_t window = layer.window == 0 ? tokens : std::min(layer.window, tokens);
    pairs += 0.5 * window * (window + 1) + static_cast<double>(tokens - window) * window;
  }
  return 4.0 * (config.head_width * config.head_count) * pairs;
}

bool ProfileModel(const std::string& directory, const std::string& isa, DType dtype, int threads, int64_t longest) {
  auto model = LoadModel(directory, {.device = "cpu", .dtype = DTypeName(dtype), .cpu_isa = isa, .threads = threads});
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return false;
  }
  auto engine = Engine::Create(
      *model, {.kv_cache_bytes = (longest / 128 + 8) * (*model)->provenance().page_bytes, .prefix_cache = false});
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().ToString().c_str());
    return false;
  }
  const kernels::cpu::KernelTable& table = **kernels::cpu::ChooseKernels((*model)->provenance().isa, dtype);
  const auto request_of = [&](int64_t tokens) {
    EngineRequest request;
    for (int64_t i = 0; i < tokens; ++i)
      request.token_ids.push_back((7 + 7919 * i) % (*model)->config().vocabulary_size);
    request.work = ScoreContinuationsWork{.continuations = {{0}}};
    return request;
  };
  // Warm-up: memory is committed on first access, which is not measured.
  VF_CHECK((*engine)->Run(request_of(2048)).ok(), "a prompt that fits");
  for (const int64_t tokens : {2048, 8192, 32768}) {
    if (tokens > longest) break;
    const EngineRequest request = request_of(tokens);
    const double peak = PeakOfThreads(table, threads);
    PoolProfile profile;
    kernels::cpu::ThreadPool::Measure(&profile);
    const int64_t begin_us = Clock::Real().MonotonicMicros();
    VF_CHECK((*engine)->Run(request).ok(), "a prompt that fits");
    const double wall = 1e-6 * (Clock::Real().MonotonicMicros() - begin_us);
    kernels::cpu::ThreadPool::Measure(nullptr);

    const auto busy = [&](PoolWork work) { return 1e-9 * profile.busy_ns[static_cast<int>(work)]; };
    double in_jobs = 0;
    for (const int64_t wall_ns : profile.wall_ns) in_jobs += 1e-9 * wall_ns;
    const double products = busy(PoolWork::kProducts), attention = busy(PoolWork::kAttention),
                 rest = busy(PoolWork::kRows) + wall - in_jobs, all = threads * wall;
    absl::PrintF("| %d | %s | %d | %.2f | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.2f | %.2f |\n", tokens, table.isa,
                 threads, wall, 100 * products / all, 100 * attention / all, 100 * rest / all,
                 100 * (all - products - attention - rest) / all, ProductFlops(**model, tokens) / products / peak,
                 AttentionFlops((*model)->config(), tokens) / attention / peak);
    std::fflush(stdout);
  }
  return true;
}

int Main(int argc, char** argv) {
  std::string directory, isa;
  int threads = 2, longest = 32768;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--model=")) {
      directory = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--cpu-isa=")) {
      isa = std::string(argument);
    } else if (!(absl::ConsumePrefix(&argument, "--longest=") && absl::SimpleAtoi(argument, &longest)) &&
               !(absl::ConsumePrefix(&argument, "--threads=") && absl::SimpleAtoi(argument, &threads))) {
      std::fprintf(stderr, "unknown flag %s of cpu_profile\n", argv[i]);
      return 1;
    }
  }
  if (directory.empty()) {
    const char* home = std::getenv("XDG_CACHE_HOME");
    directory = absl::StrCat(home != nullptr ? home : absl::StrCat(std::getenv("HOME"), "/.cache"),
                             "/varifocal/bench-llama-30m");
    if (!WriteBenchModel(directory)) {
      std::fprintf(stderr, "%s cannot be written\n", directory.c_str());
      return 1;
    }
  }
  std::printf(
      "| tokens | kernels | threads | wall s | products | attention | rest | waiting | products of peak | "
      "attention of peak |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (!ProfileModel(directory, isa, dtype, 1, longest)) return 1;
    if (threads > 1 && !ProfileModel(directory, isa, dtype, threads, longest)) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) { return varifocal::Main(argc, argv); }
