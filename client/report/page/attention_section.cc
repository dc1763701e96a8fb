#include "client/report/page/attention_section.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/charts/attention_figures.h"
#include "client/report/charts/attention_strip.h"
#include "client/report/charts/line_chart.h"
#include "client/report/data/attention_heads.h"
#include "client/report/data/model_text.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"

namespace varifocal::report {
namespace {

constexpr size_t kPageHeadsMax = 64;  // of a strip on the page

std::string Keys(double count) { return Unsigned(count, count < 100 ? 1 : 0); }

std::string HeadLabel(const AttentionHead& head) { return absl::StrCat("L", head.layer, " H", head.head); }

std::string IncompleteMark(const ReportData& data, const std::string& variant, int64_t length) {
  return IsAttentionIncomplete(data, variant, length) ? "incomplete" : "";
}

// "baseline: 3.1 % at 1K, 1.2 % at 8K, 0.39 of it." Of complete lengths alone: others are means over other questions.
std::vector<std::string> Sentences(const ReportData& data) {
  std::vector<std::string> sentences;
  for (const db::VariantRecord& variant : data.variants) {
    std::vector<int64_t> lengths;
    std::vector<std::string> incomplete;
    const Json function = FunctionOf(variant.model);
    const std::vector<std::string> from = WeightsFrom(function);
    const std::string note = LayersWithoutAttentionNote(function);
    const bool is_inspected = !data.attention.Lengths(variant.name).empty();
    if (is_inspected && !note.empty())
      sentences.push_back(Sentence("attention_layers", {{"variant", variant.name}, {"note", note}}));
    if (is_inspected && !from.empty()) {
      sentences.push_back(
          Sentence("attention_weights",
                   {{"variant", variant.name}, {"from", absl::StrJoin(from, "; ")}, {"dtype", variant.model.dtype}}));
    }
    for (const int64_t length : data.attention.Lengths(variant.name)) {
      if (IsAttentionIncomplete(data, variant.name, length)) {
        incomplete.push_back(data.Length("", length));
      } else {
        lengths.push_back(length);
      }
    }
    if (!incomplete.empty())
      sentences.push_back(Sentence(
          "attention_incomplete",
          {{"variant", variant.name}, {"lengths", JoinWithAnd(incomplete)}, {"is_one", incomplete.size() == 1}}));
    if (lengths.size() < 2) continue;
    const auto first = data.attention.Of(variant.name, lengths.front()),
               last = data.attention.Of(variant.name, lengths.back());
    if (!first->evidence.has_value() || !last->evidence.has_value() || *first->evidence <= 0) continue;
    sentences.push_back(Sentence("attention_change", {{"variant", variant.name},
                                                      {"first_mass", MassPercent(first->evidence)},
                                                      {"last_mass", MassPercent(last->evidence)},
                                                      {"first_length", data.Length("", lengths.front())},
                                                      {"last_length", data.Length("", lengths.back())},
                                                      {"ratio", Unsigned(*last->evidence / *first->evidence, 2)},
                                                      {"first_keys", Keys(first->effective_keys)},
                                                      {"last_keys", Keys(last->effective_keys)}}));
  }
  return sentences;
}

Json TableRows(const ReportData& data) {
  Json rows = Json::array();
  for (const db::VariantRecord& variant : data.variants) {
    bool is_first = true;
    for (const int64_t length : data.attention.Lengths(variant.name)) {
      const AttentionMasses masses = *data.attention.Of(variant.name, length);
      const std::optional<AttentionMasses> strongest = OfStrongest(data, variant.name, length);
      const std::optional<AttentionHead> head = data.attention.StrongestHead(variant.name);
      rows.push_back({{"first", is_first},
                      {"variant", is_first ? variant.name : ""},
                      {"length", data.Length("", length)},
                      {"incomplete", IncompleteMark(data, variant.name, length)},
                      {"answers", CountLabel(masses.answer_count)},
                      {"evidence", MassPercent(masses.evidence)},
                      {"right", MassPercent(masses.evidence_right)},
                      {"wrong", MassPercent(masses.evidence_wrong)},
                      {"distractors", MassPercent(masses.distractors)},
                      {"question", MassPercent(masses.question)},
                      {"sink", MassPercent(masses.first)},
                      {"keys", Keys(masses.effective_keys)},
                      {"head", head ? HeadLabel(*head) : ""},
                      {"strongest", strongest ? MassPercent(strongest->evidence) : kNoValue}});
      is_first = false;
    }
  }
  return rows;
}

Json LayerTables(const ReportData& data) {
  Json tables = Json::array();
  for (const db::VariantRecord& variant : data.variants) {
    const std::vector<int64_t> lengths = data.attention.Lengths(variant.name);
    if (lengths.empty()) continue;
    Json table = {{"name", variant.name}, {"lengths", Json::array()}, {"rows", Json::array()}};
    for (const int64_t length : lengths)
      table["lengths"].push_back(
          {{"label", data.Length("", length)}, {"incomplete", IncompleteMark(data, variant.name, length)}});
    for (int64_t layer = 0; layer < data.attention.LayerCount(variant.name); ++layer) {
      Json row = {{"layer", layer}, {"cells", Json::array()}};
      for (const int64_t length : lengths) {
        const std::optional<AttentionMasses> masses = data.attention.Of(variant.name, length, layer);
        row["cells"].push_back(masses ? MassPercent(masses->evidence) : kNoValue);
      }
      // q.k is multiplied with the scale: its inverse is tau where that is learned.
      const std::optional<AttentionMasses> longest = data.attention.Of(variant.name, lengths.back(), layer);
      row["tau"] = longest && longest->scale > 0 ? Unsigned(1 / longest->scale, 2) : kNoValue;
      table["rows"].push_back(std::move(row));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

std::string StripOf(const InspectedSample& sample, bool is_alone) {
  const bool is_large = sample.rows.size() > kPageHeadsMax;
  const std::string title = absl::StrCat(
      sample.variant, ", ", sample.task, " at ", LengthLabel(sample.context_length), ", question ", sample.sample_index,
      sample.value.has_value() ? absl::StrCat(", score ", Unsigned(*sample.value, 2)) : "",
      is_large ? "; of each layer the head with the most weight on the evidence" : "");
  return DrawStrip(title, sample.place, is_large ? StrongestOfEachLayer(sample.rows) : sample.rows, is_alone);
}

std::string Strips(const ReportData& data) {
  std::string strips;
  for (const InspectedSample& sample : data.inspected_samples) {
    const std::string strip = StripOf(sample, /*is_alone=*/false);
    if (!strip.empty()) absl::StrAppend(&strips, "<figure>", strip, "</figure>\n");
  }
  return strips;
}

// "the last row of each prompt, which ..,", "the last 8 rows of each prompt, as a mean,"
std::string InspectedRowsText(const ReportData& data) {
  std::set<std::string> texts;
  for (const db::VariantRecord& variant : data.variants) {
    const std::string rows = data.attention.InspectedRows(variant.name);
    if (rows.empty()) continue;
    texts.insert(
        Sentence("attention_rows", {{"is_last", rows == "last"}, {"is_question", rows == "question"}, {"rows", rows}}));
  }
  return absl::StrJoin(texts, " or ");
}

Json MassesJson(const ReportData& data, const std::string& variant, int64_t length, const AttentionMasses& masses) {
  return {{"kind", "attention"},
          {"variant", variant},
          {"context_length", length},
          {"inspected_rows", data.attention.InspectedRows(variant)},
          {"incomplete", IsAttentionIncomplete(data, variant, length)},
          {"layer", nullptr},
          {"head", nullptr},
          {"answer_count", masses.answer_count},
          {"evidence_mass", OrNull(masses.evidence)},
          {"evidence_mass_right", OrNull(masses.evidence_right)},
          {"evidence_mass_wrong", OrNull(masses.evidence_wrong)},
          {"distractor_mass", OrNull(masses.distractors)},
          {"question_mass", OrNull(masses.question)},
          {"first_mass", masses.first},
          {"largest_weight", masses.largest_weight},
          {"effective_keys", masses.effective_keys},
          {"scale", masses.scale}};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> AttentionStripFiles(const ReportData& data) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const InspectedSample& sample : data.inspected_samples) {
    std::string strip = StripOf(sample, /*is_alone=*/true);
    if (!strip.empty()) files.emplace_back(sample.variant, std::move(strip));
  }
  return files;
}

std::string AttentionHtml(const ReportData& data) {
  if (data.attention.IsEmpty()) return "";
  const std::vector<Figure> figures = AttentionFigures(data);
  return FillTemplate("attention.html", {{"inspected", InspectedRowsText(data)},
                                         {"sentences", Sentences(data)},
                                         {"all", DrawChart(figures[0], "attention-all")},
                                         {"strongest", DrawChart(figures[1], "attention-strongest")},
                                         {"rows", TableRows(data)},
                                         {"layers", LayerTables(data)},
                                         {"strips", Strips(data)}});
}

std::vector<Json> AttentionJson(const ReportData& data) {
  std::vector<Json> rows;
  for (const db::VariantRecord& variant : data.variants) {
    const std::optional<AttentionHead> head = data.attention.StrongestHead(variant.name);
    for (const int64_t length : data.attention.Lengths(variant.name)) {
      rows.push_back(MassesJson(data, variant.name, length, *data.attention.Of(variant.name, length)));
      for (int64_t layer = 0; layer < data.attention.LayerCount(variant.name); ++layer) {
        const std::optional<AttentionMasses> masses = data.attention.Of(variant.name, length, layer);
        if (!masses) continue;
        rows.push_back(MassesJson(data, variant.name, length, *masses));
        rows.back()["layer"] = layer;
      }
      if (!head) continue;
      const std::optional<AttentionMasses> masses = data.attention.Of(variant.name, length, head->layer, head->head);
      if (!masses) continue;
      rows.push_back(MassesJson(data, variant.name, length, *masses));
      rows.back()["layer"] = head->layer;
      rows.back()["head"] = head->head;
    }
  }
  return rows;
}

}  // namespace varifocal::report
