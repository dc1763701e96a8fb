// Measures of benchmarks: equal to upstream's own functions on outputs of ours (recipes/goldens/make_benchmark_metrics.py,
// to the bit), and the cases that a person can check.
#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "eval_tasks/helmet/import/testing_release.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/metrics/jieba.h"
#include "eval_tasks/metrics/sequence_matcher.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "tests/support/read_json.h"

namespace varifocal {
namespace {

absl::StatusOr<double> ScoreOf(const std::string& metric, const std::string& output, const Json& reference) {
  MetricInput input;
  input.output = output;
  input.reference_json = reference.dump();
  return FindMetric(metric)->Score(input);
}

double ValueOf(const std::string& metric, const std::string& output, const Json& reference) {
  const absl::StatusOr<double> value = ScoreOf(metric, output, reference);
  EXPECT_TRUE(value.ok()) << metric << ": " << value.status();
  return value.value_or(-1);
}

TEST(BenchmarkMetrics, EqualUpstreams) {
  const Json cases = testing_support::ReadJson("eval_tasks/testdata/benchmark_metrics.json");
  std::map<std::string, std::set<double>> values;
  for (const Json& row : cases) {
    const std::string output = helmet::Expanded(row[1]).get<std::string>();
    const double expected = row[3].get<double>();
    EXPECT_EQ(ValueOf(row[0], output, helmet::Expanded(row[2])), expected) << row.dump().substr(0, 600);
    values[row[0]].insert(expected);
  }
  // Every measure is there, and none is constant over its cases.
  for (const Metric& metric : Metrics()) {
    const bool is_of_benchmark = metric.uses_raw_output && !absl::StartsWith(metric.name, "helmet/");
    if (!is_of_benchmark || absl::EndsWith(metric.name, "_f1_zh") || absl::EndsWith(metric.name, "rouge_zh")) continue;
    EXPECT_GE(values[metric.name].size(), 2u) << metric.name;
    for (double value : values[metric.name]) {
      EXPECT_TRUE(!metric.is_binary || value == 0 || value == 1) << metric.name << " " << value;
    }
  }
}

TEST(BenchmarkMetrics, CodeHasTwoFormulas) {
  // A line of 258 characters with two inserted: difflib ignores characters above 1 %, here all of them.
  const std::string gold(258, 'a');
  const std::string answer = "xa" + gold.substr(1) + "x";
  EXPECT_EQ(ValueOf("longbench/code_sim_difflib", answer, {{"answers", {gold}}}), 0);
  EXPECT_EQ(ValueOf("longbench/code_sim_levenshtein", answer, {{"answers", {gold}}}), 1);
}

TEST(BenchmarkMetrics, RougeCountsSetsOfWords) {
  const auto rouge = [](const std::string& answer, const std::string& gold) {
    return ValueOf("longbench/rouge", answer, {{"answers", {gold}}});
  };
  EXPECT_EQ(rouge("a a a", "a a"), 2 / (2 + 1e-8));
  EXPECT_NEAR(rouge("A b", "a b"), 0.5, 1e-8) << "case counts";
  EXPECT_NEAR(rouge("the boat is blue. it left.", "the boat left. it is blue"), 1, 1e-8);
  EXPECT_EQ(rouge("", "a b"), 0);
  EXPECT_EQ(rouge("...", "a b"), 0);
}

class JiebaTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = testing_support::ReadJson("eval_tasks/testdata/jieba.json");
    for (const auto& [path, bytes] : golden_["files"].items()) Write(path, bytes);
  }
  void Write(const std::string& path, const std::string& bytes) const {
    testing_support::WriteFile(directory_.File(path), bytes);
  }
  std::string Problem() const {
    const absl::Status status = Jieba::Open(folder_).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  Json golden_;
  testing_support::TemporaryDirectory directory_;
  std::string folder_ = directory_.path();
};

// By a small dictionary and tables of ours.
TEST_F(JiebaTest, WordsAndScoresAreUpstreams) {
  const std::shared_ptr<const Jieba> jieba = Jieba::Open(folder_).value();
  for (const Json& row : golden_["cuts"]) {
    EXPECT_EQ(Json(jieba->Cut(row[0].get<std::string>())), row[1]) << row[0];
  }
  std::set<double> values;
  for (const Json& row : golden_["cases"]) {
    const Json reference = {{"answers", row[2]}, {"jieba", folder_}, {"jieba_sha256", jieba->sha256()}};
    EXPECT_EQ(ValueOf(row[0], row[1], reference), row[3].get<double>()) << row;
    values.insert(row[3].get<double>());
  }
  EXPECT_GT(values.size(), 10u);
  EXPECT_EQ(Jieba::Open(folder_).value(), jieba) << "read once";
  EXPECT_THAT(
      ScoreOf("longbench/rouge_zh", "x", {{"answers", {"x"}}, {"jieba", folder_}, {"jieba_sha256", "00"}}).status(),
      IsError(absl::StatusCode::kFailedPrecondition, Message("00").Varying(folder_, jieba->sha256())));
}

TEST_F(JiebaTest, WhatIsNoDictionaryIsNamed) {
  Write("finalseg/prob_emit.py", "P = x\n");
  EXPECT_THAT(Problem(), Message("prob_emit.py", "line").Varying(folder_));
  Write("finalseg/prob_trans.py", "P = 'x'\n");
  EXPECT_THAT(Problem(), Message("prob_trans.py").Varying(folder_));
  Write("dict.txt", "word 3 n\nword\n");
  EXPECT_THAT(Problem(), Message("dict.txt", "line 2").Varying(folder_));
  Write("dict.txt", "\n");
  EXPECT_THAT(Problem(), Message("dict.txt").Varying(folder_));
  std::filesystem::remove(folder_ + "/dict.txt");
  EXPECT_THAT(Problem(), testing::HasSubstr("dict.txt"));
}

TEST(BenchmarkMetrics, DifflibIsPythons) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcd";
  EXPECT_EQ(DifflibRatio(text, text + "x").value(), 2.0 * 240 / 481);
  EXPECT_EQ(DifflibRatio("", "").value(), 1);
  EXPECT_EQ(LevenshteinRatio("", "").value(), 1);
  EXPECT_EQ(LevenshteinRatio("kitten", "sitting").value(), 1 - 5.0 / 13);
  EXPECT_THAT(DifflibRatio(std::string(kSequenceCharactersMax + 1, 'a'), "a").status(),
              IsError(absl::StatusCode::kInvalidArgument, Message(kSequenceCharactersMax + 1, kSequenceCharactersMax)));
}

TEST(BenchmarkMetrics, LettersOfLongBench2) {
  const auto is_right = [](const std::string& output, const std::string& answer) {
    return ValueOf("longbench2/choice", output, {{"answer", answer}}) == 1;
  };
  EXPECT_TRUE(is_right("The correct answer is **(B)**", "B"));
  EXPECT_TRUE(is_right("The correct answer is B. The correct answer is (C)", "C"));
  EXPECT_TRUE(is_right("The correct answer is Because of D", "B"));
  EXPECT_FALSE(is_right("the correct answer is (A)", "A"));
  EXPECT_FALSE(is_right("The correct answer is  (A)", "A"));
  EXPECT_FALSE(is_right("", "A"));
}

TEST(BenchmarkMetrics, BadReferencesAreNamed) {
  const auto problem = [](const std::string& metric, const Json& reference) {
    const absl::Status status = ScoreOf(metric, "- 7", reference).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << metric;
    return std::string(status.message());
  };
  EXPECT_THAT(problem("longbench/qa_f1", Json::object()), Message("answers"));
  EXPECT_THAT(problem("longbench/classification", {{"answers", {"a"}}}), Message("all_classes"));
  EXPECT_THAT(problem("longbench/retrieval", {{"answers", {"Page 3"}}}), Message("Page 3", "Paragraph "));
  EXPECT_THAT(problem("longbench/count", {{"answers", {3}}}), Message("answers"));
  EXPECT_THAT(problem("infinitebench/math_find", {{"label", "x"}}), Message("x", "math_find"));
  EXPECT_THAT(problem("infinitebench/math_calc", {{"label", "x"}}), Message("math_calc"));
  EXPECT_THAT(problem("infinitebench/code_debug", {{"label", {"x"}}}), Message("label"));
  EXPECT_THAT(problem("infinitebench/passkey", Json::object()), Message("label"));
  EXPECT_THAT(problem("longproc/tom_tracking/accuracy", {{"reference_output", "none"}}), Message("-"));
  EXPECT_THAT(problem("nolima/EM", {{"gold_answers", 7}}), Message("gold_answers"));
  EXPECT_THAT(problem("mrcr/ratio", Json::array()), Message("JSON object"));
  EXPECT_THAT(FindMetric("mrcr/ratio")->Score(MetricInput()).status().message(), Message("reference"));
}

}  // namespace
}  // namespace varifocal
