// The first screen: its words, the table of lengths, and the question before a table of zeros.
#include "tests/fakes/report_fixture.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using testing::Not;

Json BriefsOf(const std::string& rows_text) {
  Json briefs = Json::object();
  const auto rows = ParseJson(rows_text);
  EXPECT_TRUE(rows.ok());
  for (const Json& row : *rows) {
    if (row["kind"] == "verdict" && !row["brief"].is_null()) briefs[row["headline"].get<std::string>()] = row;
  }
  return briefs;
}

// "sharp" gains at 4K and 8K, and 8K is beyond the 4,096 tokens of training.
TEST_F(ReportTest, AVerdictIsTenWordsAndBeginsWithTheOutcome) {
  MakePlain();
  std::vector<std::string> texts;
  const Json briefs = BriefsOf(Render(ReportFormat::kJson));
  for (const auto& [headline, row] : briefs.items()) texts.push_back(row["brief"]);
  ASSERT_EQ(texts.size(), 2u);
  const std::string& sharp = texts[0].find("etter") != std::string::npos ? texts[0] : texts[1];
  EXPECT_THAT(sharp, Message("better", "4K", "beyond training", "8K"));
  for (const std::string& text : texts) EXPECT_LE(std::count(text.begin(), text.end(), ' '), 16) << text;
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("<b class=\"better\">"));
  const size_t first = page.find("class=\"verdict brief"), chart = page.find("<svg"),
               words = page.find("class=\"words\"");
  EXPECT_LT(first, chart);
  EXPECT_LT(chart, words) << "the picture is before the sentences";
  EXPECT_LT(words, page.find("<p class=\"headline\">"));
}

TEST_F(ReportTest, EmptyAnswersAreInTheVerdict) {
  Make({.variants = {"baseline", "sharp"}, .has_empty_answers = true});
  const Json briefs = BriefsOf(Render(ReportFormat::kJson));
  ASSERT_EQ(briefs.size(), 1u);
  EXPECT_THAT(briefs.front()["brief_note"].get<std::string>(), Message("8K", "baseline", "38 of 96", "nothing"));
}

TEST_F(ReportTest, ATableOfLengthsHasACandidateAColumn) {
  MakePlain();
  const std::string page = Render();
  const size_t begin = page.find("class=\"data lengths\"");
  ASSERT_NE(begin, std::string::npos);
  const std::string table = page.substr(begin, page.find("</table>", begin) - begin);
  EXPECT_THAT(table, HasSubstr("<th class=\"n\">sharp<small>"));
  EXPECT_THAT(table, HasSubstr("<th class=\"n\">soft<small>"));
  EXPECT_THAT(table, HasSubstr("<small class=\"flag\">beyond training</small>"));
  size_t rows = 0;
  for (size_t at = table.find("<tr><td>"); at != std::string::npos; at = table.find("<tr><td>", at + 1)) ++rows;
  EXPECT_EQ(rows, 4u);
}

// The samples are folded; the link of the contents is to what is in the fold, which opens it.
TEST_F(ReportTest, SamplesAreFoldedBehindTheirLink) {
  MakePlain();
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("<a href=\"#samples\">Samples</a>"));
  const size_t fold = page.find("<details class=\"fold\" id=\"samples-fold\">");
  ASSERT_NE(fold, std::string::npos);
  EXPECT_LT(fold, page.find("<div id=\"samples\">"));
}

// Every box that scrolls can be reached and has a name of its own.
TEST_F(ReportTest, ScrollingBoxesAreRegions) {
  Make({.question_count = 16,
        .temperatures = {"0.5", "0.7"},
        .has_evidence = true,
        .has_groups = true,
        .has_attention = true});
  const std::string page = Render();
  std::set<std::string> labels;
  const std::string begin = "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"";
  size_t count = 0;
  for (size_t at = page.find("<div class=\"wide\""); at != std::string::npos;
       at = page.find("<div class=\"wide\"", at + 1)) {
    ASSERT_EQ(page.compare(at, begin.size(), begin), 0) << page.substr(at, 80);
    labels.insert(page.substr(at + begin.size(), page.find('"', at + begin.size()) - at - begin.size()));
    ++count;
  }
  EXPECT_GT(count, 6u);
  EXPECT_EQ(labels.size(), count) << "two boxes have one label";
}

// A sweep's words are about the sweep: the best value of each length, and which are worse.
TEST_F(ReportTest, ASweepSaysWhichValueIsBest) {
  Make({.question_count = 16, .variants = {"baseline"}, .temperatures = {"1.1", "0.5"}});
  const Json briefs = BriefsOf(Render(ReportFormat::kJson));
  ASSERT_EQ(briefs.size(), 1u);
  EXPECT_THAT(briefs.front()["brief"].get<std::string>(), Message("Best t", "1 at 1K, 2K, 4K and 8K", "as trained"));
  const std::string page = Render();
  EXPECT_THAT(page, MessageIn("baseline at 2 temperatures", "against baseline"));
  EXPECT_LT(page.find("temperature at 8K"), page.find("class=\"words\"")) << "its picture is on the first screen";
}

// Where both sides are equal in every context there is nothing to draw or to call detectable.
TEST_F(ReportTest, EqualAnswersAreNotTested) {
  Make({.question_count = 16, .variants = {"baseline"}, .temperatures = {"0.5", "0.7"}});
  const std::string page = Render();
  EXPECT_THAT(page, MessageIn("not tested", "equal"));
  EXPECT_THAT(BriefsOf(Render(ReportFormat::kJson)).front()["brief"].get<std::string>(), Message("Untested", "all t"));
  EXPECT_THAT(page, Not(HasSubstr("have been")));
  EXPECT_THAT(page, Not(HasSubstr("detectable 1")));
  for (const Json& row : ComparisonRows()) {
    if (row["kind"] != "suite_mean") continue;
    EXPECT_EQ(row["outcome"], "undecided");
    EXPECT_FALSE(row["adjusted_low"].is_null()) << "programs have what was assumed";
  }
}

// Nobody knows anything: the reason is no property of the attention.
TEST_F(ReportTest, ATableOfZerosIsSaidBefore) {
  Make({.question_count = 8, .variants = {"baseline", "sharp"}, .cut_count = 8, .nothing_right = true});
  const Json briefs = BriefsOf(Render(ReportFormat::kJson));
  ASSERT_EQ(briefs.size(), 1u);
  EXPECT_THAT(briefs.front()["brief_note"].get<std::string>(),
              Message("baseline", "sharp", "0 of 128", "100 %", "tokenizer"));
  MakePlain();
  EXPECT_THAT(Render(), Not(HasSubstr("nothing right")));
}

// Of a sweep all values are meant, and counted.
TEST_F(ReportTest, ASweepOfZerosIsSaidBefore) {
  Make({.question_count = 8, .variants = {"baseline"}, .temperatures = {"0.7", "1.3"}, .nothing_right = true});
  const Json briefs = BriefsOf(Render(ReportFormat::kJson));
  ASSERT_EQ(briefs.size(), 1u);
  EXPECT_THAT(briefs.front()["brief_note"].get<std::string>(), Message("baseline", "all temperatures", "0 of 192"));
}

// The newest job was interrupted: its page names the one before, unless a job was named.
TEST_F(ReportTest, AnInterruptedJobNamesACompleteOne) {
  Make({.question_count = 8});
  EXPECT_THAT(Render(), Not(HasSubstr("(--job=1)")));
  Make({.question_count = 8, .answered_of_last_length = 4});
  EXPECT_THAT(Render(), MessageIn("answers", "jobs/1", "(--job=1)"));
  EXPECT_THAT(Render(ReportFormat::kHtml, "2/baseline"), Not(HasSubstr("(--job=1)")));
  EXPECT_THAT(Render(ReportFormat::kLatex), HasSubstr("\\label{tab:varifocal-job2}"));
}

}  // namespace
}  // namespace varifocal
