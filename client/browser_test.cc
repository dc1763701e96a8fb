// The report and the dashboard in a real browser, headless Chromium: the sample browser's filters, the width on a phone,
// and a page that renews itself while a job runs. Skipped where there is no Chromium.
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/http_server.h"
#include "client/dashboard/dashboard.h"
#include "db/fakes/fake_results.h"
#include "tests/fakes/report_fixture.h"

namespace varifocal::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string FindChromium() {
  const char* path = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const std::string file = absl::StrCat(folder, "/", name);
      if (std::filesystem::exists(file)) return file;
    }
  }
  return "";
}

// The document at `url` after the page's own scripts have run for 10 simulated seconds.
std::string DomOf(const std::string& url) {
  const testing_support::TemporaryDirectory profile;
  const testing_support::ProcessResult run = testing_support::RunProcess(
      FindChromium(),
      {"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=" + profile.path(),
       "--window-size=1280,900", "--virtual-time-budget=10000", "--dump-dom", url});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.out;
}

class BrowserTest : public ReportTest {
 protected:
  void SetUp() override {
    ReportTest::SetUp();
    if (FindChromium().empty()) GTEST_SKIP() << "no Chromium on the PATH";
  }

  // Shows `page` in a frame `width` pixels wide and evaluates `script`, in which `doc` is the page's document and `out`
  // an object; returns `out`.
  Json Evaluate(const std::string& page, int width, const std::string& script) {
    const std::string frame = absl::StrReplaceAll(page, {{"&", "&amp;"}, {"\"", "&quot;"}});
    const std::string path = directory_.File("frame.html");
    testing_support::WriteFile(
        path,
        absl::StrCat("<!doctype html><meta charset=\"utf-8\"><iframe id=\"f\" width=\"", width,
                     "\" height=\"900\" style=\"border:0\" srcdoc=\"", frame,
                     "\"></iframe><pre id=\"result\"></pre><script>document.getElementById('f').onload = function () "
                     "{ var doc = this.contentDocument, out = {};\n",
                     script, "\ndocument.getElementById('result').textContent = JSON.stringify(out); };</script>"));
    const std::string dom = DomOf("file://" + path);
    const size_t begin = dom.find("<pre id=\"result\">") + 17;
    auto result =
        ParseJson(absl::StrReplaceAll(dom.substr(begin, dom.find("</pre>", begin) - begin), {{"&amp;", "&"}}));
    EXPECT_TRUE(result.ok()) << dom.substr(begin, 200);
    return result.ok() ? *result : Json::object();
  }

  testing_support::TemporaryDirectory directory_;
};

TEST_F(BrowserTest, TheSampleBrowserFilters) {
  Make({.question_count = 16, .has_failures = true, .answer = "I cannot tell."});
  const Json found = Evaluate(Render(), 1280, R"(
    function choose(values) {
      ['task', 'length', 'outcome', 'candidate', 'flag', 'text'].forEach(function (name) {
        doc.getElementById('filter-' + name).value = values[name] || '';
      });
      doc.getElementById('filters').dispatchEvent(new Event('input'));
      var rows = Array.prototype.filter.call(doc.querySelectorAll('.sample'), function (row) {
        return row.getClientRects().length > 0;
      });
      return rows.length === parseInt(doc.getElementById('shown').textContent) ? rows.length : -1;
    }
    out.folded = !doc.getElementById('filters').checkVisibility();
    var link = doc.querySelector('nav a[href="#samples"]');
    doc.getElementById('samples-fold').open = true;
    out.has_link = link !== null && doc.getElementById('samples').closest('details').id === 'samples-fold';
    out.all = choose({});
    out.task = choose({task: 'rag_facts'});
    out.length = choose({task: 'rag_facts', length: '8192'});
    out.flipped = choose({outcome: 'flipped'});
    out.gain = choose({outcome: 'gain'});
    out.sharp_gain = choose({outcome: 'gain', candidate: '0'});
    out.failed = choose({flag: 'failed'});
    out.refused = choose({flag: 'refused'});
    out.text = choose({text: 'HARBOR'});
    out.nothing = choose({text: 'no such words'});)");
  EXPECT_EQ(found["folded"], true);
  EXPECT_EQ(found["has_link"], true);
  EXPECT_EQ(found["all"], 128) << "two tasks, four lengths, 16 questions";
  EXPECT_EQ(found["task"], 64);
  EXPECT_EQ(found["length"], 16);
  EXPECT_GT(found["flipped"].get<int>(), found["gain"].get<int>()) << "soft loses one";
  EXPECT_GT(found["gain"].get<int>(), 8);
  EXPECT_LT(found["sharp_gain"].get<int>(), found["gain"].get<int>()) << "soft gains one where sharp does not";
  EXPECT_EQ(found["failed"], 2) << "question 3 at 8K of both tasks";
  EXPECT_GT(found["refused"].get<int>(), 16);
  EXPECT_LT(found["refused"].get<int>(), 128);
  EXPECT_EQ(found["text"], 128) << "in every prompt";
  EXPECT_EQ(found["nothing"], 0);
}

// What is wider than the screen scrolls in a box of its own; the page does not.
TEST_F(BrowserTest, ThePageIsAsWideAsThePhone) {
  Make({.question_count = 16,
        .temperatures = {"0.5", "0.7", "0.85", "1.2"},
        .has_evidence = true,
        .has_attention = true});
  for (const int width : {360, 400, 1280}) {
    const Json found = Evaluate(Render(), width, R"(
      out.width = doc.documentElement.scrollWidth;
      out.cut = [];
      Array.prototype.forEach.call(doc.querySelectorAll('svg.chart'), function (chart) {
        var box = chart.getBoundingClientRect();
        if (box.width === 0) return;
        Array.prototype.forEach.call(chart.querySelectorAll('text'), function (text) {
          var part = text.getBoundingClientRect();
          if (part.right > box.right + 1 || part.left < box.left - 1) out.cut.push(text.textContent);
        });
      });)");
    EXPECT_LE(found["width"], width);  // less by a scroll bar
    EXPECT_EQ(found["cut"], Json::array()) << "labels outside their drawing, " << width << " pixels";
  }
}

// Who sees the first screen alone sees every verdict and the picture, as do those with a phone.
TEST_F(BrowserTest, TheFirstScreenHasVerdictsAndPicture) {
  MakePlain();
  for (const auto& [width, height] : {std::pair{1280, 900}, std::pair{400, 800}}) {
    const Json found = Evaluate(Render(), width, R"(
      function bottoms(selector) {
        return Array.prototype.map.call(doc.querySelectorAll(selector), function (one) {
          return one.getBoundingClientRect();
        }).filter(function (box) { return box.height > 0; }).map(function (box) { return Math.round(box.bottom); });
      }
      out.briefs = bottoms('.brief');
      out.pictures = bottoms('.picture svg');)");
    ASSERT_EQ(found["briefs"].size(), 2u);
    ASSERT_EQ(found["pictures"].size(), 1u);
    for (const char* part : {"briefs", "pictures"}) {
      for (const Json& bottom : found[part]) EXPECT_LE(bottom.get<int>(), height) << part << " at " << width;
    }
  }
}

// Tables of comparisons fit into a desktop's page, and on a phone the outcome is in view without scrolling.
TEST_F(BrowserTest, OutcomesAreInView) {
  Make({.question_count = 16, .has_failures = true});
  for (const int width : {400, 1280}) {
    const Json found = Evaluate(Render(), width, R"(
      out.hidden = [];
      out.outcome_count = 0;
      Array.prototype.forEach.call(doc.querySelectorAll('details.fold'), function (fold) { fold.open = true; });
      ['suite', 'table', 'growth'].forEach(function (id) {
        var box = doc.querySelector('#' + id + ' .wide');
        var right = box.getBoundingClientRect().right;
        Array.prototype.forEach.call(box.querySelectorAll('tbody td'), function (cell) {
          if (!/^(better|worse|undecided|equivalent)/.test(cell.textContent)) return;
          out.outcome_count += 1;
          if (cell.getBoundingClientRect().right > right + 1) out.hidden.push(id + ': ' + cell.textContent);
        });
      });)");
    EXPECT_GT(found["outcome_count"].get<int>(), 20);
    EXPECT_EQ(found["hidden"], Json::array()) << width << " pixels";
  }
}

// Likewise the scores of a job on the dashboard, with the long names and the lengths of a sweep.
TEST_F(BrowserTest, ScoresOfTheDashboardAreInView) {
  Make({.question_count = 16, .temperatures = {"0.85", "1.25"}});
  FakeClock clock(kTimeUs);
  Dashboard dashboard(path_, clock);
  const std::string style = absl::StrCat("<style>", dashboard.Answer({"/style.css", {}}).body, "</style>");
  const std::string page = absl::StrReplaceAll(dashboard.Answer({"/jobs/1", {}}).body,
                                               {{"<link rel=\"stylesheet\" href=\"/style.css\">", style}});
  for (const int width : {400, 1280}) {
    const Json found = Evaluate(page, width, R"(
      out.hidden = [];
      out.cell_count = 0;
      Array.prototype.forEach.call(doc.querySelectorAll('.scores td, .scores th'), function (cell) {
        out.cell_count += 1;
        if (cell.getBoundingClientRect().right > cell.closest('.wide').getBoundingClientRect().right + 1)
          out.hidden.push(cell.textContent);
      });)");
    EXPECT_EQ(found["cell_count"], 60) << "two tasks: a line of names and five variants, five columns";
    EXPECT_EQ(found["hidden"], Json::array()) << width << " pixels";
  }
}

// The server records more answers before the second request, which only the page's script makes.
TEST_F(BrowserTest, TheDashboardRenewsItself) {
  FakeClock clock(kTimeUs);
  auto writer = *db::Writer::Open(path_, clock);
  const db::NewJob job = db::FakeJob({.planned_count = 48});
  const int64_t job_id = writer->AddJob(job)->job_id;
  const std::vector<db::CellRow> cells = *writer->Cells(job_id);
  ASSERT_TRUE(writer->SetJobState(job_id, db::JobState::kRunning).ok());
  const int64_t execution_id = *writer->AddExecution(db::FakeExecution());
  const auto record = [&](int64_t begin, int64_t end) {
    for (const db::CellRow& cell : cells) {
      for (int64_t i = begin; i < end; ++i) {
        EXPECT_TRUE(writer->RecordSample(db::FakeOutcome(cell, job, execution_id, i)).ok());
        clock.Advance(1'000'000);
      }
    }
  };
  record(0, 12);
  Dashboard dashboard(path_, clock);
  int page_count = 0;
  const auto server = HttpServer::Start(0, [&](const HttpRequest& request) {
    if (request.path == "/jobs/1" && ++page_count == 2) record(12, 24);
    return dashboard.Answer(request);
  });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string page = DomOf(absl::StrCat("http://127.0.0.1:", (*server)->port(), "/jobs/1"));
  EXPECT_GE(page_count, 2);
  EXPECT_THAT(page, AllOf(HasSubstr("48 of 96 answered"), Not(HasSubstr("24 of 96 answered")), HasSubstr("<title>50 %"),
                          HasSubstr("id=\"offline\" hidden")));
}

}  // namespace
}  // namespace varifocal::client
