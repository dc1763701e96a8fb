// The CPU against its own limits and against its peers, in one run: peaks of the machine, attention, products, whole
// prefills. deploy/bench_cpu.sh builds and runs it.
//
//   cpu_bench [--python=PATH] [--threads=2] [--rounds=3] [--longest=32768] [--model=DIRECTORY]... [--out=PREFIX]
//
// With --python, PyTorch and transformers (recipes/bench_peers.py) are timed in turn with us: A B A B, medians. Every
// case of ours is compared with float64 first, every whole prefill with the peer's log-probability. Rates are by CPU
// second of all threads, the honest clock on a shared machine; wall seconds stand beside them. --out writes
// PREFIX.json, PREFIX.md and PREFIX.svg (tokens/s over context length).
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "kernels/cpu/bench_attention.h"
#include "kernels/cpu/bench_machine.h"
#include "kernels/cpu/bench_product.h"
#include "kernels/host_memory.h"
#include "server/engine/bench_model.h"
#include "server/engine/bench_peer.h"
#include "server/engine/bench_report.h"
#include "server/engine/engine.h"

namespace varifocal {
namespace {

using kernels::DType;

struct Options {
  std::string python, out;
  std::vector<std::string> models;
  int threads = 2, rounds = 3;
  int longest = 32768;  // tokens of a case
};

double Seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

PeerTiming TimeOurs(const std::function<void()>& run) {
  const double wall = Seconds(CLOCK_MONOTONIC), cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  run();
  return {Seconds(CLOCK_MONOTONIC) - wall, Seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

class CpuBench {
 public:
  explicit CpuBench(const Options& options) : options_(options) {
    if (!options.python.empty()) {
      peer_ = std::make_unique<BenchPeer>(std::vector<std::string>{options.python, "recipes/bench_peers.py",
                                                                   absl::StrCat("--threads=", options.threads)});
    }
  }

  int Run() {
    MeasureMachine();
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      for (const kernels::AttentionShape& shape : AttentionShapes()) Attention(dtype, shape);
      for (const kernels::ProductShape& shape : ProductShapes()) Product(dtype, shape);
      for (const kernels::AttentionShape& shape : DecodeShapes()) Decode(dtype, shape);
    }
    std::vector<std::string> models = options_.models;
    if (models.empty()) {
      const char* home = std::getenv("XDG_CACHE_HOME");
      const std::string cache = home != nullptr ? home : absl::StrCat(std::getenv("HOME"), "/.cache");
      models.push_back(cache + "/varifocal/bench-llama-30m");
      if (!WriteBenchModel(models[0])) {
        std::fprintf(stderr, "%s cannot be written\n", models[0].c_str());
        return 1;
      }
    }
    for (const std::string& model : models) {
      for (const DType dtype : {DType::kBF16, DType::kF32}) {
        if (!WholePrefill(model, dtype)) return 1;
      }
    }
    return options_.out.empty() || WriteBenchReport(options_.out, machine_, rows_) ? 0 : 1;
  }

 private:
  std::vector<kernels::AttentionShape> AttentionShapes() const {
    std::vector<kernels::AttentionShape> shapes;
    for (const int tokens : {std::min(8192, options_.longest), options_.longest}) {
      for (const auto& [dim, heads, kv_heads] : {std::tuple{64, 8, 4}, {128, 4, 2}, {256, 4, 1}}) {
        shapes.push_back({dim, heads, kv_heads, tokens});
      }
      if (options_.longest <= 8192) break;
    }
    return shapes;
  }
  std::vector<kernels::ProductShape> ProductShapes() const {
    return {{512, 512, 512}, {512, 512, 2816}, {512, 1408, 512}, {1, 512, 16384}, {1, 2048, 2048}};
  }
  std::vector<kernels::AttentionShape> DecodeShapes() const {
    const int keys = std::min(16384, options_.longest);
    return {{64, 8, 4, keys}, {128, 4, 2, keys}};
  }

  void MeasureMachine() {
    const auto best = [](DType dtype) { return kernels::cpu::AvailableIsas(dtype).back(); };
    isa_[0] = best(DType::kF32);
    isa_[1] = best(DType::kBF16);
    machine_ = BenchMachine{.cpu = kernels::CpuModelName(),
                            .isa_f32 = isa_[0],
                            .isa_bf16 = isa_[1],
                            .threads = options_.threads,
                            .peak_f32 = kernels::cpu::PeakOf(**kernels::cpu::ChooseKernels(isa_[0], DType::kF32)),
                            .peak_bf16 = kernels::cpu::PeakOf(**kernels::cpu::ChooseKernels(isa_[1], DType::kBF16)),
                            .read_bytes = kernels::cpu::ReadBandwidth()};
    std::printf("%s, %d threads; per thread and CPU second: f32 %.0f GF/s (%s), bf16 %.0f GF/s (%s), read %.1f GB/s\n",
                machine_.cpu.c_str(), machine_.threads, machine_.peak_f32 * 1e-9, isa_[0].c_str(),
                machine_.peak_bf16 * 1e-9, isa_[1].c_str(), machine_.read_bytes * 1e-9);
  }

  // In turn, ours first; `amount` is what one run does (flops, bytes, tokens).
  void Case(BenchRow row, double amount, const std::string& request, const std::function<void()>& run) {
    std::vector<double> wall, cpu, peer_wall, peer_cpu;
    for (int round = 0; round < options_.rounds; ++round) {
      const PeerTiming ours = TimeOurs(run);
      wall.push_back(ours.wall_seconds);
      cpu.push_back(ours.cpu_seconds);
      const auto theirs = peer_ == nullptr ? std::nullopt : peer_->Time(request);
      if (!theirs.has_value()) continue;
      peer_wall.push_back(theirs->wall_seconds);
      peer_cpu.push_back(theirs->cpu_seconds);
      row.peer_log_probability = theirs->log_probability;
    }
    row.wall_seconds = Median(wall);
    row.cpu_seconds = Median(cpu);
    row.peer_wall_seconds = Median(peer_wall);
    row.peer_cpu_seconds = Median(peer_cpu);
    row.amount = amount;
    std::printf("%s\n", BenchLine(row).c_str());
    std::fflush(stdout);
    rows_.push_back(row);
  }

  double Peak(DType dtype) const { return dtype == DType::kF32 ? machine_.peak_f32 : machine_.peak_bf16; }
  const std::string& Isa(DType dtype) const { return isa_[dtype == DType::kF32 ? 0 : 1]; }

  void Attention(DType dtype, const kernels::AttentionShape& shape) {
    kernels::AttentionBench bench(Isa(dtype), dtype, options_.threads, shape);
    bench.Begin(kernels::Phase::kPrefill, shape.tokens - kernels::kChunk, kernels::kChunk);
    bench.Attend();
    const double error = bench.ErrorOfRow(kernels::kChunk - 1, shape.tokens - 1);
    const double flops = 2.0 * shape.head_dim * shape.query_heads * shape.tokens * (shape.tokens + 1.0);
    Case({.name = absl::StrFormat("prefill attention, d %d, %d over %d heads, %d tokens", shape.head_dim,
                                  shape.query_heads, shape.kv_heads, shape.tokens),
          .dtype = DTypeName(dtype),
          .unit = "GF/s",
          .limit = Peak(dtype),
          .right = error <= kernels::AttentionErrorMax(dtype)},
         flops,
         absl::StrFormat("attention %d %d %d %d %s", shape.head_dim, shape.query_heads, shape.kv_heads, shape.tokens,
                         DTypeName(dtype)),
         [&] { bench.Prefill(); });
  }

  void Decode(DType dtype, const kernels::AttentionShape& shape) {
    kernels::AttentionBench bench(Isa(dtype), dtype, options_.threads, shape);
    bench.Begin(kernels::Phase::kDecode, shape.tokens - 1, 1);
    bench.Attend();
    const double error = bench.ErrorOfRow(0, shape.tokens - 1);
    const double bytes = 2.0 * static_cast<double>(DTypeBytes(dtype)) * shape.tokens * shape.kv_heads * shape.head_dim;
    Case({.name = absl::StrFormat("decode attention, d %d, %d over %d heads, %d keys", shape.head_dim,
                                  shape.query_heads, shape.kv_heads, shape.tokens),
          .dtype = DTypeName(dtype),
          .unit = "GB/s",
          .limit = machine_.read_bytes,
          .right = error <= kernels::AttentionErrorMax(dtype)},
         bytes,
         absl::StrFormat("decode %d %d %d %d %s", shape.head_dim, shape.query_heads, shape.kv_heads, shape.tokens,
                         DTypeName(dtype)),
         [&] { bench.Attend(); });
  }

  void Product(DType dtype, const kernels::ProductShape& shape) {
    kernels::ProductBench bench(Isa(dtype), dtype, options_.threads, shape);
    bench.Run();
    const bool one_row = shape.rows == 1;
    Case({.name = absl::StrFormat("product, %d row%s, K %d, N %d", shape.rows, one_row ? "" : "s", shape.inner,
                                  shape.outputs),
          .dtype = DTypeName(dtype),
          .unit = one_row ? "GB/s" : "GF/s",
          .limit = one_row ? machine_.read_bytes : Peak(dtype),
          .right = bench.IsRight()},
         one_row ? static_cast<double>(DTypeBytes(dtype)) * shape.inner * shape.outputs : shape.flops(),
         absl::StrFormat("product %d %d %d %s", shape.rows, shape.inner, shape.outputs, DTypeName(dtype)),
         [&] { bench.Run(); });
  }

  // One prompt after another through the engine, each scored by the log-probability of token 0 behind it.
  bool WholePrefill(const std::string& directory, DType dtype) {
    auto model = LoadModel(directory, {.device = "cpu", .dtype = DTypeName(dtype), .threads = options_.threads});
    if (!model.ok()) {
      std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
      return false;
    }
    std::vector<int64_t> lengths;
    for (const int tokens : {512, 2048, 8192, 16384, 32768}) {
      if (tokens <= options_.longest) lengths.push_back(tokens);
    }
    auto engine = Engine::Create(
        *model,
        {.kv_cache_bytes = (lengths.back() / 128 + 8) * (*model)->provenance().page_bytes, .prefix_cache = false});
    if (!engine.ok()) {
      std::fprintf(stderr, "%s\n", engine.status().ToString().c_str());
      return false;
    }
    const std::string name = directory.substr(directory.rfind('/') + 1);
    for (const int64_t tokens : lengths) {
      EngineRequest request;
      for (int64_t i = 0; i < tokens; ++i) {
        request.token_ids.push_back(static_cast<int32_t>((7 + 7919 * i) % (*model)->config().vocabulary_size));
      }
      request.work = ScoreContinuationsWork{.continuations = {{0}}};
      double log_probability = 0;
      Case({.name = absl::StrCat("whole prefill, ", name, ", ", tokens, " tokens"),
            .dtype = DTypeName(dtype),
            .unit = "tokens/s",
            .model = name,
            .tokens = tokens,
            .right = true},
           static_cast<double>(tokens), absl::StrCat("prefill ", directory, " ", tokens, " ", DTypeName(dtype)), [&] {
             auto result = (*engine)->Run(request);
             VF_CHECK(result.ok(), "a prompt that fits");
             log_probability = result->log_likelihood;
           });
      BenchRow& row = rows_.back();
      row.log_probability = log_probability;
      // bf16 rounds what every layer hands on to 2^-9; both sides do, in other places.
      const double allowed = dtype == DType::kBF16 ? 0.1 : 2e-3;
      if (row.peer_wall_seconds > 0 && !(std::fabs(log_probability - row.peer_log_probability) <= allowed)) {
        row.right = false;
        std::printf("  log-probability %.5f where the peer has %.5f\n", log_probability, row.peer_log_probability);
      }
    }
    return true;
  }

  const Options options_;
  BenchMachine machine_;
  std::string isa_[2];  // of f32 and bf16
  std::unique_ptr<BenchPeer> peer_;
  std::vector<BenchRow> rows_;
};

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) {
  varifocal::Options options;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--python=")) {
      options.python = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--out=")) {
      options.out = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--model=")) {
      options.models.emplace_back(argument);
    } else if (absl::ConsumePrefix(&argument, "--threads=")) {
      options.threads = std::atoi(std::string(argument).c_str());
    } else if (absl::ConsumePrefix(&argument, "--rounds=")) {
      options.rounds = std::atoi(std::string(argument).c_str());
    } else if (absl::ConsumePrefix(&argument, "--longest=")) {
      options.longest = std::atoi(std::string(argument).c_str()) / 512 * 512;
    } else {
      std::fprintf(
          stderr,
          "usage: cpu_bench [--python=PATH] [--threads=2] [--rounds=3] [--longest=32768] [--model=DIRECTORY].. "
          "[--out=PREFIX]\n");
      return 2;
    }
  }
  if (options.threads < 1 || options.rounds < 1 || options.longest < 512) {
    std::fprintf(stderr, "threads and rounds are at least 1, the longest case at least 512 tokens\n");
    return 2;
  }
  return varifocal::CpuBench(options).Run();
}
