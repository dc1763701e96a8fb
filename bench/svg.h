// Tokens per second over context length as one SVG: a line per side and format, labelled at its end.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/report.h"

namespace varifocal {

struct BenchCurve {
  std::string label, colour;
  bool dashed = false;
  std::vector<std::pair<double, double>> points;  // context length, tokens/s
};

// Of the whole prefills with the most threads and this machine's best kernels.
inline std::vector<BenchCurve> PrefillCurves(const std::vector<BenchRow>& rows) {
  constexpr std::pair<const char*, const char*> kColours[] = {
      {"Varifocal", "#0b5fa5"}, {"transformers", "#c8501e"}, {"llama.cpp", "#3a7d34"}};
  int threads = 0;
  for (const BenchRow& row : rows) threads = row.section == "prefill" ? std::max(threads, row.threads) : threads;
  std::vector<BenchCurve> curves;
  for (const auto& [who, colour] : kColours) {
    for (const std::string dtype : {"bf16", "f32"}) {
      BenchCurve curve = {absl::StrCat(who, ", ", dtype), colour, dtype == "f32", {}};
      for (const BenchRow& row : rows) {
        if (row.section != "prefill" || row.dtype != dtype || row.threads != threads || row.isa == "avx2") continue;
        std::vector<BenchFigure> figures = row.peers;
        figures.push_back(row.ours);
        for (const BenchFigure& figure : figures) {
          if (figure.who != who || figure.wall_seconds <= 0) continue;
          curve.points.emplace_back(static_cast<double>(row.tokens), row.amount / figure.wall_seconds);
        }
      }
      if (!curve.points.empty()) curves.push_back(std::move(curve));
    }
  }
  return curves;
}

inline std::string BenchSvg(const std::vector<BenchRow>& rows) {
  std::vector<BenchCurve> curves = PrefillCurves(rows);
  if (curves.empty()) return "";
  constexpr double kLeft = 64, kRight = 560, kTop = 46, kBottom = 372, kLabel = 17;
  double low = 1e30, high = 0, shortest = 1e30, longest = 0;
  for (const BenchCurve& curve : curves) {
    for (const auto& [tokens, rate] : curve.points) {
      low = std::min(low, rate);
      high = std::max(high, rate);
      shortest = std::min(shortest, tokens);
      longest = std::max(longest, tokens);
    }
  }
  low *= 0.85, high *= 1.15;
  const auto x = [&](double tokens) {
    return kLeft + 14 +
           (kRight - kLeft - 28) * std::log(tokens / shortest) / std::max(1e-9, std::log(longest / shortest));
  };
  const auto y = [&](double rate) { return kBottom - (kBottom - kTop) * std::log(rate / low) / std::log(high / low); };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"430\" viewBox=\"0 0 760 430\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#333\">\n"
      "<rect width=\"760\" height=\"430\" fill=\"#fff\"/>\n";
  absl::StrAppendFormat(&svg,
                        "<text x=\"%.0f\" y=\"24\" font-size=\"15\" font-weight=\"600\">Prefill, tokens/s over "
                        "context length (30M LLaMA, CPU)</text>\n",
                        kLeft);
  for (double decade = 1; decade <= high; decade *= 10) {
    for (const double rate : {decade, 2 * decade, 5 * decade}) {
      if (rate < low || rate > high) continue;
      absl::StrAppendFormat(&svg,
                            "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e4e4e4\"/>"
                            "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n",
                            kLeft, kRight, y(rate), y(rate), kLeft - 8, y(rate) + 4.5, rate);
    }
  }
  for (double tokens = shortest; tokens <= longest * 1.01; tokens *= 2) {
    absl::StrAppendFormat(&svg,
                          "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\" stroke=\"#999\"/>"
                          "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%.0fK</text>\n",
                          x(tokens), x(tokens), kBottom, kBottom + 5, x(tokens), kBottom + 21, tokens / 1024);
  }
  absl::StrAppendFormat(&svg,
                        "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.0f\" y2=\"%.0f\" stroke=\"#999\"/>"
                        "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">tokens of context</text>\n",
                        kLeft, kRight, kBottom, kBottom, (kLeft + kRight) / 2, kBottom + 44);
  // Labels in the order of the curves' ends, shifted to avoid overlap.
  std::sort(curves.begin(), curves.end(),
            [](const BenchCurve& a, const BenchCurve& b) { return a.points.back().second > b.points.back().second; });
  double label_y = 0;
  for (const BenchCurve& curve : curves) {
    std::string path;
    for (const auto& [tokens, rate] : curve.points) absl::StrAppendFormat(&path, "%.1f,%.1f ", x(tokens), y(rate));
    absl::StrAppendFormat(&svg, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2.2\"%s points=\"%s\"/>\n",
                          curve.colour, curve.dashed ? " stroke-dasharray=\"6 4\"" : "", path);
    for (const auto& [tokens, rate] : curve.points) {
      absl::StrAppendFormat(&svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x(tokens), y(rate),
                            curve.colour);
    }
    const auto& [last, rate] = curve.points.back();
    label_y = std::max(label_y + kLabel, y(rate));
    absl::StrAppendFormat(&svg,
                          "<line x1=\"%.1f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"0.7\" "
                          "stroke-dasharray=\"1 3\"/><text x=\"%.0f\" y=\"%.1f\" fill=\"%s\">%s %.0f%s</text>\n",
                          x(last) + 5, kRight, y(rate), label_y, curve.colour, kRight + 4, label_y + 4.5, curve.colour,
                          curve.label, rate, last < longest ? absl::StrFormat(" at %.0fK", last / 1024) : "");
  }
  return svg + "</svg>\n";
}

}  // namespace varifocal
