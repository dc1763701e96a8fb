#include "client/report/charts/plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {
namespace {

constexpr double kLabelFontSize = 11.5;
constexpr int kShapeCount = 5;
constexpr double kPointRadius = 3.8, kRingRadius = 8.5;

// Advance widths of bold DejaVu Sans in thousandths of an em, from space to tilde: the widest of the fonts that the page
// asks for, so that a label fits in any of them. Other characters count as an em.
constexpr int kAdvances[] = {349,  457, 521, 838, 696, 1002, 873, 307,  458, 458, 523, 838, 380, 416,  380, 366,
                             696,  696, 696, 696, 696, 696,  696, 696,  696, 696, 400, 400, 838, 838,  838, 581,
                             1000, 774, 763, 734, 831, 684,  684, 821,  837, 373, 373, 775, 638, 996,  837, 851,
                             733,  851, 771, 721, 683, 813,  774, 1104, 771, 725, 726, 458, 366, 458,  838, 500,
                             500,  675, 716, 593, 716, 679,  436, 716,  712, 343, 343, 666, 343, 1042, 712, 688,
                             716,  716, 494, 596, 479, 712,  652, 924,  646, 652, 583, 712, 366, 712,  838};

// The corners of a point's shape around its place; none for a circle.
const std::vector<Place>& CornersOf(int shape) {
  static const std::vector<std::vector<Place>>* const corners =
      new std::vector<std::vector<Place>>{{},
                                          {{-3.5, -3.5}, {3.5, -3.5}, {3.5, 3.5}, {-3.5, 3.5}},
                                          {{0, -4.8}, {4.4, 3.4}, {-4.4, 3.4}},
                                          {{0, -5}, {5, 0}, {0, 5}, {-5, 0}},
                                          {{0, 4.8}, {4.4, -3.4}, {-4.4, -3.4}}};
  return (*corners)[shape % kShapeCount];
}

std::string Pixels(double value) {
  std::string text = absl::StrFormat("%.1f", value);
  if (text.size() > 2 && text.substr(text.size() - 2) == ".0") text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

class Renderer {
 public:
  explicit Renderer(std::string& out) : out_(out) {}

  void Draw(const Panel& panel, const Mark& mark) {
    std::vector<Place> at;
    for (const Place& place : mark.places) at.push_back({panel.x.At(place.x) + mark.shift, panel.y.At(place.y)});
    switch (mark.kind) {
      case Mark::Kind::kLine:
        Open("polyline", mark.style);
        Points(at);
        return Close("polyline", mark.tip);
      case Mark::Kind::kArea:
        Open("polygon", mark.style);
        Points(at);
        return Close("polygon", mark.tip);
      case Mark::Kind::kSegment:
        Open("line", mark.style);
        Set("x1", at[0].x), Set("x2", at[1].x), Set("y1", at[0].y), Set("y2", at[1].y);
        return Close("line", mark.tip);
      case Mark::Kind::kCell:
        Open("rect", mark.style);
        Set("x", std::min(at[0].x, at[1].x)), Set("y", std::min(at[0].y, at[1].y));
        Set("width", std::abs(at[1].x - at[0].x)), Set("height", std::abs(at[1].y - at[0].y));
        if (mark.opacity != 1) absl::StrAppendFormat(&out_, " fill-opacity=\"%.2g\"", mark.opacity);
        return Close("rect", mark.tip);
      case Mark::Kind::kPoint:
        return DrawPoint(mark, at[0]);
      case Mark::Kind::kRing:
        Open("circle", mark.style);
        Set("cx", at[0].x), Set("cy", at[0].y), Set("r", kRingRadius);
        return Close("circle", mark.tip);
      case Mark::Kind::kText:
        Open("text", mark.style);
        Set("x", at[0].x), Set("y", at[0].y);
        if (*mark.anchor != 0) absl::StrAppend(&out_, " text-anchor=\"", mark.anchor, "\"");
        absl::StrAppend(&out_, ">", EscapeHtml(mark.text), "</text>\n");
        return;
      case Mark::Kind::kGroup:
        Open("g", mark.style);
        absl::StrAppend(&out_, ">", TitleOf(mark.tip));
        for (const Mark& part : mark.parts) Draw(panel, part);
        out_ += "</g>\n";
        return;
    }
  }

 private:
  void DrawPoint(const Mark& mark, const Place& at) {
    const std::vector<Place>& corners = CornersOf(mark.shape);
    if (corners.empty()) {
      Open("circle", mark.style);
      Set("cx", at.x), Set("cy", at.y), Set("r", kPointRadius);
      return Close("circle", mark.tip);
    }
    std::vector<Place> polygon;
    for (const Place& corner : corners) polygon.push_back({at.x + corner.x, at.y + corner.y});
    Open("polygon", mark.style);
    Points(polygon);
    Close("polygon", mark.tip);
  }

  static std::string TitleOf(const std::string& tip) {
    return tip.empty() ? "" : absl::StrCat("<title>", EscapeHtml(tip), "</title>");
  }

  void Open(const char* element, const std::string& style) {
    absl::StrAppend(&out_, "<", element);
    if (!style.empty()) absl::StrAppend(&out_, " class=\"", style, "\"");
  }
  void Set(const char* attribute, double pixels) {
    absl::StrAppend(&out_, " ", attribute, "=\"", Pixels(pixels), "\"");
  }
  void Points(const std::vector<Place>& at) {
    out_ += " points=\"";
    for (const Place& place : at) absl::StrAppend(&out_, Pixels(place.x), ",", Pixels(place.y), " ");
    out_.back() = '"';
  }
  void Close(const char* element, const std::string& tip) {
    absl::StrAppend(&out_, tip.empty() ? "/>\n" : absl::StrCat(">", TitleOf(tip), "</", element, ">\n"));
  }

  std::string& out_;
};

Mark MarkOf(Mark::Kind kind, std::string style, std::vector<Place> places, double shift = 0) {
  Mark mark;
  mark.kind = kind;
  mark.style = std::move(style);
  mark.places = std::move(places);
  mark.shift = shift;
  return mark;
}

}  // namespace

double Scale::At(double value) const {
  const auto place = [&](double of) { return is_log ? std::log2(of) : of; };
  const double span = place(high) - place(low);
  if (span <= 0) return (begin + end) / 2;
  const double share = (place(value) - place(low)) / span;
  return begin + (end - begin) * (is_clamped ? std::clamp(share, 0.0, 1.0) : share);
}

Mark LineMark(std::string style, std::vector<Place> places, double shift) {
  return MarkOf(Mark::Kind::kLine, std::move(style), std::move(places), shift);
}

Mark AreaMark(std::string style, std::vector<Place> places, double shift) {
  return MarkOf(Mark::Kind::kArea, std::move(style), std::move(places), shift);
}

Mark SegmentMark(std::string style, Place from, Place to, double shift) {
  return MarkOf(Mark::Kind::kSegment, std::move(style), {from, to}, shift);
}

Mark CellMark(std::string style, Place corner, Place opposite, double opacity, std::string tip) {
  Mark mark = MarkOf(Mark::Kind::kCell, std::move(style), {corner, opposite});
  mark.opacity = opacity;
  mark.tip = std::move(tip);
  return mark;
}

Mark PointMark(int shape, bool is_hollow, Place place, double shift) {
  Mark mark = MarkOf(Mark::Kind::kPoint, is_hollow ? "mark hollow" : "mark", {place}, shift);
  mark.shape = shape;
  return mark;
}

Mark RingMark(std::string style, Place place, double shift) {
  return MarkOf(Mark::Kind::kRing, std::move(style), {place}, shift);
}

Mark TextMark(std::string style, Place place, std::string text, const char* anchor) {
  Mark mark = MarkOf(Mark::Kind::kText, std::move(style), {place});
  mark.text = std::move(text);
  mark.anchor = anchor;
  return mark;
}

Mark GroupMark(std::string style, std::string tip, std::vector<Mark> parts) {
  Mark mark = MarkOf(Mark::Kind::kGroup, std::move(style), {});
  mark.tip = std::move(tip);
  mark.parts = std::move(parts);
  return mark;
}

std::string Draw(const Plot& plot) {
  const bool is_alone = !plot.style_sheet.empty();
  const std::string width = Pixels(plot.width), height = Pixels(plot.height);
  std::string out = absl::StrCat("<svg", is_alone ? " xmlns=\"http://www.w3.org/2000/svg\"" : "", " class=\"",
                                 plot.style, "\" viewBox=\"0 0 ", width, " ", height, "\" role=\"img\"");
  if (is_alone) absl::StrAppend(&out, " width=\"", width, "\" height=\"", height, "\"");
  if (!plot.id.empty()) absl::StrAppend(&out, " aria-labelledby=\"", plot.id, "-t\"");
  absl::StrAppend(&out, "><title", plot.id.empty() ? "" : absl::StrCat(" id=\"", plot.id, "-t\""), ">",
                  EscapeHtml(plot.title), "</title>\n");
  if (is_alone) absl::StrAppend(&out, "<style>\n", plot.style_sheet, "</style>\n");
  Renderer renderer(out);
  for (const Panel& panel : plot.panels) {
    for (const Mark& mark : panel.marks) renderer.Draw(panel, mark);
  }
  return out + "</svg>\n";
}

double TextWidth(absl::string_view label) {
  double thousandths = 0;
  for (unsigned char byte : label) {
    if ((byte & 0xC0) == 0x80) continue;  // the rest of a character already counted
    thousandths += byte >= ' ' && byte <= '~' ? kAdvances[byte - ' '] : 1000;
  }
  return thousandths / 1000 * kLabelFontSize;
}

}  // namespace varifocal::report
