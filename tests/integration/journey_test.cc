// End-to-end test with the built programs and the shipped checkpoints: start the daemon, submit, compare, report; then
// the same suite with other engine settings and without a daemon, whose databases must have the same bits.
#include <signal.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

constexpr char kSuite[] = "tests/integration/tiny.yaml";
constexpr char kVariants[] = "baseline,focal-constant,focal-learned,baseline@t=0.7";

std::vector<std::string> ModelFlags() {
  return {"--model=baseline=models/baseline", "--model=focal-constant=models/focal-constant",
          "--model=focal-learned=models/focal-learned"};
}

std::string Flag(const std::string& name, const std::string& value) { return "--" + name + "=" + value; }

// Runs the suite on a daemon started with these flags and stops the daemon in order.
void RunOnDaemon(const std::string& database, const std::vector<std::string>& flags) {
  TemporaryDirectory directory;
  std::vector<std::string> arguments = {Flag("db", database), Flag("port-file", directory.File("port"))};
  for (const std::string& flag : ModelFlags()) arguments.push_back(flag);
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  DaemonProcess daemon(arguments);
  ASSERT_TRUE(daemon.WaitForFile(directory.File("port"), 60)) << daemon.Errors();
  const std::string address = daemon.Address();
  EXPECT_EQ("127.0.0.1:" + ReadFile(directory.File("port")), address + "\n");
  const ProcessResult submit =
      RunProcess("varifocal", {"submit", kSuite, Flag("daemon", address), Flag("models", kVariants), "--wait"},
                 {.seconds_max = 280});
  ASSERT_EQ(submit.exit_code, 0) << submit.err << submit.out << daemon.Errors();
  EXPECT_EQ(submit.out.find('\033'), std::string::npos) << "no colour in a pipe";
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(30), 0) << daemon.Errors();
}

TEST(JourneyTest, FromSubmitToReportAndTheSameBitsUnderOtherSettings) {
  TemporaryDirectory directory;
  const std::string first = directory.File("first.db"), second = directory.File("second.db"),
                    third = directory.File("third.db");
  ASSERT_NO_FATAL_FAILURE(RunOnDaemon(first, {}));

  const ProcessResult compare = RunProcess("varifocal", {"compare", Flag("db", first), "--baseline=baseline",
                                                         "--candidate=focal-constant", "--format=json"});
  ASSERT_EQ(compare.exit_code, 0) << compare.err;
  const auto rows = ParseJson(compare.out);
  ASSERT_TRUE(rows.ok()) << rows.status() << compare.out;
  // Checks the fields of one object; the position of the rows is not specified.
  const Json& list = rows->is_array() ? *rows : rows->at("comparisons");
  ASSERT_FALSE(list.empty());
  for (const Json& row : list) {
    if (row.at("kind") != "cell") continue;
    EXPECT_EQ(GetInt(row, "sample_count").value(), 8);
    EXPECT_EQ(GetInt(row, "cluster_count").value(), 2);
    EXPECT_EQ(GetInt(row, "failed_count").value(), 0);
    const double difference = GetDouble(row, "difference").value();
    EXPECT_NEAR(difference, GetDouble(row, "candidate_mean").value() - GetDouble(row, "baseline_mean").value(), 1e-12);
    EXPECT_LE(GetDouble(row, "low").value(), difference);
    EXPECT_GE(GetDouble(row, "high").value(), difference);
  }

  const ProcessResult report =
      RunProcess("varifocal", {"report", Flag("db", first), Flag("out", directory.File("report.html"))});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  const std::string page = ReadFile(directory.File("report.html"));
  EXPECT_NE(page.find("<svg"), std::string::npos);
  for (const char* fetch : {"src=\"http", "href=\"http", "@import", "url(http"}) {
    EXPECT_EQ(page.find(fetch), std::string::npos) << "the page must need no network: " << fetch;
  }

  // Chunks, batch, threads and the prefix cache must not change one bit of one answer.
  ASSERT_NO_FATAL_FAILURE(RunOnDaemon(second, {"--prefill-chunk-tokens=100", "--batch-size-max=1", "--threads=1",
                                               "--prefix-cache=off", "--in-flight=1"}));
  const ProcessResult same = RunProcess("varifocal", {"diff", first, second});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;

  // Without a daemon: the same server in one process.
  std::vector<std::string> run = {"run", kSuite, Flag("models", kVariants), Flag("db", third)};
  for (const std::string& flag : ModelFlags()) run.push_back(flag);
  const ProcessResult embedded = RunProcess("varifocal", run, {.seconds_max = 280});
  ASSERT_EQ(embedded.exit_code, 0) << embedded.err << embedded.out;
  EXPECT_EQ(RunProcess("varifocal", {"diff", first, third}).exit_code, 0);

  // The control: another data seed gives other questions, and `diff` reports it.
  run[3] = Flag("db", directory.File("fourth.db"));
  run.push_back("--seed=8");
  run.push_back("--limit=1");
  ASSERT_EQ(RunProcess("varifocal", run, {.seconds_max = 280}).exit_code, 0);
  EXPECT_EQ(RunProcess("varifocal", {"diff", first, directory.File("fourth.db")}).exit_code, 1);
}

// The time zone of a process changes nothing that is stored or shown: times are counted in UTC. Method: each process of a
// job that is stopped and resumed has another zone, and the same page is made in two zones.
TEST(JourneyTest, TimeZonesChangeNothing) {
  TemporaryDirectory directory;
  const std::string database = directory.File("r.db");
  const auto in_zone = [](const char* zone) {
    setenv("TZ", zone, 1);
    tzset();
  };
  const int64_t before_us = Clock::Real().WallMicros();
  const auto start = [&] {
    return std::make_unique<DaemonProcess>(
        std::vector<std::string>{Flag("db", database), "--model=baseline=models/baseline", "--in-flight=1"});
  };
  in_zone("Pacific/Kiritimati");  // 14 hours ahead of UTC
  auto daemon = start();
  std::string address = daemon->Address();
  ASSERT_NE(address, "") << daemon->Errors();
  in_zone("Etc/GMT+12");  // 12 hours behind
  const ProcessResult submit =
      RunProcess("varifocal", {"submit", kSuite, Flag("daemon", address), "--models=baseline,baseline@t=0.7"});
  ASSERT_EQ(submit.exit_code, 0) << submit.err;
  daemon->Signal(SIGTERM);
  EXPECT_EQ(daemon->Wait(30), 0) << daemon->Errors();
  daemon = start();
  address = daemon->Address();
  ASSERT_NE(address, "") << daemon->Errors();
  in_zone("America/St_Johns");
  const ProcessResult watch = RunProcess("varifocal", {"watch", "1", Flag("daemon", address)}, {.seconds_max = 280});
  EXPECT_EQ(watch.exit_code, 0) << watch.err;
  daemon->Signal(SIGTERM);
  EXPECT_EQ(daemon->Wait(30), 0) << daemon->Errors();
  const int64_t after_us = Clock::Real().WallMicros();

  const std::vector<std::string> times = {
      "query", Flag("db", database), "--format=json",
      "SELECT create_us, start_us, end_us, (SELECT min(record_us) FROM generations)"
      " AS first_us, (SELECT max(record_us) FROM generations) AS last_us FROM jobs"};
  std::string pages[2], rows[2];
  for (const int i : {0, 1}) {
    in_zone(i == 0 ? "Asia/Kathmandu" : "UTC");
    rows[i] = RunProcess("varifocal", times).out;
    const ProcessResult report =
        RunProcess("varifocal", {"report", Flag("db", database), Flag("out", directory.File("r.html"))});
    ASSERT_EQ(report.exit_code, 0) << report.err;
    pages[i] = ReadFile(directory.File("r.html"));
  }
  unsetenv("TZ");
  tzset();
  EXPECT_EQ(pages[0], pages[1]);
  EXPECT_EQ(rows[0], rows[1]);
  const Json row = ParseJson(rows[0])->at(0);
  // A job's end is its start and the time since on the monotonic clock, which a wall clock that is being adjusted may pass.
  constexpr int64_t kClocksDifferUs = 1'000'000;
  int64_t last_us = before_us;
  for (const char* name : {"create_us", "start_us", "first_us", "last_us", "end_us"}) {
    EXPECT_GE(row.at(name).get<int64_t>(), last_us - kClocksDifferUs) << name << ": " << rows[0];
    last_us = row.at(name).get<int64_t>();
  }
  EXPECT_LE(last_us, after_us + kClocksDifferUs);
}

}  // namespace
}  // namespace varifocal
