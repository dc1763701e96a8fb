// What a run of cpu_bench found, as lines, JSON, a Markdown table and one SVG.
#pragma once

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace varifocal {

struct BenchMachine {
  std::string cpu, isa_f32, isa_bf16;
  int threads = 0;
  double peak_f32 = 0, peak_bf16 = 0;  // flops per CPU second of one thread
  double read_bytes = 0;               // the same, bytes from memory
};

struct BenchRow {
  std::string name, dtype, unit;
  double limit = 0;  // of the machine, per CPU second; 0: none stated
  std::string model;
  int64_t tokens = 0;  // of a whole prefill
  bool right = true;   // compared with float64, or with the peer
  double amount = 0;   // flops, bytes or tokens of one run
  double wall_seconds = 0, cpu_seconds = 0;
  double peer_wall_seconds = 0, peer_cpu_seconds = 0;  // 0: no peer
  double log_probability = 0, peer_log_probability = 0;

  double scale() const { return unit == "tokens/s" ? 1 : 1e-9; }
  double rate() const { return amount / cpu_seconds * scale(); }
  double peer_rate() const { return peer_cpu_seconds > 0 ? amount / peer_cpu_seconds * scale() : 0; }
  double ratio() const { return peer_cpu_seconds > 0 ? peer_cpu_seconds / cpu_seconds : 0; }
  double wall_ratio() const { return peer_wall_seconds > 0 ? peer_wall_seconds / wall_seconds : 0; }
  double of_limit() const { return limit > 0 ? amount / cpu_seconds / limit : 0; }
};

inline std::string BenchLine(const BenchRow& row) {
  std::string line = absl::StrFormat("%-52s %-4s %8.1f %s per CPU s, %.4f s", row.name, row.dtype, row.rate(), row.unit,
                                     row.wall_seconds);
  if (row.limit > 0) absl::StrAppendFormat(&line, ", %.2f of peak", row.of_limit());
  if (row.peer_cpu_seconds > 0) {
    absl::StrAppendFormat(&line, "; peer %.1f, %.4f s: %.2f times (wall %.2f)", row.peer_rate(), row.peer_wall_seconds,
                          row.ratio(), row.wall_ratio());
  }
  return row.right ? line : line + "; WRONG";
}

inline std::string BenchJson(const BenchMachine& machine, const std::vector<BenchRow>& rows) {
  std::string json = absl::StrFormat(
      "{\"cpu\": \"%s\", \"threads\": %d, \"isa_f32\": \"%s\", \"isa_bf16\": \"%s\", \"peak_f32\": %.4g, "
      "\"peak_bf16\": %.4g, \"read_bytes_per_s\": %.4g,\n \"rows\": [",
      machine.cpu, machine.threads, machine.isa_f32, machine.isa_bf16, machine.peak_f32, machine.peak_bf16,
      machine.read_bytes);
  const char* separator = "\n  ";
  for (const BenchRow& row : rows) {
    absl::StrAppendFormat(&json,
                          "%s{\"name\": \"%s\", \"dtype\": \"%s\", \"unit\": \"%s\", \"right\": %s, \"amount\": %.6g, "
                          "\"wall_s\": %.6g, \"cpu_s\": %.6g, \"peer_wall_s\": %.6g, \"peer_cpu_s\": %.6g, "
                          "\"of_peak\": %.4f}",
                          separator, row.name, row.dtype, row.unit, row.right ? "true" : "false", row.amount,
                          row.wall_seconds, row.cpu_seconds, row.peer_wall_seconds, row.peer_cpu_seconds,
                          row.of_limit());
    separator = ",\n  ";
  }
  return json + "]}\n";
}

inline std::string BenchMarkdown(const BenchMachine& machine, const std::vector<BenchRow>& rows) {
  std::string text = absl::StrFormat(
      "%s, %d threads. Per thread and CPU second: f32 %.0f GF/s (%s), bf16 %.0f GF/s (%s), read %.1f GB/s.\n\n"
      "| case | format | per CPU s | of peak | wall s | peer per CPU s | peer wall s | times (CPU) | times (wall) |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
      machine.cpu, machine.threads, machine.peak_f32 * 1e-9, machine.isa_f32, machine.peak_bf16 * 1e-9,
      machine.isa_bf16, machine.read_bytes * 1e-9);
  for (const BenchRow& row : rows) {
    absl::StrAppendFormat(&text, "| %s%s | %s | %.1f %s | %s | %.4f | ", row.name, row.right ? "" : " (WRONG)",
                          row.dtype, row.rate(), row.unit, row.limit > 0 ? absl::StrFormat("%.2f", row.of_limit()) : "",
                          row.wall_seconds);
    if (row.peer_cpu_seconds > 0) {
      absl::StrAppendFormat(&text, "%.1f | %.4f | %.2f | %.2f |\n", row.peer_rate(), row.peer_wall_seconds, row.ratio(),
                            row.wall_ratio());
    } else {
      text += " | | | |\n";
    }
  }
  return text;
}

// Tokens per wall second over context length, both axes logarithmic; a line per model, format and side.
inline std::string BenchSvg(const std::vector<BenchRow>& rows) {
  std::map<std::string, std::vector<std::pair<double, double>>> lines;
  double low = 1e30, high = 0, shortest = 1e30, longest = 0;
  for (const BenchRow& row : rows) {
    if (row.tokens == 0) continue;
    const double tokens = static_cast<double>(row.tokens);
    const auto add = [&](const char* who, double seconds) {
      if (seconds <= 0) return;
      lines[absl::StrCat(row.model, " ", row.dtype, ", ", who)].emplace_back(tokens, tokens / seconds);
      low = std::min(low, tokens / seconds);
      high = std::max(high, tokens / seconds);
    };
    shortest = std::min(shortest, tokens);
    longest = std::max(longest, tokens);
    add("Varifocal", row.wall_seconds);
    add("transformers", row.peer_wall_seconds);
  }
  if (lines.empty()) return "";
  constexpr double kLeft = 70, kRight = 460, kTop = 20, kBottom = 300;
  low = std::pow(10, std::floor(std::log10(low)));
  high = std::pow(10, std::ceil(std::log10(high)));
  const auto x = [&](double tokens) {
    return kLeft + (kRight - kLeft) * std::log(tokens / shortest) / std::max(1e-9, std::log(longest / shortest));
  };
  const auto y = [&](double rate) { return kBottom - (kBottom - kTop) * std::log(rate / low) / std::log(high / low); };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"350\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"760\" height=\"350\" fill=\"white\"/>\n";
  for (double rate = low; rate <= high * 1.01; rate *= 10) {
    absl::StrAppendFormat(&svg,
                          "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                          "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n",
                          kLeft, kRight, y(rate), y(rate), kLeft - 6, y(rate) + 4, rate);
  }
  for (double tokens = shortest; tokens <= longest * 1.01; tokens *= 2) {
    absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%.0f</text>\n", x(tokens),
                          kBottom + 18, tokens);
  }
  absl::StrAppendFormat(
      &svg, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">tokens of context; prefill, tokens/s</text>\n",
      (kLeft + kRight) / 2, kBottom + 38);
  constexpr const char* kColours[] = {"#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad",
                                      "#d68910", "#555555", "#16a085", "#a04000"};
  int index = 0;
  for (const auto& [label, points] : lines) {
    const char* colour = kColours[index % 8];
    std::string path;
    for (const auto& [tokens, rate] : points) absl::StrAppendFormat(&path, "%.1f,%.1f ", x(tokens), y(rate));
    absl::StrAppendFormat(&svg,
                          "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"%s\"/>"
                          "<text x=\"%.0f\" y=\"%d\" fill=\"%s\">%s</text>\n",
                          colour, path, kRight + 15, 30 + 18 * index, colour, label);
    ++index;
  }
  return svg + "</svg>\n";
}

inline bool WriteBenchReport(const std::string& prefix, const BenchMachine& machine,
                             const std::vector<BenchRow>& rows) {
  std::ofstream(prefix + ".json") << BenchJson(machine, rows);
  std::ofstream(prefix + ".md") << BenchMarkdown(machine, rows);
  std::ofstream svg(prefix + ".svg");
  svg << BenchSvg(rows);
  return svg.good();
}

}  // namespace varifocal
