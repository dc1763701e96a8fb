// Times the cells of docs/gpu/README.md through the Backend interface, each checked before it is timed.
//
//   gpu_bench [--device=cuda:0|emulated] [--tiny] [--rounds=5] [--cell=PART] [--seconds=N] [--scratch=DIR] [--serve]
//             [--attention-kernel=auto|mma|sm90[:items=N|:turns=off|:sections=off][:focus=gathered]] [--product-kernel=auto|library|sm90]
//             [--decode-kernels=auto|fused|separate[:prefetch=off]]
//   gpu_bench --plans [--device=cuda:0] [--cell=PART] [--seconds=N]     rows of product_plans.h, measured (plan_search.h)
//   gpu_bench --predict[=h100|h200]     what the attention kernel sm90, attention by groups with gathered keys, decode steps and
//                                       whole prompts are expected to take; needs no device
//
// Prints one JSON object per line: first {"cells": [...]}, then one per cell and round. With --serve it prints the
// cells and then, for each cell name read from standard input, runs one round of it, so that a driver can alternate
// with other programs; "NAME hang|crash|wrong" does that instead, to rehearse what a driver then reports. Cells that do
// not start within --seconds are listed as left out. Exit 0: success; 1: a wrong result; 2: invalid usage; 3: no device.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <set>

#include "kernels/cuda/attention_choice.h"
#include "kernels/cuda/bench/bench.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"

namespace varifocal::kernels::cuda {
namespace {

struct Flags {
  std::string device = "cuda:0", cell, scratch, kernel = "auto", products = "auto", decode = "auto", predict;
  bool tiny = false, serve = false, plans = false;
  int rounds = 5;
  double seconds = 1e9;
};

// Escapes a string for JSON.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return quoted + "\"";
}

// The library's algorithms that the products of the cells run (product_plans.h).
std::vector<std::string> PlanNotes(ProductLibrary* library, const std::vector<Cell>& cells) {
  std::vector<std::string> notes;
  if (library == nullptr) return notes;
  std::set<std::pair<int, int>> seen;
  for (const Cell& cell : cells) {
    if (cell.kind != "product" || !seen.insert({cell.outputs, cell.inner}).second) continue;
    for (const ProductType type : {ProductType::kBf16, ProductType::kF32}) {
      const int plan =
          library->MakePlan({.outputs = cell.outputs, .inner = cell.inner, .weight_stride = cell.inner, .type = type});
      notes.push_back("plan " + (plan < 0 ? "none: our own kernel" : library->PlanText(plan)));
    }
  }
  return notes;
}

void PrintCells(const BackendInfo& info, const BenchPlace& place, const std::vector<Cell>& cells) {
  std::printf("{\"device\": %s, \"backend\": %s, \"notes\": [", Quoted(info.device).c_str(), Quoted(info.name).c_str());
  std::vector<std::string> notes = info.notes;
  for (const std::string& note : PlanNotes(place.runtime.products(), cells)) notes.push_back(note);
  for (size_t i = 0; i < notes.size(); ++i) std::printf("%s%s", i == 0 ? "" : ", ", Quoted(notes[i]).c_str());
  std::printf("], \"scratch\": %s, \"cells\": [", Quoted(place.scratch).c_str());
  for (size_t i = 0; i < cells.size(); ++i) {
    const Cell& c = cells[i];
    std::printf("%s{\"cell\": \"%s\", \"kind\": \"%s\"", i == 0 ? "" : ", ", c.name.c_str(), c.kind.c_str());
    const std::pair<const char*, int> numbers[] = {
        {"heads", c.heads},        {"kv_heads", c.kv_heads},    {"head_dim", c.head_dim},
        {"rows", c.rows},          {"context", c.context},      {"sequences", c.sequences},
        {"ragged", c.ragged},      {"shared", c.shared_prefix}, {"scale", static_cast<int>(c.scale)},
        {"groups", c.group_count}, {"inner", c.inner},          {"outputs", c.outputs},
        {"total", c.total},        {"vocab", c.model.vocab},    {"tau", c.learned_tau},
        {"draws", c.draws},        {"graphs", c.graphs}};
    for (const auto& [name, number] : numbers) std::printf(", \"%s\": %d", name, number);
    std::printf(", \"model\": \"%s\"}", c.model.name == nullptr ? "" : c.model.name);
  }
  std::printf("]}\n");
}

// A wrong result has no time.
bool Print(const Cell& cell, Outcome outcome) {
  if (outcome.wrong.empty() && !(outcome.error <= outcome.error_max))
    outcome.wrong = "errs by " + std::to_string(outcome.error) + ", above " + std::to_string(outcome.error_max);
  const bool right = outcome.wrong.empty();
  if (!std::isfinite(outcome.error)) outcome.error = 1e300;  // JSON has no other numbers
  const auto rate = [&](double amount, double unit) { return right ? amount / outcome.seconds * unit : 0.0; };
  std::printf(
      "{\"cell\": \"%s\", \"right\": %s, \"error\": %.3g, \"ms\": %.6g, \"tflops\": %.5g, \"gbps\": %.5g, "
      "\"flops\": %.6g, \"bytes\": %.6g",
      cell.name.c_str(), right ? "true" : "false", outcome.error, right ? outcome.seconds * 1e3 : 0.0,
      rate(outcome.flops, 1e-12), rate(outcome.bytes, 1e-9), outcome.flops, outcome.bytes);
  for (const auto& [name, number] : outcome.more) std::printf(", \"%s\": %.6g", name.c_str(), right ? number : 0.0);
  for (size_t i = 0; i < outcome.parts.size() && right; ++i) {
    const Part& part = outcome.parts[i];
    std::printf("%s{\"op\": \"%s\", \"us\": %.6g, \"bytes\": %.6g, \"flops\": %.6g, \"share\": %.4g}%s",
                i == 0 ? ", \"ops\": [" : ", ", part.name.c_str(), part.seconds * 1e6, part.bytes, part.flops,
                part.seconds / outcome.seconds, i + 1 == outcome.parts.size() ? "]" : "");
  }
  if (!right) std::printf(", \"wrong\": %s", Quoted(outcome.wrong).c_str());
  if (!outcome.logits.empty()) {
    std::printf(", \"logits\": [");
    for (size_t i = 0; i < std::min<size_t>(256, outcome.logits.size()); ++i)
      std::printf("%s%.9g", i == 0 ? "" : ", ", static_cast<double>(outcome.logits[i]));
    std::printf("]");
  }
  std::printf("}\n");
  return right;
}

void PrintRefused(const Cell& cell, const std::string& why) {
  std::printf("{\"cell\": \"%s\", \"refused\": %s}\n", cell.name.c_str(), Quoted(why).c_str());
}

// Rounds of one cell run in sequence; its memory is freed before the next cell allocates.
class Turns {
 public:
  explicit Turns(const BenchPlace& place) : place_(place) {}
  bool Round(const Cell& cell, const std::string& injected = "") {
    bool right = true;
    if (injected == "hang") pause();
    if (injected == "crash") std::raise(SIGSEGV);
    try {
      if (cell.name != prepared_) {
        bench_.reset();
        prepared_.clear();
        bench_ = MakeBench(place_, cell);
        prepared_ = cell.name;
      }
      Outcome outcome = bench_->Round();
      if (injected == "wrong") outcome.error = INFINITY;
      right = Print(cell, std::move(outcome));
    } catch (const CellRefused& refused) {
      bench_.reset();
      prepared_.clear();
      PrintRefused(cell, refused.why);
    }
    std::fflush(stdout);
    return right;
  }

 private:
  const BenchPlace place_;
  std::unique_ptr<Bench> bench_;
  std::string prepared_;
};

bool Serve(const std::vector<Cell>& cells, Turns& turns) {
  bool right = true;
  for (std::string line; std::getline(std::cin, line);) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space), injected = space == line.npos ? "" : line.substr(space + 1);
    const auto cell = std::find_if(cells.begin(), cells.end(), [&](const Cell& c) { return c.name == name; });
    if (cell == cells.end()) {
      PrintRefused({.name = "?"}, "there is no cell " + name);
      std::fflush(stdout);
    } else {
      right = turns.Round(*cell, injected) && right;
    }
  }
  return right;
}

bool RunAll(const std::vector<Cell>& cells, const Flags& flags, Turns& turns) {
  const auto started = std::chrono::steady_clock::now();
  bool right = true;
  for (const Cell& cell : cells) {
    if (cell.name.find(flags.cell) == std::string::npos) continue;
    for (int round = 0; round < flags.rounds; ++round) {
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() > flags.seconds) {
        if (round == 0) PrintRefused(cell, "left out for lack of time");
        break;
      }
      right = turns.Round(cell) && right;
    }
  }
  return right;
}

int Main(const Flags& flags) {
  if (!flags.predict.empty()) {
    auto choice = ChooseAttention(flags.kernel == "auto" ? "sm90" : flags.kernel, 90);
    if (!choice.ok()) {
      std::fprintf(stderr, "error: %s\n", choice.error().message.c_str());
      return 2;
    }
    const auto* rates = std::find_if(std::begin(kDeviceRates), std::end(kDeviceRates),
                                     [&](const DeviceRates& row) { return flags.predict == row.name; });
    if (rates == std::end(kDeviceRates)) {
      std::fprintf(stderr, "error: --predict=%s is none of h100, h200\n", flags.predict.c_str());
      return 2;
    }
    const std::vector<Cell> cells = Cells(/*tiny=*/false);
    PrintPredictions(cells, choice->tuning, *rates);
    PrintGatherPredictions(*rates);
    PrintModelPredictions(cells, choice->tuning, *rates);
    PrintPromptPredictions(*rates);
    return 0;
  }
  std::unique_ptr<Runtime> runtime;
  int index = 0;
  if (flags.device == "emulated") {
    runtime = MakeEmulatedRuntime(std::make_shared<EmulatedMachine>());
  } else if (flags.device.rfind("cuda:", 0) == 0) {
#if defined(VARIFOCAL_HAS_CUDA)
    runtime = MakeDeviceRuntime();
    index = std::atoi(flags.device.c_str() + 5);
#endif
  }
  if (runtime == nullptr) {
    std::fprintf(stderr,
                 "error: this program was built without CUDA, or \"%s\" is none of emulated, cuda:0, cuda:1 ..\n",
                 flags.device.c_str());
    return 3;
  }
  Runtime& clock = *runtime;
  auto backend = CreateBackendOn(std::move(runtime), index,
                                 {.dtype = DType::kBF16,
                                  .cuda_graphs = true,
                                  .attention_kernel = flags.kernel,
                                  .product_kernel = flags.products,
                                  .decode_kernels = flags.decode});
  if (!backend.ok()) {
    std::fprintf(stderr, "error: %s\n", backend.error().message.c_str());
    return 3;
  }
  const std::filesystem::path scratch =
      flags.scratch.empty() ? std::filesystem::temp_directory_path() / ("gpu_bench_" + std::to_string(getpid()))
                            : std::filesystem::path(flags.scratch);
  const BenchPlace place{**backend, clock, flags.tiny, scratch.string()};
  if (flags.plans) {
    if (clock.products() == nullptr) {
      std::printf("skipped: there is no product library, so there are no plans to record\n");
    } else {
      std::printf("// %s, %s\n", (*backend)->info().device.c_str(), clock.products()->name().c_str());
      return PrintPlans(place, flags.cell, flags.seconds) ? 0 : 1;
    }
    return 0;
  }
  const std::vector<Cell> cells = Cells(flags.tiny);
  PrintCells((*backend)->info(), place, cells);
  std::fflush(stdout);
  bool right;
  {
    Turns turns(place);
    right = flags.serve ? Serve(cells, turns) : RunAll(cells, flags, turns);
  }
  std::error_code ignored;
  if (flags.scratch.empty()) std::filesystem::remove_all(scratch, ignored);
  return right ? 0 : 1;
}

}  // namespace
}  // namespace varifocal::kernels::cuda

int main(int argc, char** argv) {
  using varifocal::kernels::cuda::Flags;
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&](const char* name) {
      return flag.rfind(name, 0) == 0 ? argv[i] + std::string(name).size() : nullptr;
    };
    if (flag == "--tiny") {
      flags.tiny = true;
    } else if (flag == "--serve") {
      flags.serve = true;
    } else if (flag == "--plans") {
      flags.plans = true;
    } else if (flag == "--predict") {
      flags.predict = varifocal::kernels::cuda::kDeviceRates[0].name;
    } else if (const char* predicted = value("--predict=")) {
      flags.predict = *predicted == 0 ? "\"\"" : predicted;
    } else if (const char* device = value("--device=")) {
      flags.device = device;
    } else if (const char* rounds = value("--rounds=")) {
      flags.rounds = std::max(1, std::atoi(rounds));
    } else if (const char* seconds = value("--seconds=")) {
      flags.seconds = std::atof(seconds);
    } else if (const char* scratch = value("--scratch=")) {
      flags.scratch = scratch;
    } else if (const char* kernel = value("--attention-kernel=")) {
      flags.kernel = kernel;
    } else if (const char* products = value("--product-kernel=")) {
      flags.products = products;
    } else if (const char* decode = value("--decode-kernels=")) {
      flags.decode = decode;
    } else if (const char* cell = value("--cell=")) {
      flags.cell = cell;
    } else {
      std::fprintf(
          stderr,
          "error: unknown flag %s; the flags are --device= --tiny --serve --rounds= --seconds= --scratch= --cell= "
          "--attention-kernel= --product-kernel= --decode-kernels= --plans --predict --predict=\n",
          argv[i]);
      return 2;
    }
  }
  return varifocal::kernels::cuda::Main(flags);
}
