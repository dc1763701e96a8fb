// The performance goals of the CPU backend, as a table, and their evaluation on the rows of cpu_bench.
//
// A goal is evaluated on its worst row. A ratio to a peer is the smaller of those of wall and CPU seconds, so that a peer
// that spins while waiting does not inflate it; for one thread that of CPU seconds, where both are known: such rows may
// be measured on a busy machine.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/report.h"

namespace varifocal {

struct BenchGoal {
  const char* what;
  const char* section;
  const char* dtype;  // "": either
  bool avx2_alone;
  int64_t tokens_min;
  const char* peer;  // "": none
  double times;
  double of_limit;  // 0: none
};

inline constexpr BenchGoal kBenchGoals[] = {
    {"prefill attention, bf16", "attention", "bf16", false, 8192, "PyTorch", 2.2, 0.8},
    {"prefill attention, f32", "attention", "f32", false, 8192, "PyTorch", 1.2, 0.75},
    {"prefill attention, f32, AVX2 alone", "attention", "f32", true, 8192, "PyTorch", 1.2, 0.7},
    {"products of 512 rows, f32, AVX2 alone", "products", "f32", true, 512, "PyTorch", 1.2, 0.8},
    {"whole prefill, 30M LLaMA, f32, AVX2 alone", "prefill", "f32", true, 8192, "transformers", 1.4, 0},
    {"whole prefill, 30M LLaMA, bf16", "prefill", "bf16", false, 8192, "transformers", 2, 0},
    {"whole prefill, 30M LLaMA, f32", "prefill", "f32", false, 8192, "transformers", 1.4, 0},
    {"whole prefill, 30M LLaMA", "prefill", "", false, 8192, "llama.cpp", 2, 0},
    {"Gemma 3 270M, 8K prefill", "models", "", false, 8192, "transformers", 4, 0},
    {"decode, 30M LLaMA, depth 16K", "decode", "", false, 16384, "llama.cpp", 2, 0.8},
    {"thousand short questions on one 16K context", "questions", "", false, 16384, "cold", 50, 0},
};

inline std::string GoalLine(const BenchGoal& goal, const std::vector<BenchRow>& rows) {
  const std::string peer_name = goal.peer;
  const BenchRow *slowest = nullptr, *farthest = nullptr;
  double times = 1e30, of_limit = 1e30;
  int count = 0;
  for (const BenchRow& row : rows) {
    if (row.section != goal.section || (goal.dtype[0] != 0 && row.dtype != goal.dtype) ||
        (row.isa == "avx2") != goal.avx2_alone || row.tokens < goal.tokens_min || !row.right) {
      continue;
    }
    if (goal.of_limit > 0 && row.of_limit() < of_limit) {
      of_limit = row.of_limit();
      farthest = &row;
    }
    for (const BenchFigure& peer : row.peers) {
      if (peer.who != peer_name || peer.wall_seconds <= 0) continue;
      const double by_cpu = peer.cpu_seconds > 0 ? CpuRatio(row, peer) : 1e30;
      const double ratio = row.threads == 1 && peer.cpu_seconds > 0 ? by_cpu : std::min(WallRatio(row, peer), by_cpu);
      ++count;
      if (ratio < times) {
        times = ratio;
        slowest = &row;
      }
    }
  }
  const auto at = [](const BenchRow& row) {
    return absl::StrFormat("%s, %s, %d thread%s", row.name, row.dtype, row.threads, row.threads == 1 ? "" : "s");
  };
  std::string wanted = absl::StrFormat("%.2g x %s", goal.times, peer_name), found, where;
  if (slowest != nullptr) {
    found = absl::StrFormat("%.2f x", times);
    where = at(*slowest);
  }
  if (goal.of_limit > 0) {
    absl::StrAppendFormat(&wanted, ", %.2f of peak", goal.of_limit);
    if (farthest != nullptr) {
      absl::StrAppendFormat(&found, "%s%.2f of peak", found.empty() ? "" : ", ", of_limit);
      if (farthest != slowest) absl::StrAppend(&where, where.empty() ? "" : "; ", at(*farthest));
    }
  }
  const bool measured = slowest != nullptr;
  const bool met = times >= goal.times && (goal.of_limit == 0 || of_limit >= goal.of_limit);
  return absl::StrFormat("| %s | %s | %s | %s | %d | %s |\n", goal.what, wanted, found, where, count,
                         !measured ? "not measured"
                         : met     ? "met"
                                   : "missed");
}

inline std::string GoalTable(const std::vector<BenchRow>& rows) {
  std::string text =
      "| goal | at least | worst row | which | rows | |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (const BenchGoal& goal : kBenchGoals) text += GoalLine(goal, rows);
  return text;
}

}  // namespace varifocal
