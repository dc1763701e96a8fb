// What the page is drawn with: numbers as people read them, excerpts, and charts, the latter against golden files
// (tests/testdata/goldens/report, VARIFOCAL_UPDATE_GOLDENS=1 rewrites them).
#include <cstdlib>

#include "client/report/charts/figure.h"
#include "client/report/charts/line_chart.h"
#include "client/report/data/evidence_spans.h"
#include "client/report/data/perplexity.h"
#include "client/report/data/text_format.h"
#include "client/report/page/excerpt.h"
#include "tests/fakes/report_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using report::Figure;
using testing::HasSubstr;

// Thirteen series have no colour of their own each: every one is drawn beside the baseline, on the same axis.
TEST(SmallMultiplesTest, ReplaceAFigureWithTooManySeries) {
  Figure figure;
  figure.title = "recall_kv";
  figure.y_label = "exact_match, %";
  figure.y_high = 70;
  for (int i = 0; i < report::kChartColorCount; ++i)
    figure.series.push_back({i == 0 ? "baseline" : absl::StrCat("m", i), i, {{1024, 10.0 * i}}});
  ASSERT_EQ(report::SmallMultiples(figure, "baseline").size(), 1u);
  figure.series.push_back({"m12", 12, {{1024, 3}}});
  const std::vector<Figure> parts = report::SmallMultiples(figure, "baseline");
  ASSERT_EQ(parts.size(), 12u);
  EXPECT_EQ(parts[11].title, "m12");
  EXPECT_EQ(parts[11].y_label, "recall_kv: exact_match, %");
  EXPECT_EQ(parts[11].y_high, 70);
  ASSERT_EQ(parts[11].series.size(), 2u);
  EXPECT_EQ(parts[11].series[0].label, "baseline");
  EXPECT_EQ(parts[11].series[1].color_index, 1);
  EXPECT_EQ(report::SmallMultiples(figure, "another").size(), 13u) << "differences have no line of the baseline";
}

// x of the attribute after `before`, from `at` on.
double NumberAfter(const std::string& svg, const std::string& before, size_t at = 0) {
  const size_t found = svg.find(before, at);
  EXPECT_NE(found, std::string::npos) << before;
  return found == std::string::npos ? 0 : std::stod(svg.substr(found + before.size()));
}

TEST(ChartTest, BeyondTrainingBeginsRightOfTheTrainedLength) {
  Figure figure;
  figure.x_ticks = {1024, 2048, 4096};
  figure.trained_x = 2048;
  figure.y_high = 100;
  figure.series = {{"baseline", 0, {{1024, 50, 40, 60}, {2048, 50, 40, 60}, {4096, 50, 40, 60}}}};
  const std::string svg = report::DrawChart(figure, "x");
  const size_t second = svg.find("<circle", svg.find("<circle") + 1);
  const double trained = NumberAfter(svg, "cx=\"", second),
               next = NumberAfter(svg, "cx=\"", svg.find("<circle", second + 1));
  const double begin = NumberAfter(svg, "<rect class=\"beyond\" x=\"");
  EXPECT_GT(begin, trained);
  EXPECT_LT(begin, trained + (next - trained) / 10) << "just after it, not half a step";
}

TEST(ChartTest, TwoEqualLinesAreBothVisible) {
  Figure figure;
  figure.x_ticks = {1024, 2048};
  figure.y_high = 100;
  figure.series = {{"baseline", 0, {{1024, 50, 40, 60}, {2048, 50, 40, 60}}},
                   {"focal", 1, {{1024, 50, 40, 60}, {2048, 50, 40, 60}}}};
  const std::string svg = report::DrawChart(figure, "x");
  const std::string line = "<polyline points=\"";
  EXPECT_GT(NumberAfter(svg, line, svg.find(line) + 1), NumberAfter(svg, line) + 2);
}

TEST(TextFormatTest, AMeanIsRoundedOnceHoweverItWasSummed) {
  EXPECT_EQ(report::Unsigned(83.75, 1), "83.8");
  EXPECT_EQ(report::Unsigned(100 * (0.75 / 4 + 0.85 / 4 + 0.9 / 4 + 0.85 / 4), 1), "83.8");
  EXPECT_EQ(report::Unsigned(83.749999999999986, 1), "83.8");
  EXPECT_EQ(report::Unsigned(83.7499, 1), "83.7");
}

// One context has no interval: a hollow point without a bar, and a sentence.
TEST_F(ReportTest, ADifferenceWithoutIntervalIsHollow) {
  Make({.question_count = 4});
  const std::string page = Render();
  EXPECT_THAT(page, MessageIn("without a bar"));
  EXPECT_THAT(page, HasSubstr("no interval"));
  EXPECT_THAT(page, MessageIn("hollow", "incomplete"));
  const std::string directory = directory_.File("figures");
  ASSERT_TRUE(WriteFigures({.database_path = path_}, directory).ok());
  const std::string svg = ReadFile(directory + "/difference.svg");
  EXPECT_THAT(svg, testing::Not(HasSubstr("class=\"bar\"")));
  EXPECT_THAT(svg, HasSubstr("class=\"mark hollow\""));
}

TEST_F(ReportTest, FiguresAsFiles) {
  MakePlain();
  const std::string directory = directory_.File("figures");
  ASSIGN_OR_FAIL(const auto names, WriteFigures({.database_path = path_}, directory));
  EXPECT_THAT(names,
              testing::ElementsAre("difference.svg", "difference.csv", "score-recall_kv.svg", "score-recall_kv.csv",
                                   "score-rag_facts.svg", "score-rag_facts.csv", "difference-recall_kv.svg",
                                   "difference-recall_kv.csv", "difference-rag_facts.svg", "difference-rag_facts.csv"));
  for (const std::string& name : names) {
    const std::string bytes = ReadFile(directory + "/" + name);
    if (name.ends_with(".svg")) {
      EXPECT_THAT(bytes, testing::StartsWith("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://"));
      EXPECT_THAT(bytes, testing::Not(HasSubstr("var("))) << "a variable of the page's style sheet";
      EXPECT_THAT(bytes, HasSubstr(".chart .c1 { color: #0072b2; }"));
    } else {
      EXPECT_THAT(bytes, testing::StartsWith("series,x,y,low,high,extrapolated,incomplete\n"));
      // Four lengths of two candidates, and of the baseline where scores are drawn.
      EXPECT_EQ(std::count(bytes.begin(), bytes.end(), '\n'), 1 + 4 * (name.starts_with("score") ? 3 : 2)) << name;
    }
  }
  EXPECT_EQ(WriteFigures({.database_path = path_}, path_).status().code(), absl::StatusCode::kPermissionDenied)
      << "a file";
}

// Depths, attention and a sweep too, each with its numbers.
TEST_F(ReportTest, EveryFigureOfThePageIsAFile) {
  Make({.question_count = 8, .temperatures = {"0.5", "0.7", "1.2"}, .has_evidence = true, .has_attention = true});
  const std::string directory = directory_.File("figures");
  ASSIGN_OR_FAIL(const auto names, WriteFigures({.database_path = path_}, directory));
  for (const char* name : {"sweep-8192.svg", "sweep-8192.csv", "sweep-recall_kv.svg", "attention-Over-all-heads.svg",
                           "attention-Over-all-heads.csv", "attention-strip-sharp.svg", "depth.svg", "depth.csv"}) {
    EXPECT_THAT(names, testing::Contains(name));
    const std::string bytes = ReadFile(absl::StrCat(directory, "/", name));
    EXPECT_GT(bytes.size(), 100u) << name;
    EXPECT_THAT(bytes, testing::Not(HasSubstr("var("))) << name;
  }
  // At 8K the baseline is right about question 4 of 0 to 7, which is among those whose evidence comes first.
  EXPECT_THAT(ReadFile(directory + "/depth.csv"), HasSubstr("\nbaseline,recall_kv,8192,0.0,0.25,0.5,2,0\n"));
  EXPECT_THAT(ReadFile(directory + "/depth.svg"), HasSubstr(">last quarter</text>"));
}

TEST(TextFormatTest, NumbersAsPeopleReadThem) {
  EXPECT_EQ(report::LengthLabel(1024), "1K");
  EXPECT_EQ(report::LengthLabel(131072), "128K");
  EXPECT_EQ(report::LengthLabel(1000), "1,000");
  EXPECT_EQ(report::CountLabel(-1234567), "\u22121,234,567");
  EXPECT_EQ(report::Signed(12.46, 1), "+12.5");
  EXPECT_EQ(report::Signed(-0.04, 1), "0.0");
  EXPECT_EQ(report::Signed(-3, 0), "\u22123");
  EXPECT_EQ(report::PEquals(0.0004), "p\u00A0<\u00A00.001");
  EXPECT_EQ(report::PEquals(0.0123), "p\u00A0=\u00A00.012");
  EXPECT_EQ(report::PValue(1), "1.00");
  EXPECT_EQ(report::JoinWithAnd({"1K", "2K", "4K"}), "1K, 2K and 4K");
  EXPECT_EQ(report::ShortList({"1K", "2K", "4K"}, 3), "1K, 2K and 4K");
  EXPECT_EQ(report::ShortList({"1K", "2K", "4K", "8K"}, 3), "1K, 2K and 2 more");
  EXPECT_EQ(report::ShellWord("a b's"), "'a b'\\''s'");
  EXPECT_EQ(report::Shorten("a\u00E9b", 2), "a\u2026");
  EXPECT_EQ(report::CsvField("a,\"b\""), "\"a,\"\"b\"\"\"");
  EXPECT_EQ(report::EscapeLatex("a_b 5 %"), "a\\_b 5 \\%");
  EXPECT_EQ(report::EscapeMarkdownCell("a|b\n<c"), "a\\|b &lt;c");
  EXPECT_EQ(report::TimeLabel(kTimeUs), "2026-11-21 14:30 UTC");
}

TEST(PerplexityTest, IsTheExponentialOfWhatIsEstimated) {
  stats::Comparison row;
  row.baseline_mean = -std::log(20.0);
  row.baseline_interval = {-std::log(25.0), -std::log(16.0)};
  row.candidate_mean = -std::log(10.0);
  row.candidate_interval = {-std::log(12.5), -std::log(8.0)};
  row.difference = std::log(2.0);  // the candidate finds every word twice as likely
  row.adjusted_low = std::log(0.8);
  row.adjusted_high = std::log(5.0);
  row.can_infer = true;
  const report::PerplexityRow read = report::PerplexityOf(row);
  EXPECT_EQ(read.baseline, "20");
  EXPECT_EQ(read.baseline_range, "16 to 25");
  EXPECT_EQ(read.candidate, "10");
  EXPECT_EQ(read.candidate_range, "8 to 12.5");
  EXPECT_EQ(read.ratio, "×0.5");
  EXPECT_EQ(read.low, "×0.2");
  EXPECT_EQ(read.high, "×1.25");
  EXPECT_EQ(report::PerplexityLabel(report::Perplexity(-24.698646306991577)), "5.327e+10");
  EXPECT_FALSE(report::IsLogLikelihood("helmet/rerank/NDCG@10"));
}

TEST(ExcerptTest, ShowsInstructionEvidenceAndQuestion) {
  const std::string before(800, 'x'), after(800, 'y');
  // Bytes 0 to 15, 915 to 2529, 2599 to 2621 of the prompt.
  const std::string excerpt = "Find the value.\n[... 900 bytes ...]\n" + before + " is amber-17 " + after +
                              "\n[... 70 bytes ...]\nThe value of harbor is";
  const std::string html = report::ExcerptHtml(excerpt, {{1716, 1727}}, {"amber-17"});
  EXPECT_THAT(html, testing::StartsWith("Find the value.\u2026\n\u2026xxx"));
  EXPECT_THAT(
      html, HasSubstr("xx <span class=\"evidence\">is </span><span class=\"evidence\"><mark>amber-17</mark></span> y"));
  EXPECT_THAT(html, testing::EndsWith(" harbor is"));
  EXPECT_LT(html.size(), 1300u);
  // Where the spans are unknown, the gold answer is looked for.
  EXPECT_THAT(report::ExcerptHtml(excerpt, {}, {"amber-17"}), HasSubstr("xx is <mark>amber-17</mark> yy"));
  EXPECT_THAT(report::ExcerptHtml(std::string(3000, 'x') + " the end", {}, {}), testing::EndsWith(" the end"));
}

TEST(ExcerptTest, ShortPromptsAreWhole) {
  EXPECT_EQ(report::ExcerptHtml("a short <one>", {{2, 7}}, {"<one>", ""}),
            "a <span class=\"evidence\">short</span> <mark>&lt;one&gt;</mark>");
  EXPECT_EQ(report::ExcerptHtml("no nose, no", {}, {"no"}), "<mark>no</mark> nose, <mark>no</mark>");
  EXPECT_EQ(report::ExcerptHtml("", {{0, 9}}, {"x"}), "");
  EXPECT_EQ(report::ExcerptHtml("[... 9 bytes", {{-5, 900}}, {}), "<span class=\"evidence\">[... 9 bytes</span>");
  EXPECT_EQ(report::ExcerptHtml("\u00e9\u00e9", {{1, 3}}, {}), "\u00e9<span class=\"evidence\">\u00e9</span>")
      << "characters stay whole";
}

TEST(ExcerptTest, EveryPieceOfEvidenceIsShown) {
  std::string prompt;
  for (int i = 0; i < 300; ++i) absl::StrAppend(&prompt, "sentence ", 1000 + i, ". ");
  std::vector<report::ByteSpan> spans;
  for (const int i : {20, 100, 101, 250}) spans.push_back({15 * i, 15 * i + 14});
  const std::string html = report::ExcerptHtml(prompt, spans, {});
  for (const int i : {20, 100, 101, 250}) {
    EXPECT_THAT(html, HasSubstr(absl::StrCat("<span class=\"evidence\">sentence ", 1000 + i, ".</span>")));
  }
  EXPECT_THAT(html, testing::Not(HasSubstr("sentence 1180")));
  EXPECT_THAT(report::EvidenceSpans(R"([{"byte_begin":3,"byte_end":9},{"byte_begin":20,"byte_end":21}])"),
              testing::SizeIs(2));
  EXPECT_THAT(report::EvidenceSpans(R"([{"token_begin":3}])"), testing::IsEmpty());
  EXPECT_THAT(report::EvidenceSpans("{"), testing::IsEmpty());
}

Figure SmallFigure(Figure::Kind kind) {
  Figure figure;
  figure.kind = kind;
  figure.title = "recall_kv <&>";
  figure.y_label = "exact_match, %";
  figure.x_ticks = {1024, 4096, 8192};
  figure.trained_x = 4096;
  figure.series = {{"baseline", 0, {{1024, 95, 90, 98}, {4096, 60, 50, 70}, {8192, 10, 5, 20, true, true}}},
                   {"focal", 1, {{1024, 96, 91, 99}, {4096, 80, 70, 88}, {8192, 12, 6, 22, true}}}};
  if (kind == Figure::Kind::kLinesWithBands) {
    figure.y_high = 100;
    figure.y_step = 25;
  } else {
    figure.has_zero_line = true;
    figure.series = {{"focal", 1, {{1024, 1, -3, 5}, {4096, 20, 10, 30}, {8192, -2, -12, 8}}}};
    figure.y_low = -20;
    figure.y_high = 40;
    figure.y_step = 20;
  }
  return figure;
}

TEST(SvgChartTest, EqualsItsGoldenDrawing) {
  const std::string folder = "tests/testdata/goldens/report/";
  const std::pair<const char*, Figure::Kind> cases[] = {{"lines.svg", Figure::Kind::kLinesWithBands},
                                                        {"points.svg", Figure::Kind::kPointsWithBars}};
  for (const auto& [name, kind] : cases) {
    const std::string drawn = report::DrawChart(SmallFigure(kind), "golden");
    if (std::getenv("VARIFOCAL_UPDATE_GOLDENS") != nullptr) {
      std::filesystem::create_directories(folder);
      testing_support::WriteFile(folder + name, drawn);
    }
    EXPECT_EQ(drawn, ReadFile(folder + name)) << name;
    EXPECT_THAT(drawn, HasSubstr("recall_kv &lt;&amp;&gt;"));
  }
}

TEST(SvgChartTest, PointsStandWhereTheyShould) {
  Figure figure = SmallFigure(Figure::Kind::kLinesWithBands);
  figure.series = {{"one", 0, {{1024, 0, 0, 0}, {8192, 100, 100, 100}}}};
  // Left end of the plot is 46 + 10, right end 440 - (24 + 25) - 10: "one" is (687 + 712 + 678) / 1000 * 11.5 = 23.9
  // wide, rounded up; from y = 242 (bottom) to 46 (top).
  EXPECT_THAT(report::DrawChart(figure, "x"), HasSubstr("<polyline points=\"56,242 382,46\"/>"));
  // A name of a sweep is drawn whole, and its width is that of the widest font.
  figure.series[0].label = "baseline@t=0.85";
  EXPECT_THAT(report::DrawChart(figure, "x"), HasSubstr(">baseline@t=0.85</text>"));
  figure.series.clear();
  EXPECT_EQ(report::DrawChart(figure, "x"), "");
}

}  // namespace
}  // namespace varifocal
