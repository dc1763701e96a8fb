#include "client/report/attention_strip.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "client/report/text_format.h"
#include "eval_tasks/attention_inspection.h"

namespace varifocal::report {
namespace {

constexpr double kWidth = 760, kLeft = 58, kRight = 66, kTop = 34, kBottom = 30;
constexpr double kRowHeight = 11, kLayerGap = 4;
// Masses from 2^-kOctaves to 1 are drawn in so many shades.
constexpr double kOctaves = 12;
constexpr int kShades = 12;
constexpr int kTicks = 4;

constexpr char kStyle[] =
    "<style>svg{color-scheme:light dark;background:#fff;color:#1b1f24}text{font:10px sans-serif;fill:currentColor}"
    ".title{font-size:13px;font-weight:600}.mass{fill:#0b5fa5}.evidence{fill:#c2410c}.row{fill:#8884}"
    "@media(prefers-color-scheme:dark){svg{background:#14171b;color:#e7eaee}.mass{fill:#6db7f2}}</style>";

int ShadeOf(double mass) {
  if (mass <= 0) return 0;
  return std::clamp<int>(std::ceil(kShades * (1 + std::log2(mass) / kOctaves)), 0, kShades);
}

std::string Rect(const char* style, double x, double y, double width, double height, const std::string& more = "") {
  return absl::StrFormat("<rect class=\"%s\" x=\"%.4g\" y=\"%.4g\" width=\"%.4g\" height=\"%.4g\"%s/>\n", style, x, y,
                         width, height, more);
}

std::string Text(const char* style, const char* anchor, double x, double y, const std::string& text) {
  return absl::StrFormat("<text class=\"%s\" text-anchor=\"%s\" x=\"%.4g\" y=\"%.4g\">", style, anchor, x, y) +
         EscapeHtml(text) + "</text>\n";
}

}  // namespace

absl::StatusOr<StripRow> ToStripRow(const db::AttentionHeadRecord& head) {
  absl::StatusOr<std::vector<double>> masses = DecodeStrip(head.strip);
  if (!masses.ok()) return absl::DataLossError(masses.status().message());
  return StripRow{head.layer, head.head, *std::move(masses), head.evidence_mass};
}

StripPlace PlaceOf(const db::SampleRecord& sample) {
  StripPlace place{sample.prompt_token_count.value_or(0), {}};
  const auto spans = ParseJson(sample.evidence_json.value_or("[]"));
  if (!spans.ok() || !spans->is_array()) return place;
  for (const Json& span : *spans) {
    if (!span.is_object()) continue;
    const Json begin = span.value("token_begin", Json()), end = span.value("token_end", Json());
    if (begin.is_number_integer() && end.is_number_integer())
      place.evidence.emplace_back(begin.get<int64_t>(), end.get<int64_t>());
  }
  return place;
}

std::vector<StripRow> StrongestOfEachLayer(const std::vector<StripRow>& rows) {
  std::vector<StripRow> strongest;
  for (const StripRow& row : rows) {
    if (strongest.empty() || strongest.back().layer != row.layer) {
      strongest.push_back(row);
    } else if (row.evidence_mass > strongest.back().evidence_mass) {
      strongest.back() = row;
    }
  }
  return strongest;
}

std::string DrawStrip(const std::string& title, const StripPlace& place, const std::vector<StripRow>& rows,
                      bool is_alone) {
  if (rows.empty() || place.token_count <= 0) return "";
  const double plot = kWidth - kLeft - kRight, tokens = place.token_count;
  const auto x_of = [&](double token) { return kLeft + plot * token / tokens; };
  std::string body = Text("title", "start", 0, 13, title);
  body += Text("tick", "end", kWidth, 27, "on evidence");
  double y = kTop;
  for (size_t i = 0; i < rows.size(); ++i) {
    const StripRow& row = rows[i];
    if (i > 0 && rows[i - 1].layer != row.layer) y += kLayerGap;
    body += Text("tick", "end", kLeft - 6, y + kRowHeight - 2, absl::StrCat("L", row.layer, " H", row.head));
    body += Rect("row", kLeft, y, plot, kRowHeight - 1);
    const double bins = row.masses.size();
    for (size_t bin = 0; bin < row.masses.size();) {
      const int shade = ShadeOf(row.masses[bin]);
      size_t end = bin + 1;
      while (end < row.masses.size() && ShadeOf(row.masses[end]) == shade) ++end;
      if (shade > 0) {
        body += Rect("mass", kLeft + plot * bin / bins, y, plot * (end - bin) / bins, kRowHeight - 1,
                     absl::StrFormat(" fill-opacity=\"%.2g\"", static_cast<double>(shade) / kShades));
      }
      bin = end;
    }
    if (row.evidence_mass.has_value())
      body +=
          Text("tick", "end", kWidth, y + kRowHeight - 2, absl::StrCat(Unsigned(*row.evidence_mass * 100, 1), " %"));
    y += kRowHeight;
  }
  for (const auto& [begin, end] : place.evidence) {
    const double x = x_of(begin), width = x_of(end) - x;
    body += Rect("evidence", x, kTop - 7, std::max(width, 2.0), 5);
    body += Rect("evidence", x, y, std::max(width, 2.0), 3);
  }
  for (int tick = 0; tick <= kTicks; ++tick) {
    const int64_t token = place.token_count * tick / kTicks;
    body += Text("tick",
                 tick == kTicks ? "end"
                 : tick == 0    ? "start"
                                : "middle",
                 x_of(token), y + 16, CountLabel(token));
  }
  body += Text("tick", "middle", kLeft + plot / 2, y + 28, "position in the prompt, tokens");
  return absl::StrCat("<svg class=\"chart strip\"", is_alone ? " xmlns=\"http://www.w3.org/2000/svg\"" : "",
                      " viewBox=\"0 0 ", kWidth, " ", std::lround(y + kBottom), "\" role=\"img\"><title>",
                      EscapeHtml(title), "</title>\n", is_alone ? kStyle : "", body, "</svg>\n");
}

}  // namespace varifocal::report
