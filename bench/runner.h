// Common parts of cpu_bench's sections: the machine's limits, alternating timing with peers, a plan with an estimate of
// the remaining time, and the report after every case.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/goals.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "bench/svg.h"
#include "kernels/cpu/bench_machine.h"
#include "kernels/host_memory.h"
#include "kernels/tensor.h"

namespace varifocal {

using kernels::DType;

inline constexpr double kCaseSeconds = 60, kCaseSecondsMin = 3;  // fewer rounds beyond, more below
// A round repeats a shorter case up to this time: a single call of a few milliseconds measures the processor's caches and
// clock after an idle time, in which the other program ran, and not the kernel. Cases limited by reading from memory are
// not repeated, which would leave their data in caches.
inline constexpr double kRoundSeconds = 0.1;

struct BenchOptions {
  std::string python, llama_cpp, out, isa;
  std::vector<std::string> only, formats = {"bf16", "f32"}, models;
  int threads = 2, rounds = 3;
  std::vector<int> lengths = {2048, 8192, 16384, 32768};  // contexts, in tokens
};

inline double Seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

// Seconds of one of `repeats` calls in succession.
inline PeerTiming TimeOurs(const std::function<void()>& run, int repeats = 1) {
  const double wall = Seconds(CLOCK_MONOTONIC), cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < repeats; ++i) run();
  return {(Seconds(CLOCK_MONOTONIC) - wall) / repeats, (Seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / repeats};
}

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

class BenchRunner {
 public:
  explicit BenchRunner(const BenchOptions& options) : options_(options) {
    // One thread: ours and the peer's on the same core, whose speed depends on what other guests do.
    if (options.threads == 1) {
      cpu_set_t core;
      CPU_ZERO(&core);
      CPU_SET(sched_getcpu(), &core);
      if (sched_setaffinity(0, sizeof core, &core) != 0) std::perror("sched_setaffinity");
    }
    if (options.python.empty()) return;
    // Restricts peers to the same instruction set by their libraries' environment variables.
    if (options.isa == "avx2") {
      setenv("ATEN_CPU_CAPABILITY", "avx2", 1);
      setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
      setenv("MKL_ENABLE_INSTRUCTIONS", "AVX2", 1);
    }
    std::vector<std::string> command = {options.python, "recipes/bench_peers.py",
                                        absl::StrCat("--threads=", options.threads)};
    if (!options.llama_cpp.empty()) command.push_back("--llama-cpp=" + options.llama_cpp);
    peer_ = std::make_unique<BenchPeer>(command);
  }

 protected:
  struct Planned {
    double expected_s;
    std::function<bool()> run;
  };
  struct Ask {
    std::string who, request;
  };

  bool MeasureMachine() {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::string isa = options_.isa.empty() ? kernels::cpu::AvailableIsas(dtype).back() : options_.isa;
      auto kernels = kernels::cpu::ChooseKernels(isa, dtype);
      if (!kernels.ok()) {
        std::fprintf(stderr, "%s\n", kernels.error().message.c_str());
        return false;
      }
      isa_[dtype == DType::kBF16] = isa;
      peak_[dtype == DType::kBF16] = kernels::cpu::PeakOf(**kernels);
    }
    read_bytes_ = kernels::cpu::ReadBandwidth();
    // All at once: the threads share the memory bandwidth.
    std::vector<double> shares(options_.threads);
    std::vector<std::thread> readers;
    for (double& share : shares) readers.emplace_back([&share] { share = kernels::cpu::ReadBandwidth(); });
    for (std::thread& reader : readers) reader.join();
    const double together = std::accumulate(shares.begin(), shares.end(), 0.0);
    machine_ = absl::StrFormat(
        "%s; one thread, per CPU second: f32 %.0f GF/s (%s), bf16 %.0f GF/s (%s), read %.1f GB/s (%d at once %.1f)",
        kernels::CpuModelName(), peak_[0] * 1e-9, isa_[0], peak_[1] * 1e-9, isa_[1], read_bytes_ * 1e-9,
        options_.threads, together * 1e-9);
    std::printf("%s\n", machine_.c_str());
    return true;
  }

  // Runs the plan. The remaining time is extrapolated from the ratio of actual to expected time so far.
  bool Measure(const std::vector<std::string>& sections) {
    double expected_left = 0, expected_done = 0;
    for (const Planned& planned : planned_) expected_left += planned.expected_s;
    std::printf("%zu cases, about %.0f s\n", planned_.size(), expected_left);
    const double begin = Seconds(CLOCK_MONOTONIC);
    for (size_t i = 0; i < planned_.size(); ++i) {
      if (!planned_[i].run()) return false;
      expected_done += planned_[i].expected_s;
      expected_left -= planned_[i].expected_s;
      const double took = Seconds(CLOCK_MONOTONIC) - begin;
      std::printf("  %zu of %zu cases, %.0f s elapsed, about %.0f s left\n", i + 1, planned_.size(), took,
                  took * expected_left / expected_done);
      std::fflush(stdout);
      if (!options_.out.empty() && !WriteReport(sections)) return false;
    }
    return true;
  }

  // The machine's line is kept for each instruction set.
  bool WriteReport(const std::vector<std::string>& sections) const {
    BenchResults results = ReadBenchResults(options_.out + ".json");
    results.machines[isa_[1]] = machine_;
    results.rows = MergeBenchRows(std::move(results.rows), rows_, sections);
    std::string lines, machines;
    for (const BenchRow& row : results.rows)
      absl::StrAppend(&lines, lines.empty() ? "\n " : ",\n ", RowJson(row).dump());
    for (const auto& [isa, line] : results.machines) absl::StrAppend(&machines, line, ".\n\n");
    std::ofstream(options_.out + ".json")
        << "{\"machines\": " << Json(results.machines).dump() << ",\n\"rows\": [" << lines << "]}\n";
    std::ofstream text(options_.out + ".md");
    text << "# The CPU backend, measured\n\nFor researchers: written by `deploy/bench_cpu.sh`; [README.md](README.md) "
            "explains how to read it.\n\n"
         << machines << "## Goals\n\n"
         << GoalTable(results.rows) << "\n![tokens/s over context length](bench.svg)\n";
    for (const std::string& section : sections) text << SectionTable(results.rows, section);
    std::ofstream svg(options_.out + ".svg");
    svg << BenchSvg(results.rows);
    return text.good() && svg.good();
  }

  // Alternating, ours first, both with the same number of repeats per round. Returns the peers' last results, in request
  // order.
  std::vector<std::optional<PeerTiming>> Time(BenchRow row, const std::vector<Ask>& asks,
                                              const std::function<void()>& run) {
    std::vector<double> wall, cpu;
    std::vector<std::vector<double>> peer_wall(asks.size()), peer_cpu(asks.size());
    std::vector<std::optional<PeerTiming>> peer_timings(asks.size());
    const double begin = Seconds(CLOCK_MONOTONIC);
    const auto spent = [&] { return Seconds(CLOCK_MONOTONIC) - begin; };
    std::optional<PeerTiming> first = TimeOurs(run);
    const int repeats =
        row.limit == read_bytes_ ? 1 : static_cast<int>(std::ceil(kRoundSeconds / std::max(first->wall_seconds, 1e-6)));
    if (repeats > 1) first.reset();  // a warm-up
    while (row.rounds == 0 || (spent() < kCaseSeconds && (row.rounds < options_.rounds || spent() < kCaseSecondsMin))) {
      ++row.rounds;
      const PeerTiming ours = first.has_value() ? *std::exchange(first, std::nullopt) : TimeOurs(run, repeats);
      wall.push_back(ours.wall_seconds);
      cpu.push_back(ours.cpu_seconds);
      for (size_t i = 0; i < asks.size() && peer_ != nullptr; ++i) {
        peer_timings[i] = peer_->Time(absl::StrCat(repeats, " ", asks[i].request));
        if (!peer_timings[i].has_value()) continue;
        peer_wall[i].push_back(peer_timings[i]->wall_seconds);
        peer_cpu[i].push_back(peer_timings[i]->cpu_seconds);
      }
    }
    row.ours = {"Varifocal", Median(wall), Median(cpu)};
    for (size_t i = 0; i < asks.size(); ++i)
      row.peers.push_back({asks[i].who, Median(peer_wall[i]), Median(peer_cpu[i])});
    Add(std::move(row));
    return peer_timings;
  }

  void Add(BenchRow row) {
    std::printf("%s\n", BenchLine(row).c_str());
    std::fflush(stdout);
    rows_.push_back(std::move(row));
  }

  // The fields common to all rows of a section; `limited` of a limit of the machine.
  BenchRow Row(const std::string& section, DType dtype, std::string name, const char* unit, double amount,
               int64_t tokens) const {
    return {.section = section,
            .name = std::move(name),
            .dtype = DTypeName(dtype),
            .isa = isa_[dtype == DType::kBF16],
            .threads = options_.threads,
            .unit = unit,
            .tokens = tokens,
            .amount = amount,
            .limited = amount};
  }

  void Plan(double expected_s, std::function<bool()> run) { planned_.push_back({expected_s, std::move(run)}); }

  // Of the sections that have one context length.
  int Length(int at_most) const {
    return std::min(at_most, *std::max_element(options_.lengths.begin(), options_.lengths.end()));
  }

  const BenchOptions options_;
  std::string machine_, small_model_, experts_model_, hybrid_model_, section_;
  std::string isa_[2];  // of f32 and bf16
  double peak_[2] = {}, read_bytes_ = 0;
  std::unique_ptr<BenchPeer> peer_;
  std::vector<Planned> planned_;
  std::vector<BenchRow> rows_;
};

}  // namespace varifocal
