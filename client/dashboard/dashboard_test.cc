// The dashboard over HTTP, in this process: status codes, hosts, paths, HEAD, and a database that grows while it is served.
#include "client/dashboard/dashboard.h"
#include "base/mutex.h"

#include <httplib.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/report/report.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecondUs = 1'000'000;

class DashboardTest : public ::testing::Test {
 protected:
  DashboardTest() { writer_ = *db::Writer::Open(path_, clock_); }

  int64_t AddJob(const db::FakeJobOptions& options) {
    job_ = db::FakeJob(options);
    const int64_t job_id = writer_->AddJob(job_)->job_id;
    cells_ = *writer_->Cells(job_id);
    return job_id;
  }

  void Record(int64_t begin, int64_t end, bool fails = false) {
    const int64_t execution_id = *writer_->AddExecution(db::FakeExecution());
    for (const db::CellRow& cell : cells_) {
      for (int64_t i = begin; i < end; ++i) {
        const auto make = fails ? db::FakeFailure : db::FakeOutcome;
        ASSERT_TRUE(writer_->RecordSample(make(cell, job_, execution_id, i)).ok());
        clock_.Advance(kSecondUs);
      }
    }
  }

  void Move(int64_t job_id, db::JobState state, const std::string& error = "") {
    ASSERT_TRUE(writer_->SetJobState(job_id, state, error).ok());
  }

  // With answers to the first questions of each cell.
  int64_t RunningJob(const db::FakeJobOptions& options, int64_t answered_count) {
    const int64_t job_id = AddJob(options);
    Move(job_id, db::JobState::kRunning);
    Record(0, answered_count);
    return job_id;
  }

  void Serve() {
    server_ = *HttpServer::Start(0, [this](const HttpRequest& request) { return dashboard_.Answer(request); });
  }

  httplib::Result Get(const std::string& path, httplib::Headers headers = {}) {
    return httplib::Client("127.0.0.1", server_->port()).Get(path, headers);
  }
  std::string Body(const std::string& path) {
    const httplib::Result answer = Get(path);
    EXPECT_TRUE(answer != nullptr) << path;
    if (answer == nullptr) return "";
    EXPECT_EQ(answer->status, 200) << path << "\n" << answer->body;
    return answer->body;
  }
  int Status(const std::string& path) {
    const httplib::Result answer = Get(path);
    return answer == nullptr ? -1 : answer->status;
  }

  testing_support::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("results.db");
  FakeClock clock_{1'795'271'400'000'000};
  std::unique_ptr<db::Writer> writer_;
  db::NewJob job_;
  std::vector<db::CellRow> cells_;
  Dashboard dashboard_{path_, clock_};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(DashboardTest, ADatabaseWithoutJobsNamesTheCommandThatMakesOne) {
  Serve();
  EXPECT_THAT(Body("/"),
              AllOf(HasSubstr("0 running of 0 jobs"), HasSubstr("varifocal submit"), HasSubstr("data-live")));
}

TEST_F(DashboardTest, ARunningJobHasProgressSpeedAndPartialScoresWithoutVerdict) {
  RunningJob({.planned_count = 48}, 12);
  Serve();
  // 24 samples at one a second, 72 left: 23 answers in 24 s.
  EXPECT_THAT(Body("/"), AllOf(HasSubstr("1 running of 1 job"), HasSubstr("24 of 96 answered"),
                               HasSubstr("about 1 min left"), MessageIn("58 answers")));
  const std::string page = Body("/jobs/1");
  EXPECT_THAT(page, AllOf(HasSubstr("<title>25 % · Job 1: fake"), HasSubstr("12 of 48"), HasSubstr("Scores so far"),
                          HasSubstr("data-live"), HasSubstr(" to "), Not(HasSubstr("class=\"verdict"))));
}

TEST_F(DashboardTest, TheListHasTheMeansSoFar) {
  AddJob({.variants = {"baseline", "focal"}, .lengths = {1024, 2048}, .planned_count = 8});
  Serve();
  EXPECT_THAT(Body("/"), Not(HasSubstr("data scores"))) << "no answer yet";
  Move(1, db::JobState::kRunning);
  cells_.resize(1);  // the baseline's at 1,024
  Record(0, 4);
  const std::string page = Body("/");
  EXPECT_THAT(page, AllOf(HasSubstr(">Mean so far, %<"), HasSubstr(">1K<"), HasSubstr(">2K<"),
                          HasSubstr("<th scope=\"row\">baseline</th><td class=\"n partial\">"),
                          HasSubstr("<th scope=\"row\">focal</th><td class=\"n partial\">–</td>")));
}

// Two questions of one context: there is no interval, and a job that has succeeded will not have more.
TEST_F(DashboardTest, AJobOfOneContextSaysWhyItHasNoVerdict) {
  const int64_t job_id = RunningJob({.planned_count = 2}, 2);
  Move(job_id, db::JobState::kSucceeded);
  Serve();
  EXPECT_THAT(Body("/jobs/1"), MessageIn("one context", "--limit"));
}

TEST_F(DashboardTest, AJobThatGrowsIsShownAsItIsNow) {
  const int64_t job_id = AddJob({.planned_count = 8});
  Serve();
  EXPECT_THAT(Body("/jobs/1"), AllOf(HasSubstr("state queued"), HasSubstr("0 of 16 answered"), HasSubstr("0 of 8")));
  Move(job_id, db::JobState::kRunning);
  Record(0, 4);
  EXPECT_THAT(Body("/jobs/1"), AllOf(HasSubstr("state running"), HasSubstr("8 of 16 answered"), HasSubstr("4 of 8")));
  Record(4, 8);
  Move(job_id, db::JobState::kSucceeded);
  EXPECT_THAT(Body("/jobs/1"),
              AllOf(HasSubstr("16 of 16 answered"), Not(HasSubstr(" of 8<")), HasSubstr("class=\"verdict"),
                    Not(HasSubstr("data-live")), HasSubstr("version 0.1.0+test: 16 samples")));
  AddJob({});
  EXPECT_THAT(Body("/"), HasSubstr("Job 2: fake"));
}

TEST_F(DashboardTest, AFinishedJobIsComputedOnceUntilItsRowsChange) {
  const int64_t job_id = RunningJob({.planned_count = 8}, 8);
  Move(job_id, db::JobState::kSucceeded);
  Serve();
  const std::string page = Body("/jobs/1");
  EXPECT_THAT(page, AllOf(HasSubstr("class=\"verdict"), Not(HasSubstr("note\">Computed"))));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Body("/jobs/1"), page);
    EXPECT_EQ(Body("/jobs/1/report.csv"), Body("/jobs/1/report.csv"));
    Body("/");
  }
  EXPECT_EQ(dashboard_.cache().computed_count(), 3) << "the page, its report, and its means in the list";
  // Another job's rows change nothing here, imported scores do.
  const int64_t other = AddJob({.planned_count = 8});
  Move(other, db::JobState::kRunning);
  Record(0, 4);
  EXPECT_EQ(Body("/jobs/1"), Body("/jobs/1"));
  EXPECT_EQ(dashboard_.cache().computed_count(), 3);
  const int64_t generation_id = (*db::Reader::Open(path_))->Samples({.job_id = job_id})->front().generation_id;
  ASSERT_TRUE(writer_
                  ->ImportScores(job_id, {{.variant = "baseline",
                                           .metric = "imported/judge",
                                           .source = "judged.jsonl",
                                           .source_sha256 = std::string(64, 'a'),
                                           .values = {{.generation_id = generation_id, .value = 1}}}})
                  .ok());
  Body("/jobs/1/report.csv");
  Body("/jobs/1");
  EXPECT_EQ(dashboard_.cache().computed_count(), 5);
}

// A clock on which every computation takes two seconds: each look at it is one.
class SlowClock : public Clock {
 public:
  int64_t WallMicros() const override { return clock_.WallMicros(); }
  int64_t MonotonicMicros() const override {
    clock_.Advance(2 * kSecondUs);
    return clock_.MonotonicMicros();
  }
  bool Wait(CondVar& changed, Mutex& mutex, int64_t us, const std::function<bool()>& is_done) const override
      VF_REQUIRES(mutex) {
    return clock_.Wait(changed, mutex, us, is_done);
  }

 private:
  mutable FakeClock clock_{1'795'271'400'000'000};
};

TEST_F(DashboardTest, ScoresOfARunningJobHaveTheirAge) {
  RunningJob({.planned_count = 8}, 2);
  const SlowClock clock;
  Dashboard dashboard(path_, clock);
  const auto body = [&] { return dashboard.Answer({.path = "/jobs/1", .parameters = {}}).body; };
  EXPECT_THAT(body(), AllOf(HasSubstr("4 of 16 answered"), Not(HasSubstr("note\">Computed"))));
  Record(2, 4);
  EXPECT_THAT(body(), AllOf(HasSubstr("8 of 16 answered"), HasSubstr("2 of 8"), HasSubstr("note\">Computed "),
                            HasSubstr(" ago, over 4 answers.")));
  EXPECT_EQ(dashboard.cache().computed_count(), 1);
  while (dashboard.cache().computed_count() == 1) body();
  EXPECT_THAT(body(), AllOf(HasSubstr("4 of 8"), Not(HasSubstr("note\">Computed"))));
  EXPECT_EQ(dashboard.cache().computed_count(), 2);
}

TEST_F(DashboardTest, OnlyUnfinishedCellsAreMarked) {
  const int64_t job_id = AddJob({.planned_count = 4});
  Move(job_id, db::JobState::kRunning);
  cells_.resize(1);  // the baseline's is finished, the other has not begun
  Record(0, 4);
  Serve();
  const std::string page = Body("/jobs/1");
  EXPECT_THAT(page, AllOf(HasSubstr("td class=\"n\">"), HasSubstr("td class=\"n partial\">"), HasSubstr("0 of 4"),
                          Not(HasSubstr("4 of 4<"))));
}

TEST_F(DashboardTest, AFailedJobSaysWhyAndCountsItsFailures) {
  const int64_t job_id = RunningJob({.planned_count = 8}, 4);
  Record(4, 6, /*fails=*/true);
  Move(job_id, db::JobState::kFailed, "the model \"focal\" <is> gone");
  Serve();
  EXPECT_THAT(Body("/"),
              AllOf(HasSubstr("&quot;focal&quot; &lt;is&gt; gone"), HasSubstr("8 of 16 answered, 4 failed")));
  EXPECT_THAT(Body("/jobs/1"),
              AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("needs 9 pages"), HasSubstr("varifocal resume 1"),
                    HasSubstr("2 failed"), Not(HasSubstr("class=\"verdict"))));
}

TEST_F(DashboardTest, ReportsAreThoseOfTheReportVerb) {
  const int64_t job_id = RunningJob({.planned_count = 8}, 8);
  Move(job_id, db::JobState::kSucceeded);
  Serve();
  for (const auto& [ending, format] : {std::pair{"", ReportFormat::kHtml},
                                       {".csv", ReportFormat::kCsv},
                                       {".json", ReportFormat::kJson},
                                       {".md", ReportFormat::kMarkdown},
                                       {".tex", ReportFormat::kLatex}}) {
    EXPECT_EQ(Body(absl::StrCat("/jobs/1/report", ending)), *RenderReport({.database_path = path_, .format = format}))
        << ending;
  }
}

TEST_F(DashboardTest, PathsThatAreNotThereAreNotFound) {
  AddJob({});
  Serve();
  for (const char* path : {"/nothing", "/jobs", "/jobs/", "/jobs/2", "/jobs/0", "/jobs/-1", "/jobs/01", "/jobs/1x",
                           "/jobs/99999999999999999999", "/jobs/1/", "/jobs/1/report.pdf", "/jobs/1/report/x",
                           "/../results.db", "/%2e%2e/results.db", "/style.css/", "/jobs/1%00", "//jobs/1"}) {
    EXPECT_EQ(Status(path), 404) << path;
  }
  EXPECT_EQ(Status("/?before=x"), 400);
  EXPECT_EQ(Status("/?before=2"), 200);
  EXPECT_THAT(Get("/jobs/2")->body, HasSubstr("no job 2"));
}

TEST_F(DashboardTest, HeadHasTheHeadersOfGetAndNoBody) {
  AddJob({});
  Serve();
  const httplib::Result head = httplib::Client("127.0.0.1", server_->port()).Head("/style.css");
  ASSERT_TRUE(head != nullptr);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->body, "");
  EXPECT_EQ(head->get_header_value("Content-Length"), absl::StrCat(Body("/style.css").size()));
  EXPECT_EQ(httplib::Client("127.0.0.1", server_->port()).Head("/jobs/7")->status, 404);
}

TEST_F(DashboardTest, NothingCanBeChanged) {
  AddJob({});
  Serve();
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    httplib::Request request;
    request.method = method;
    request.path = "/jobs/1";
    request.body = "x=1";
    const httplib::Result answer = httplib::Client("127.0.0.1", server_->port()).send(request);
    ASSERT_TRUE(answer != nullptr) << method;
    EXPECT_EQ(answer->status, 405) << method;
    EXPECT_EQ(answer->get_header_value("Allow"), "GET, HEAD");
  }
}

TEST_F(DashboardTest, OnlyItsOwnHostIsAnswered) {
  AddJob({});
  Serve();
  const std::string port = absl::StrCat(":", server_->port());
  for (const std::string& host : {"localhost" + port, "LOCALHOST" + port, "127.0.0.1" + port, "[::1]" + port}) {
    EXPECT_EQ(Get("/", {{"Host", host}})->status, 200) << host;
  }
  for (const std::string& host :
       std::vector<std::string>{"evil.example", "evil.example" + port, "localhost", "127.0.0.1:1",
                                "localhost.evil.example" + port, "127.0.0.1" + port + "0", "0.0.0.0" + port}) {
    const httplib::Result answer = Get("/", {{"Host", host}});
    EXPECT_EQ(answer->status, 403) << host;
    EXPECT_THAT(answer->body, Not(HasSubstr("Job 1"))) << host;
  }
  EXPECT_TRUE(IsOwnHost("localhost", 80));
  EXPECT_FALSE(IsOwnHost("localhost", 81));
  EXPECT_FALSE(IsOwnHost("", 80));
}

TEST_F(DashboardTest, PagesAllowNoOtherSourceAndNoFrame) {
  AddJob({});
  Serve();
  const httplib::Result page = Get("/");
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"),
              AllOf(HasSubstr("default-src 'none'"), HasSubstr("frame-ancestors 'none'"), Not(HasSubstr("unsafe"))));
  EXPECT_FALSE(page->has_header("Access-Control-Allow-Origin"));
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  // Self-contained: whatever is loaded is this server's.
  EXPECT_THAT(page->body, AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://"))));
  EXPECT_THAT(Body("/style.css"), AllOf(HasSubstr(".meter"), HasSubstr("--paper"), Not(HasSubstr("url("))));
}

TEST_F(DashboardTest, OlderJobsAreOnFurtherPages) {
  for (int i = 0; i < 27; ++i) AddJob({});
  Serve();
  EXPECT_THAT(Body("/"), AllOf(HasSubstr("Job 27:"), HasSubstr("Job 3:"), Not(HasSubstr("Job 2:")),
                               HasSubstr("href=\"/?before=3\""), MessageIn("newest 25")));
  EXPECT_THAT(Body("/?before=3"),
              AllOf(HasSubstr("Job 2:"), HasSubstr("Job 1:"), Not(HasSubstr("Job 3:")), Not(HasSubstr("/?before="))));
}

TEST_F(DashboardTest, ADatabaseThatIsGoneIsAnAnswerAndNoCrash) {
  Serve();
  writer_.reset();
  std::filesystem::remove(path_);
  EXPECT_EQ(Status("/"), 404);
  testing_support::WriteFile(path_,
                             "no database at all, but long enough to be read as the header of one: ............");
  EXPECT_EQ(Status("/"), 400);
}

TEST_F(DashboardTest, APortThatIsTakenIsAnError) {
  Serve();
  const auto second = HttpServer::Start(server_->port(), [](const HttpRequest&) { return HttpAnswer(); });
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat(server_->port())));
}

TEST_F(DashboardTest, TheVerbServesUntilASignal) {
  AddJob({});
  testing_support::BackgroundProcess verb("varifocal", {"dashboard", "--db=" + path_, "--port=0"});
  std::string url;
  while (verb.IsRunning() && url.find('\n') == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    url = verb.Output();
  }
  ASSERT_THAT(url, ::testing::StartsWith("http://127.0.0.1:"));
  const int port = std::stoi(url.substr(std::string("http://127.0.0.1:").size()));
  const httplib::Result answer = httplib::Client("127.0.0.1", port).Get("/jobs/1");
  ASSERT_TRUE(answer != nullptr);
  EXPECT_EQ(answer->status, 200);
  verb.Signal(SIGTERM);
  EXPECT_EQ(verb.Wait(60), 0) << verb.Errors();
}

}  // namespace
}  // namespace varifocal::client
