#include "client/report/charts/attention_figures.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {

std::string MassPercent(const std::optional<double>& share) {
  return share.has_value() ? Unsigned(*share * 100, *share < 0.01 ? 2 : 1) : kNoValue;
}

std::optional<AttentionMasses> OfStrongest(const ReportData& data, const std::string& variant, int64_t length) {
  const std::optional<AttentionHead> head = data.attention.StrongestHead(variant);
  return head ? data.attention.Of(variant, length, head->layer, head->head) : std::nullopt;
}

// Whether means at this length have other answers than those at the others.
bool IsAttentionIncomplete(const ReportData& data, const std::string& variant, int64_t length) {
  const std::set<std::string> tasks = data.attention.Tasks(variant);
  return std::any_of(tasks.begin(), tasks.end(),
                     [&](const std::string& task) { return data.IsIncomplete(variant, task, length); });
}

namespace {

template <typename MassesOf>
Figure EvidenceFigure(const ReportData& data, const std::string& title, const MassesOf& masses_of) {
  Figure figure;
  figure.kind = Figure::Kind::kLinesWithBars;
  figure.title = title;
  figure.y_label = "mass on the evidence, %";
  figure.x_ticks.assign(data.lengths.begin(), data.lengths.end());
  for (size_t i = 0; i < data.variants.size(); ++i) {
    const std::string& name = data.variants[i].name;
    Series series{name, static_cast<int>(i), {}};
    for (const int64_t length : data.lengths) {
      const std::optional<AttentionMasses> masses = masses_of(name, length);
      if (!masses || !masses->evidence) continue;
      Point point;
      point.is_incomplete = point.is_hollow = IsAttentionIncomplete(data, name, length);
      point.has_interval = false;  // these means are not tested
      point.x = length;
      point.y = point.low = point.high = *masses->evidence * 100;
      point.tip = absl::StrCat(name, " at ", data.Length("", length), ": ", MassPercent(masses->evidence), " %",
                               point.is_incomplete ? ", incomplete" : "");
      series.points.push_back(std::move(point));
    }
    if (!series.points.empty()) figure.series.push_back(std::move(series));
  }
  FitY(figure, 2, 0.0, 100.0);
  return figure;
}

}  // namespace

std::vector<Figure> AttentionFigures(const ReportData& data) {
  if (data.attention.IsEmpty()) return {};
  return {
      EvidenceFigure(data, "Over all heads",
                     [&](const std::string& variant, int64_t length) { return data.attention.Of(variant, length); }),
      EvidenceFigure(data, "Head with the most on the evidence",
                     [&](const std::string& variant, int64_t length) { return OfStrongest(data, variant, length); })};
}

}  // namespace varifocal::report
