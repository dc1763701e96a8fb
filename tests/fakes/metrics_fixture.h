// A server with metrics, and what a scrape of them has, in tests.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/fakes/server_fixture.h"

namespace varifocal {

class MetricsTest : public ServerTest {
 protected:
  void SetUp() override {
    options_.metrics_address = "127.0.0.1:0";
    ServerTest::SetUp();
  }

  httplib::Result Get(const std::string& path) {
    httplib::Client client("127.0.0.1", server_->metrics_port());
    return client.Get(path.c_str());
  }

  // Value of every series: "varifocal_jobs{state=\"queued\"}" -> 1.
  std::map<std::string, double> Scrape() {
    const httplib::Result answer = Get("/metrics");
    std::map<std::string, double> values;
    EXPECT_TRUE(answer && answer->status == 200);
    if (!answer) return values;
    for (absl::string_view line : absl::StrSplit(answer->body, '\n', absl::SkipEmpty())) {
      if (line[0] == '#') continue;
      const size_t blank = line.rfind(' ');
      double value = 0;
      EXPECT_TRUE(absl::SimpleAtod(line.substr(blank + 1), &value)) << line;
      EXPECT_TRUE(values.emplace(line.substr(0, blank), value).second) << "twice: " << line;
    }
    return values;
  }

  // The server ends its records of a call after the client has the status.
  std::map<std::string, double> ScrapeWhenIdle() {
    std::map<std::string, double> values;
    do {
      values = Scrape();
    } while (values["varifocal_calls_active"] > 0);
    return values;
  }

  void RunJob() {
    v1::SubmitJobResponse response;
    ASSERT_TRUE(Submit(SmallJob(), &response).ok());
    while (!response.job().has_end_time()) *response.mutable_job() = GetJob(response.job().name());
  }
};

}  // namespace varifocal
