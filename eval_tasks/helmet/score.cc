#include "eval_tasks/helmet/score.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "eval_tasks/helmet/parse.h"
#include "eval_tasks/metrics/normalize.h"
#include "eval_tasks/metrics/retrieval.h"
#include "eval_tasks/metrics/rouge.h"
#include "eval_tasks/metrics/text_metrics.h"
#include "eval_tasks/python/text.h"

namespace varifocal::helmet {
namespace {

using Texts = std::vector<std::string>;
using Scorer = absl::StatusOr<Json> (*)(absl::string_view output, const Json& gold, const Json& options);

constexpr int kRankDepths[] = {1, 5, 10, 20, 50, 100, 200, 500, 1000};

absl::Status BadGold(absl::string_view expected) { return InvalidArgument("\"gold\" must be ", expected, "."); }

// A text, a list of texts, or a list of lists of texts, which is flattened.
absl::StatusOr<Texts> GoldTexts(const Json& gold) {
  constexpr absl::string_view kShape = "a text, a list of texts, or a list of lists of texts, with at least 1 text";
  Texts texts;
  if (gold.is_string()) return Texts{gold.get<std::string>()};
  if (!gold.is_array()) return BadGold(kShape);
  for (const Json& item : gold) {
    for (const Json& text : item.is_array() ? item : Json::array({item})) {
      if (!text.is_string()) return BadGold(kShape);
      texts.push_back(text.get<std::string>());
    }
  }
  if (texts.empty()) return BadGold(kShape);
  return texts;
}

absl::StatusOr<std::vector<Texts>> GoldGroups(const Json& gold, const char* key) {
  // As in upstream, an item without any text is never found.
  constexpr absl::string_view kShape = "a list with at least 1 item, each a list of texts";
  std::vector<Texts> groups;
  if (!gold.is_array() || gold.empty()) return BadGold(kShape);
  for (const Json& item : gold) {
    const Json& list = item.is_object() && item.contains(key) ? item[key] : item;
    Texts group;
    if (!list.is_array()) return BadGold(kShape);
    for (const Json& text : list) {
      if (!text.is_string()) return BadGold(kShape);
      group.push_back(text.get<std::string>());
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

struct Measures {
  double exact_match = 0, f1 = 0, substring_exact_match = 0;
  double rouge_l_f1 = 0, rouge_l_recall = 0, rouge_lsum_f1 = 0, rouge_lsum_recall = 0;
};

constexpr std::array<std::pair<const char*, double Measures::*>, 7> kMeasureNames = {{
    {"exact_match", &Measures::exact_match},
    {"f1", &Measures::f1},
    {"substring_exact_match", &Measures::substring_exact_match},
    {"rougeL_f1", &Measures::rouge_l_f1},
    {"rougeL_recall", &Measures::rouge_l_recall},
    {"rougeLsum_f1", &Measures::rouge_lsum_f1},
    {"rougeLsum_recall", &Measures::rouge_lsum_recall},
}};

Measures Measure(absl::string_view output, const Texts& gold) {
  const UpstreamTextMeasures text = MeasureAsUpstream(output, gold);
  Measures measures;
  measures.exact_match = text.exact_match;
  measures.f1 = text.token_f1;
  measures.substring_exact_match = text.substring_exact_match;
  for (const std::string& answer : gold) {
    const RougeScore l = RougeL(answer, output), lsum = RougeLsum(answer, output);
    measures.rouge_l_f1 = std::max(measures.rouge_l_f1, l.f1);
    measures.rouge_l_recall = std::max(measures.rouge_l_recall, l.recall);
    measures.rouge_lsum_f1 = std::max(measures.rouge_lsum_f1, lsum.f1);
    measures.rouge_lsum_recall = std::max(measures.rouge_lsum_recall, lsum.recall);
  }
  return measures;
}

Json ToJson(const Measures& measures) {
  Json object = Json::object();
  for (const auto& [name, member] : kMeasureNames) object[name] = measures.*member;
  return object;
}

absl::StatusOr<Json> BetterOfWholeAndParsed(absl::string_view output, const Json& gold, absl::string_view prefix) {
  ASSIGN_OR_RETURN(const Texts texts, GoldTexts(gold));
  const std::string parsed = ParseOutput(output, prefix);
  Measures measures = Measure(output, texts);
  const Measures of_parsed = Measure(parsed, texts);
  for (const auto& [name, member] : kMeasureNames) {
    measures.*member = std::max(measures.*member, of_parsed.*member);
  }
  Json object = ToJson(measures);
  object["parsed_output"] = parsed;
  return object;
}

absl::StatusOr<Json> ScoreMetrics(absl::string_view output, const Json& gold, const Json&) {
  ASSIGN_OR_RETURN(const Texts texts, GoldTexts(gold));
  const Measures measures = Measure(output, texts);
  return ToJson(measures);
}

absl::StatusOr<Json> ScoreDefault(absl::string_view output, const Json& gold, const Json&) {
  return BetterOfWholeAndParsed(output, gold, "Answer:");
}
absl::StatusOr<Json> ScoreJsonKv(absl::string_view output, const Json& gold, const Json&) {
  return BetterOfWholeAndParsed(output, gold, "corresponding value:");
}
absl::StatusOr<Json> ScoreSummary(absl::string_view output, const Json& gold, const Json&) {
  return BetterOfWholeAndParsed(output, gold, "Summary:");
}

absl::StatusOr<Json> ScoreLabel(absl::string_view output, const Json& gold, const Json&) {
  ASSIGN_OR_RETURN(const Texts texts, GoldTexts(gold));
  const std::string parsed = ParseOutput(output, "label:");
  const Measures measures = Measure(parsed, texts);
  Json object = ToJson(measures);
  object["parsed_output"] = parsed;
  return object;
}

// Gold is the letter and "X. text"; if the output contains the second, ignoring case, both matches are true.
absl::StatusOr<Json> ScoreChoice(absl::string_view output, const Json& gold, const Json&) {
  ASSIGN_OR_RETURN(const Texts texts, GoldTexts(gold));
  if (texts.size() < 2) return BadGold("a list of the letter and \"LETTER. text\"");
  ASSIGN_OR_RETURN(Json object, BetterOfWholeAndParsed(output, gold, "Answer:"));
  const bool holds_option = PythonLower(output).find(PythonLower(texts[1])) != std::string::npos;
  object["substring_exact_match"] = holds_option ? 1.0 : 0.0;
  if (holds_option) object["exact_match"] = 1.0;
  return object;
}

absl::StatusOr<Json> ScoreRuler(absl::string_view output, const Json& gold, const Json&) {
  ASSIGN_OR_RETURN(const Texts texts, GoldTexts(gold));
  const std::string lower = PythonLower(output);
  int found_count = 0;
  for (const std::string& answer : texts) found_count += lower.find(PythonLower(answer)) != std::string::npos;
  return Json{{"ruler_recall", found_count / static_cast<double>(texts.size())},
              {"parsed_output", std::string(output)}};
}

absl::StatusOr<Json> ParseOnly(absl::string_view output, const Json&, const Json& options) {
  ASSIGN_OR_RETURN(const std::optional<std::string> prefix, FindString(options, "prefix"));
  // Upstream inserts it into a regular expression unescaped.
  if (const size_t at = prefix.value_or("").find_first_of("\\^$.|?*+()[]{}"); at != std::string::npos) {
    return InvalidArgument("\"prefix\" is \"", *prefix, "\", whose \"", prefix->substr(at, 1),
                           "\" is a regular expression; it must be plain text.");
  }
  return Json{{"parsed_output", ParseOutput(output, prefix.value_or("Answer:"))}};
}

Json RankingsJson(const std::vector<std::pair<std::string, int>>& rankings) {
  Json object = Json::object();
  for (const auto& [id, score] : rankings) object[id] = score;
  return object;
}

absl::StatusOr<Json> ParseRankingsOnly(absl::string_view output, const Json&, const Json&) {
  return Json{{"parsed_output", RankingsJson(ParseRankings(output))}};
}

absl::StatusOr<Json> NormalizeOnly(absl::string_view output, const Json&, const Json&) {
  return Json{{"normalize_answer", NormalizeAnswer(output)}};
}

// {"id": label, ..} or [["id", label], ..]; a label is a whole number, also as text.
absl::StatusOr<DocumentLabels> GoldLabels(const Json& gold) {
  constexpr absl::string_view kShape = "an object {\"id\": label, ..} or a list of pairs [\"id\", label]";
  DocumentLabels labels;
  auto add = [&](const Json& id, const Json& label) {
    int value = 0;
    const bool is_number =
        label.is_number_integer() || (label.is_string() && absl::SimpleAtoi(label.get<std::string>(), &value));
    if (!id.is_string() || !is_number) return false;
    labels[id.get<std::string>()] = label.is_string() ? value : label.get<int>();
    return true;
  };
  if (gold.is_object()) {
    for (const auto& [id, label] : gold.items()) {
      if (!add(id, label)) return BadGold(kShape);
    }
  } else if (gold.is_array()) {
    for (const Json& pair : gold) {
      if (!pair.is_array() || pair.size() != 2 || !add(pair[0], pair[1])) return BadGold(kShape);
    }
  }
  if (labels.empty()) return BadGold(kShape);
  return labels;
}

// As Python's round(value, 5): rounds the exact binary value via decimal text.
double Rounded(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.5f", value);
  return std::strtod(text, nullptr);
}

absl::StatusOr<std::vector<int>> RankDepths(const Json& options, size_t document_count) {
  std::vector<int> depths;
  if (const auto given = options.find("k_values"); given != options.end()) {
    for (const Json& depth : given->is_array() ? *given : Json::array({*given})) {
      if (!depth.is_number_integer() || depth.get<int64_t>() < 1 || depth.get<int64_t>() > 1'000'000) {
        return InvalidArgument("\"k_values\" must be a list of whole numbers from 1 to 1000000.");
      }
      depths.push_back(depth.get<int>());
    }
    return depths;
  }
  for (int depth : kRankDepths) {
    if (static_cast<size_t>(depth) <= document_count) depths.push_back(depth);
  }
  return depths;
}

absl::StatusOr<Json> ScoreRanking(absl::string_view output, const Json& gold, const Json& options) {
  ASSIGN_OR_RETURN(const DocumentLabels labels, GoldLabels(gold));
  ASSIGN_OR_RETURN(const std::vector<int> depths, RankDepths(options, labels.size()));
  const auto parsed = ParseRankings(output);
  Texts ranking;
  for (const auto& [id, score] : parsed) ranking.push_back(id);
  Json object = Json::object();
  for (int depth : depths) {
    object[absl::StrCat("NDCG@", depth)] = Rounded(NdcgAt(ranking, labels, depth));
    object[absl::StrCat("MAP@", depth)] = Rounded(MeanAveragePrecisionAt(ranking, labels, depth));
    object[absl::StrCat("Recall@", depth)] = Rounded(RecallAt(ranking, labels, depth));
    object[absl::StrCat("P@", depth)] = Rounded(PrecisionAt(ranking, labels, depth));
  }
  object["MRR"] = Rounded(ReciprocalRank(ranking, labels));
  object["num_preds"] = parsed.size();
  object["parsed_output"] = RankingsJson(parsed);
  return object;
}

size_t WordCount(absl::string_view text) {
  size_t count = 0;
  bool in_word = false;
  for (CodePoint point : ToPythonText(text)) {
    const bool is_space = IsPythonSpace(point);
    count += !is_space && !in_word;
    in_word = !is_space;
  }
  return count;
}

absl::StatusOr<Json> ScoreAsqa(absl::string_view output, const Json& gold, const Json&) {
  ASSIGN_OR_RETURN(const std::vector<Texts> groups, GoldGroups(gold, "short_answers"));
  const std::string plain = WithoutCitations(output);
  const std::string normalized = NormalizeAnswer(plain);
  int hit_count = 0;
  for (const Texts& group : groups) {
    hit_count += std::any_of(group.begin(), group.end(), [&](const std::string& answer) {
      return normalized.find(NormalizeAnswer(answer)) != std::string::npos;
    });
  }
  return Json{{"str_em", hit_count / static_cast<double>(groups.size())},
              {"str_hit", hit_count == std::ssize(groups) ? 1 : 0},
              {"length", WordCount(plain)}};
}

// Python's rstrip of white space, then of full stops, then of commas.
std::string StripListEnd(absl::string_view text) {
  PythonText points = ToPythonText(text);
  while (!points.empty() && IsPythonSpace(points.back())) points.pop_back();
  while (!points.empty() && points.back() == '.') points.pop_back();
  while (!points.empty() && points.back() == ',') points.pop_back();
  return ToUtf8(points);
}

double Harmonic(double a, double b) { return a + b == 0 ? 0 : 2 * a * b / (a + b); }

absl::StatusOr<Json> ScoreQampari(absl::string_view output, const Json& gold, const Json&) {
  constexpr int kTop = 5;
  ASSIGN_OR_RETURN(const std::vector<Texts> groups, GoldGroups(gold, "answers"));
  const std::string plain = WithoutCitations(output);
  Texts predictions;
  for (absl::string_view item : absl::StrSplit(StripListEnd(plain), ',')) {
    std::string normalized = NormalizeAnswer(item);
    if (!normalized.empty()) predictions.push_back(std::move(normalized));
  }
  auto predicted = [&](const std::string& answer) {
    return std::find(predictions.begin(), predictions.end(), answer) != predictions.end();
  };
  Texts answers;
  int hit_count = 0;
  for (const Texts& group : groups) {
    bool is_hit = false;
    for (const std::string& alias : group) {
      answers.push_back(NormalizeAnswer(alias));
      is_hit = is_hit || predicted(answers.back());
    }
    hit_count += is_hit;
  }
  const auto right_count = std::count_if(predictions.begin(), predictions.end(), [&](const std::string& prediction) {
    return std::find(answers.begin(), answers.end(), prediction) != answers.end();
  });
  const int group_count = groups.size();
  const double precision = predictions.empty() ? 0 : static_cast<double>(right_count) / predictions.size();
  const double recall = hit_count / static_cast<double>(group_count);
  const double recall_top5 = std::min(kTop, hit_count) / static_cast<double>(std::min(kTop, group_count));
  return Json{{"num_preds", predictions.size()},
              {"qampari_prec", precision},
              {"qampari_rec", recall},
              {"qampari_rec_top5", recall_top5},
              {"qampari_f1", Harmonic(precision, recall)},
              {"qampari_f1_top5", Harmonic(precision, recall_top5)},
              {"length", WordCount(plain)}};
}

struct Row {
  KindInfo info;
  Scorer score;
};

const std::vector<Row>& Table() {
  static const std::vector<Row> table = {
      {{"calculate_metrics", "texts", "matches, F1 and ROUGE of the unchanged output"}, &ScoreMetrics},
      {{"default", "texts", "the better of the whole output and of the text after \"Answer:\""}, &ScoreDefault},
      {{"json_kv", "texts", "the same with \"corresponding value:\""}, &ScoreJsonKv},
      {{"multi_lexsum", "texts", "the same with \"Summary:\""}, &ScoreSummary},
      {{"icl", "texts", "only the text after \"label:\""}, &ScoreLabel},
      {{"infbench_choice", "[letter, \"LETTER. text\"]",
        "as default, and right when the output contains the option's text"},
       &ScoreChoice},
      {{"ruler", "texts", "share of the gold answers that the output contains"}, &ScoreRuler},
      {{"rerank", "{id: label} or [[id, label], ..]", "NDCG, MAP, recall and precision of the parsed ranking"},
       &ScoreRanking},
      {{"alce_asqa", "[{\"short_answers\": texts}, ..] or [texts, ..]",
        "share of the questions answered, citations removed"},
       &ScoreAsqa},
      {{"alce_qampari", "[[alias, ..], ..]", "precision and recall of a list with commas, citations removed"},
       &ScoreQampari},
      {{"parse_output", "none", "the text after the prefix on its line"}, &ParseOnly},
      {{"parse_rankings", "none", "the longest chain of ids, with scores"}, &ParseRankingsOnly},
      {{"normalize_answer", "none", "lower case, without punctuation and articles"}, &NormalizeOnly},
  };
  return table;
}

}  // namespace

const std::vector<KindInfo>& Kinds() {
  static const std::vector<KindInfo> kinds = [] {
    std::vector<KindInfo> infos;
    for (const Row& row : Table()) infos.push_back(row.info);
    return infos;
  }();
  return kinds;
}

bool IsKind(absl::string_view name) {
  return std::any_of(Table().begin(), Table().end(), [&](const Row& row) { return row.info.name == name; });
}

absl::StatusOr<Json> Score(absl::string_view kind, absl::string_view output, const Json& gold, const Json& options) {
  std::vector<std::string> names;
  for (const Row& row : Table()) {
    if (row.info.name == kind) return row.score(output, gold, options);
    names.push_back(row.info.name);
  }
  return InvalidArgument("unknown HELMET kind \"", kind, "\"", DidYouMean(std::string(kind), names));
}

absl::StatusOr<double> ScoreValue(absl::string_view kind, absl::string_view value, const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json reference, ParseJson(input.reference_json));
  Json options = Json::object();
  if (kind == "rerank") options["k_values"] = {10};
  ASSIGN_OR_RETURN(const Json values, Score(kind, input.output, reference, options));
  return GetDouble(values, value);
}

}  // namespace varifocal::helmet
