#include "client/report/charts/attention_strip.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/report/charts/plot.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {
namespace {

constexpr double kWidth = 760, kLeft = 58, kRight = 66, kTop = 34, kBottom = 30;
constexpr double kRowHeight = 11, kLayerGap = 4;
// Masses from 2^-kOctaves to 1 are drawn in so many shades.
constexpr double kOctaves = 12;
constexpr int kShades = 12;
constexpr int kTicks = 4;
constexpr double kEvidenceWidthMin = 2;  // pixels

constexpr char kStyle[] =
    "svg{color-scheme:light dark;background:#fff;color:#1b1f24}text{font:10px sans-serif;fill:currentColor}"
    ".title{font-size:13px;font-weight:600}.mass{fill:#0b5fa5}.evidence{fill:#c2410c}.row{fill:#8884}"
    "@media(prefers-color-scheme:dark){svg{background:#14171b;color:#e7eaee}.mass{fill:#6db7f2}}";

int ShadeOf(double mass) {
  if (mass <= 0) return 0;
  return std::clamp<int>(std::ceil(kShades * (1 + std::log2(mass) / kOctaves)), 0, kShades);
}

}  // namespace

std::string DrawStrip(const std::string& title, const StripPlace& place, const std::vector<StripRow>& rows,
                      bool is_alone) {
  if (rows.empty() || place.token_count <= 0) return "";
  const double tokens = place.token_count, left = kLeft, right = kWidth - kRight;
  Panel texts, strip;  // pixels alone; tokens over pixels
  strip.x = {0, tokens, left, right};
  texts.marks.push_back(TextMark("title", {0, 13}, title));
  texts.marks.push_back(TextMark("tick", {kWidth, 27}, "on evidence", "end"));
  double y = kTop;
  for (size_t i = 0; i < rows.size(); ++i) {
    const StripRow& row = rows[i];
    if (i > 0 && rows[i - 1].layer != row.layer) y += kLayerGap;
    const double below = y + kRowHeight - 1;
    texts.marks.push_back(TextMark("tick", {left - 6, below - 1}, absl::StrCat("L", row.layer, " H", row.head), "end"));
    strip.marks.push_back(CellMark("row", {0, y}, {tokens, below}));
    const double bin_tokens = tokens / row.masses.size();
    for (size_t bin = 0; bin < row.masses.size();) {
      const int shade = ShadeOf(row.masses[bin]);
      size_t end = bin + 1;
      while (end < row.masses.size() && ShadeOf(row.masses[end]) == shade) ++end;
      if (shade > 0) {
        strip.marks.push_back(
            CellMark("mass", {bin_tokens * bin, y}, {bin_tokens * end, below}, static_cast<double>(shade) / kShades));
      }
      bin = end;
    }
    if (row.evidence_mass.has_value()) {
      texts.marks.push_back(
          TextMark("tick", {kWidth, below - 1}, absl::StrCat(Unsigned(*row.evidence_mass * 100, 1), " %"), "end"));
    }
    y += kRowHeight;
  }
  for (const auto& [begin, end] : place.evidence) {
    const double first = begin;
    const double last = std::max<double>(end, first + kEvidenceWidthMin * tokens / (right - left));
    strip.marks.push_back(CellMark("evidence", {first, kTop - 7}, {last, kTop - 2}));
    strip.marks.push_back(CellMark("evidence", {first, y}, {last, y + 3}));
  }
  for (int tick = 0; tick <= kTicks; ++tick) {
    const int64_t token = place.token_count * tick / kTicks;
    const double at = token;
    texts.marks.push_back(TextMark("tick", {strip.x.At(at), y + 16}, CountLabel(token),
                                   tick == kTicks ? "end"
                                   : tick == 0    ? ""
                                                  : "middle"));
  }
  texts.marks.push_back(TextMark("tick", {(left + right) / 2, y + 28}, "position in the prompt, tokens", "middle"));
  Plot plot;
  plot.width = kWidth;
  plot.height = y + kBottom;
  plot.title = title;
  plot.style = "chart strip";
  if (is_alone) plot.style_sheet = kStyle;
  plot.panels = {std::move(strip), std::move(texts)};
  return Draw(plot);
}

}  // namespace varifocal::report
