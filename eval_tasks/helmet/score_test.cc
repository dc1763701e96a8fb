// HELMET's parsing and measures: equal to the bit to upstream's functions on generated outputs, which this test
// regenerates from the tables in the golden file (recipes/goldens/make_helmet_metrics.py);
// and hand-checked examples.
#include "eval_tasks/helmet/score.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "eval_tasks/helmet/parse.h"
#include "eval_tasks/metrics/porter_stemmer.h"
#include "eval_tasks/metrics/rouge.h"
#include "eval_tasks/python/random.h"
#include "eval_tasks/python/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/read_json.h"

namespace varifocal::helmet {
namespace {

using Texts = std::vector<std::string>;

const Json& Golden() {
  static const Json golden = testing_support::ReadJson("eval_tasks/helmet/testdata/metrics.json");
  return golden;
}

struct Case {
  Json gold;
  std::string output;
};

int64_t RandInt(PythonRandom& random, int64_t low, int64_t high) {  // random.randint: both ends included
  return low + static_cast<int64_t>(random.Below(static_cast<uint64_t>(high - low) + 1));
}

std::string DrawText(PythonRandom& random, const Texts& pieces, int low, int high) {
  const size_t count = RandInt(random, low, high);
  std::string text;
  for (size_t index : random.Choices(pieces.size(), count)) text += pieces[index];
  return text;
}

std::string DrawOutput(PythonRandom& random, const Texts& golds, const Texts& pieces, const Texts& prefixes) {
  const int64_t mode = RandInt(random, 0, 3);
  if (mode == 0) return DrawText(random, pieces, 0, 14);
  const std::string gold = golds[random.Below(golds.size())];
  if (mode == 1) {
    const std::string before = DrawText(random, pieces, 0, 3);
    return absl::StrCat(before, gold, DrawText(random, pieces, 0, 3));
  }
  if (mode == 2) {
    Texts words = absl::StrSplit(gold, ' ');
    random.Shuffle(words);
    return absl::StrCat(DrawText(random, pieces, 0, 4), absl::StrJoin(words, " "));
  }
  const std::string before = DrawText(random, prefixes, 1, 2);
  return absl::StrCat(before, gold, DrawText(random, pieces, 0, 4));
}

Case DrawCase(const std::string& kind, PythonRandom& random, const Texts& pieces, const Texts& prefixes) {
  const Texts text_pieces = Golden()["pieces"]["text"];
  Case drawn;
  if (kind == "porter") {
    const std::string stem = DrawText(random, Golden()["syllables"], 0, 4);
    drawn.output = stem + DrawText(random, Golden()["suffixes"], 1, 2);
  } else if (kind == "rerank" || kind == "parse_rankings") {
    drawn.gold = Json::object();
    for (int64_t left = RandInt(random, 1, 12); left > 0; --left) {
      const std::string document = absl::StrCat(RandInt(random, 1, 40));
      drawn.gold[document] = RandInt(random, 0, 3);
    }
    drawn.output = DrawText(random, pieces, 0, 20);
  } else if (kind == "alce_asqa" || kind == "alce_qampari") {
    drawn.gold = Json::array();
    Texts flat;
    for (int64_t left = RandInt(random, 1, 8); left > 0; --left) {
      Json group = Json::array();
      for (int64_t aliases = RandInt(random, 1, 2); aliases > 0; --aliases) {
        flat.push_back(DrawText(random, text_pieces, 1, 2));
        group.push_back(flat.back());
      }
      drawn.gold.push_back(group);
    }
    drawn.output = DrawOutput(random, flat, pieces, prefixes);
    for (int64_t left = RandInt(random, 0, 6); left > 0; --left) {
      absl::StrAppend(&drawn.output, ", ", flat[random.Below(flat.size())]);
    }
    drawn.output += DrawText(random, pieces, 0, 2);
  } else {
    Texts golds;
    for (int64_t left = RandInt(random, 1, 3); left > 0; --left) golds.push_back(DrawText(random, text_pieces, 0, 8));
    if (kind == "infbench_choice") {
      const std::string letter(1, "ABCD"[random.Below(4)]);
      golds = {letter, absl::StrCat(letter, ". ", golds[0])};
    }
    drawn.output = DrawOutput(random, golds, pieces, prefixes);
    drawn.gold = golds;
  }
  return drawn;
}

class Hash {
 public:
  void Add(double value) {
    char bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    stream_->Update({bytes, sizeof(bytes)});
  }
  void Add(const std::string& text) { stream_->Update(absl::StrCat(text, absl::string_view("\0", 1))); }
  std::string Take() {
    const std::string hex = ToHex(stream_->Finish()).substr(0, 16);
    stream_ = std::make_unique<Sha256Stream>();
    return hex;
  }

 private:
  std::unique_ptr<Sha256Stream> stream_ = std::make_unique<Sha256Stream>();
};

double RoundedTo12(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.12f", value);
  return std::strtod(text, nullptr);
}

// What upstream returned for the case, in the recipe's order.
void AddResult(const std::string& kind, const Case& drawn, Hash& hash) {
  if (kind == "porter") {
    hash.Add(PorterStem(drawn.output));
    return;
  }
  if (kind == "parse_rankings") {
    for (const auto& [id, score] : ParseRankings(drawn.output)) {
      hash.Add(id);
      hash.Add(score);
    }
    return;
  }
  const Json result = Score(kind, drawn.output, drawn.gold).value();
  Texts names;
  if (kind == "ruler") {
    names = {"ruler_recall"};
  } else if (kind == "rerank") {
    for (int k : {1, 5, 10, 20}) {
      if (k > std::ssize(drawn.gold)) break;
      for (const char* measure : {"NDCG", "MAP", "Recall", "P"}) names.push_back(absl::StrCat(measure, "@", k));
    }
    names.insert(names.end(), {"MRR", "num_preds"});
  } else if (kind == "alce_asqa") {
    names = {"str_em", "str_hit", "length"};
  } else if (kind == "alce_qampari") {
    hash.Add(result["num_preds"].get<double>());
    for (const char* name : {"qampari_prec", "qampari_rec", "qampari_rec_top5", "qampari_f1", "qampari_f1_top5"}) {
      hash.Add(RoundedTo12(result[name]));
    }
    return;
  } else if (kind == "parse_output" || kind == "normalize_answer") {
    names = {kind == "parse_output" ? "parsed_output" : kind};
  } else {
    names = {"exact_match",   "f1",           "substring_exact_match", "rougeL_f1",
             "rougeL_recall", "rougeLsum_f1", "rougeLsum_recall"};
    if (kind != "calculate_metrics") names.push_back("parsed_output");
  }
  for (const std::string& name : names) {
    if (result[name].is_string()) {
      hash.Add(result[name].get<std::string>());
    } else {
      hash.Add(result[name].get<double>());
    }
  }
}

TEST(HelmetScoreTest, EqualsUpstreamOnGeneratedOutputs) {
  const int block = Golden()["block"];
  std::map<std::string, int> compared;
  for (const Json& row : Golden()["kinds"]) {
    const std::string kind = row["kind"];
    const Texts pieces = Golden()["pieces"][row["pieces"].get<std::string>()];
    const Texts prefixes = Golden()["pieces"][row["prefixes"].get<std::string>()];
    PythonRandom random(row["seed"].get<uint64_t>());
    Hash hash;
    std::string block_text;
    int wrong_count = 0;
    for (int i = 0; i < row["count"]; ++i) {
      const Case drawn = DrawCase(kind, random, pieces, prefixes);
      AddResult(kind, drawn, hash);
      absl::StrAppend(&block_text, Json{{"gold", drawn.gold}, {"prediction", drawn.output}}.dump(), "\n");
      ++compared[kind];
      if ((i + 1) % block != 0) continue;
      const bool equal = hash.Take() == row["digests"][i / block].get<std::string>();
      if (!equal && wrong_count++ == 0) ADD_FAILURE() << kind << ", cases up to " << i << ":\n" << block_text;
      block_text.clear();
    }
    EXPECT_EQ(wrong_count, 0) << kind;
  }
  EXPECT_GE(compared.size(), 14u);
  for (const auto& [kind, count] : compared) EXPECT_GE(count, 1000) << kind;
}

TEST(PythonTextTest, CapitalizesAsPythonDoes) {
  for (const auto& [text, capitalized] :
       std::map<std::string, std::string>{{"", ""},
                                          {"hELLO", "Hello"},
                                          {"\uFB01SH X", "Fish x"},
                                          {"\u0130X", "\u0130x"},
                                          {"\u00DFe", "Sse"},
                                          {"\u01C6X", "\u01C5x"},
                                          {"\u0390A", "\u0399\u0308\u0301a"},
                                          {"\u1FB3A", "\u1FBCa"},
                                          {"\u039F\u0394\u039F\u03A3", "\u039F\u03B4\u03BF\u03C2"},
                                          {"\u0587A", "\u0535\u0582a"}}) {
    EXPECT_EQ(PythonCapitalize(text), capitalized) << text;
  }
}

TEST(HelmetScoreTest, ParsesAsSpecified) {
  EXPECT_EQ(ParseOutput("Paris\nAnswer: London"), "London");
  EXPECT_EQ(ParseOutput("Answer:Answer: 42"), "42");
  EXPECT_EQ(ParseOutput("\nfoo"), "");
  EXPECT_EQ(ParseOutput("label:\n7", "label:"), "");
  EXPECT_EQ(ParseOutput("foo\nbar"), "foo");
  // Python: re.compile("(?:Réponse:)(.*)(?:\n|$)", re.IGNORECASE) and the like.
  EXPECT_EQ(ParseOutput("foo RÉPONSE: x\ny", "Réponse:"), "x");
  EXPECT_EQ(ParseOutput("ΛΌΓΟΣ: a", "λόγος:"), "a");
  EXPECT_EQ(ParseOutput("\u0130s \u017Fo: a", "is so:"), "a");
  EXPECT_EQ(ParseOutput("STRASSE: a", "straße:"), "STRASSE: a");
  EXPECT_THAT(Score("parse_output", "a", Json(), Json{{"prefix", "A (b):"}}).status().message(), Message("\"(\""));
  EXPECT_EQ(Score("alce_asqa", "a b", ParseJson(R"([["b"], []])").value()).value()["str_em"], 0.5);
  EXPECT_EQ(Score("alce_qampari", "a, b", ParseJson(R"([["b"], []])").value()).value()["qampari_rec"], 0.5);
  using Rankings = std::vector<std::pair<std::string, int>>;
  EXPECT_EQ(ParseRankings("Ranking: 12 > 7 > 12 > 3"), (Rankings{{"12", 4}, {"7", 3}, {"3", 1}}));
  EXPECT_EQ(ParseRankings("[ID: 5] > [ID: 6]"), (Rankings{{"5", 2}, {"6", 1}}));
  EXPECT_EQ(ParseRankings("Ranking: none"), (Rankings{{"ranking none", 1}}));
  EXPECT_EQ(ParseRankings("1 > 2, 10 > 20 > 30"), (Rankings{{"10", 3}, {"20", 2}, {"30", 1}}));
}

TEST(HelmetScoreTest, MeasuresAsSpecified) {
  const Json labels = {{"1", 3}, {"2", 2}, {"3", 0}, {"4", 1}};
  const Json at10 = {{"k_values", {10}}};
  EXPECT_EQ(Score("rerank", "1>2>4>3", labels, at10).value()["NDCG@10"], 1.0);
  EXPECT_EQ(Score("rerank", "3>4>2>1", labels, at10).value()["NDCG@10"], 0.61383);
  EXPECT_EQ(Score("rerank", "4>99>1", labels, at10).value()["NDCG@10"], 0.525);
  EXPECT_DOUBLE_EQ(RougeL("The running dogs were happily barking", "A dog runs and barks happily").f1, 1.0 / 3);
  EXPECT_EQ(RougeL("Elinor", "Answer: Elinor Dashwood").f1, 0.5);
  EXPECT_EQ(RougeL("She dies", "He died dying").f1, 0.4);
  EXPECT_EQ(Score("default", "", "A").value()["exact_match"], 1.0) << "the gold letter A normalises to nothing";
  EXPECT_EQ(Score("infbench_choice", "I say b. THE BOAT!", Json{"B", "B. The boat"}).value()["exact_match"], 1.0);
  EXPECT_EQ(Score("ruler", "Numbers: 12, 34", Json{"12", "56"}).value()["ruler_recall"], 0.5);
  for (const auto& [word, stem] : std::map<std::string, std::string>{{"flies", "fli"},
                                                                     {"died", "die"},
                                                                     {"dying", "die"},
                                                                     {"happy", "happi"},
                                                                     {"enjoy", "enjoy"},
                                                                     {"sensibility", "sensibl"},
                                                                     {"fully", "fulli"},
                                                                     {"geology", "geolog"},
                                                                     {"skies", "sky"}}) {
    EXPECT_EQ(PorterStem(word), stem);
  }
}

TEST(HelmetScoreTest, BadInputIsRejectedInOneSentence) {
  EXPECT_THAT(Score("defualt", "x", "y").status().message(), Message("\"defualt\"", "\"default\""));
  EXPECT_FALSE(Score("default", "x", Json::array()).ok());
  EXPECT_FALSE(Score("default", "x", 7).ok());
  EXPECT_FALSE(Score("rerank", "1 > 2", Json{{"1", "high"}}).ok());
  EXPECT_FALSE(Score("rerank", "1 > 2", Json{{"1", 2}}, Json{{"k_values", {0}}}).ok());
  EXPECT_FALSE(Score("alce_asqa", "x", Json::array()).ok());
  EXPECT_FALSE(Score("alce_asqa", "x", Json::array({Json::array({1})})).ok());
  EXPECT_FALSE(Score("infbench_choice", "x", "A").ok());
  const std::string texts =
      "\"gold\" must be a text, a list of texts, or a list of lists of texts, with at least 1 text.";
  const std::string groups = "\"gold\" must be a list with at least 1 item, each a list of texts.";
  const std::string labels = "\"gold\" must be an object {\"id\": label, ..} or a list of pairs [\"id\", label].";
  const struct {
    std::vector<const char*> kinds;
    std::vector<const char*> golds;
    std::string message;
  } tables[] = {
      {{"calculate_metrics", "default", "json_kv", "multi_lexsum", "icl", "infbench_choice", "ruler"},
       {"7", "null", "{}", "[]", "[[]]", "[7]", "[[\"a\", 7]]"},
       texts},
      {{"alce_asqa", "alce_qampari"},
       {"7", "\"a\"", "{}", "[]", "[7]", "[\"a\"]", "[[\"a\", 7]]", "[{\"x\": []}]"},
       groups},
      {{"rerank"},
       {"7", "\"a\"", "{}", "[]", "[7]", "[[\"1\"]]", "[[7, 1]]", "[[\"1\", 0.5]]", "[[\"1\", \"high\"]]",
        "{\"1\": 0.5}"},
       labels},
  };
  for (const auto& table : tables) {
    for (const char* kind : table.kinds) {
      for (const char* gold : table.golds) {
        EXPECT_EQ(Score(kind, "x", *ParseJson(gold)).status().message(), table.message) << kind << " " << gold;
      }
    }
  }
  for (const char* depths : {"0", "[0]", "[1, 1000001]", "[0.5]", "\"5\"", "[18446744073709551615]"}) {
    EXPECT_THAT(Score("rerank", "1", Json{{"1", 2}}, Json{{"k_values", *ParseJson(depths)}}).status().message(),
                Message("\"k_values\"", 1, 1000000))
        << depths;
  }
  EXPECT_FALSE(Score("parse_output", "x", Json(), Json{{"prefix", 7}}).ok());
  MetricInput input;
  input.output = "x";
  input.reference_json = "{";
  EXPECT_FALSE(ScoreValue("default", "f1", input).ok());
  input.reference_json = "7";
  EXPECT_EQ(ScoreValue("default", "f1", input).status().message(), texts);
}

TEST(HelmetScoreTest, EveryFormOfGoldIsAccepted) {
  const auto score = [](const char* kind, const char* output, const char* gold, const char* value) {
    return Score(kind, output, *ParseJson(gold)).value()[value].get<double>();
  };
  for (const char* gold : {R"("b c")", R"(["x", "b c"])", R"([["x"], ["b c"]])"}) {
    EXPECT_EQ(score("default", "b c", gold, "exact_match"), 1.0) << gold;
  }
  for (const char* gold : {R"([["b"], ["c"]])", R"([{"short_answers": ["b"]}, {"short_answers": ["c"]}])"}) {
    EXPECT_EQ(score("alce_asqa", "a b", gold, "str_em"), 0.5) << gold;
  }
  for (const char* gold : {R"({"1": 2, "2": 0})", R"([["1", 2], ["2", 0]])", R"([["1", "2"], ["2", "0"]])"}) {
    EXPECT_EQ(score("rerank", "2 > 1", gold, "MRR"), 0.5) << gold;
  }
  EXPECT_EQ(Score("rerank", "1", Json{{"1", 2}}, Json{{"k_values", 3}}).value().count("NDCG@3"), 1u);
}

}  // namespace
}  // namespace varifocal::helmet
