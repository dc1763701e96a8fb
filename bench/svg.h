// Tokens per second over context length as one SVG: a line per side and format, labelled at its end.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/report.h"
#include "client/report/charts/plot.h"

namespace varifocal {

inline constexpr char kBenchStyle[] =
    "svg{font-family:system-ui,sans-serif;font-size:13px}text{fill:#333}.paper{fill:#fff}"
    ".title{font-size:15px;font-weight:600}.grid{stroke:#e4e4e4}.axis{stroke:#999}"
    ".ours{color:#0b5fa5}.transformers{color:#c8501e}.llama{color:#3a7d34}"
    "polyline{fill:none;stroke:currentColor;stroke-width:2.2}.open{stroke-dasharray:6 4}.mark,.label{fill:currentColor}"
    ".leader{stroke:currentColor;stroke-width:.7;stroke-dasharray:1 3}";

struct BenchCurve {
  std::string label, style;
  bool dashed = false;
  std::vector<std::pair<double, double>> points;  // context length, tokens/s
};

// Of the whole prefills with the most threads and this machine's best kernels.
inline std::vector<BenchCurve> PrefillCurves(const std::vector<BenchRow>& rows) {
  constexpr std::pair<const char*, const char*> kStyles[] = {
      {"Varifocal", "ours"}, {"transformers", "transformers"}, {"llama.cpp", "llama"}};
  int threads = 0;
  for (const BenchRow& row : rows) threads = row.section == "prefill" ? std::max(threads, row.threads) : threads;
  std::vector<BenchCurve> curves;
  for (const auto& [who, style] : kStyles) {
    for (const std::string dtype : {"bf16", "f32"}) {
      BenchCurve curve = {absl::StrCat(who, ", ", dtype), style, dtype == "f32", {}};
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
  using report::Place;
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
  report::Panel behind, values;  // pixels alone; tokens and rates
  values.x = {shortest, longest, kLeft + 14, kRight - 14, /*is_log=*/true};
  values.y = {0.85 * low, 1.15 * high, kBottom, kTop, /*is_log=*/true};
  const auto add = [&](report::Mark mark) { behind.marks.push_back(std::move(mark)); };
  const auto text = [&](const char* style, Place at, std::string value, const char* anchor = "") {
    add(report::TextMark(style, at, std::move(value), anchor));
  };
  add(report::CellMark("paper", {0, 0}, {760, 430}));
  text("title", {kLeft, 24}, "Prefill, tokens/s over context length (30M LLaMA, CPU)");
  for (double decade = 1; decade <= values.y.high; decade *= 10) {
    for (const double rate : {decade, 2 * decade, 5 * decade}) {
      if (rate < values.y.low || rate > values.y.high) continue;
      const double y = values.y.At(rate);
      add(report::SegmentMark("grid", {kLeft, y}, {kRight, y}));
      text("", {kLeft - 8, y + 4.5}, absl::StrFormat("%.0f", rate), "end");
    }
  }
  for (double tokens = shortest; tokens <= longest * 1.01; tokens *= 2) {
    const double x = values.x.At(tokens);
    add(report::SegmentMark("axis", {x, kBottom}, {x, kBottom + 5}));
    text("", {x, kBottom + 21}, absl::StrFormat("%.0fK", tokens / 1024), "middle");
  }
  add(report::SegmentMark("axis", {kLeft, kBottom}, {kRight, kBottom}));
  text("", {(kLeft + kRight) / 2, kBottom + 44}, "tokens of context", "middle");
  // Labels in the order of the curves' ends, shifted to avoid overlap.
  std::sort(curves.begin(), curves.end(),
            [](const BenchCurve& a, const BenchCurve& b) { return a.points.back().second > b.points.back().second; });
  double label_y = 0;
  for (const BenchCurve& curve : curves) {
    std::vector<report::Mark> marks;
    std::vector<Place> line;
    for (const auto& [tokens, rate] : curve.points) line.push_back({tokens, rate});
    marks.push_back(report::LineMark(curve.dashed ? "open" : "", line));
    for (const Place& place : line) marks.push_back(report::PointMark(0, /*is_hollow=*/false, place));
    values.marks.push_back(report::GroupMark(curve.style, "", std::move(marks)));
    const auto& [last, rate] = curve.points.back();
    label_y = std::max(label_y + kLabel, values.y.At(rate));
    add(report::GroupMark(
        curve.style, "",
        {report::SegmentMark("leader", {values.x.At(last) + 5, values.y.At(rate)}, {kRight, label_y}),
         report::TextMark("label", {kRight + 4, label_y + 4.5},
                          absl::StrFormat("%s %.0f%s", curve.label, rate,
                                          last < longest ? absl::StrFormat(" at %.0fK", last / 1024) : ""))}));
  }
  report::Plot plot;
  plot.width = 760;
  plot.height = 430;
  plot.title = "Prefill, tokens/s over context length";
  plot.style_sheet = kBenchStyle;
  plot.panels = {std::move(behind), std::move(values)};
  return report::Draw(plot);
}

}  // namespace varifocal
