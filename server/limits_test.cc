// docs/limits.md and the code have the same numbers. Method: table rows are found by the prefix of their first column,
// and the number is compared with the constant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "db/writer.h"
#include "eval_tasks/attention_inspection.h"
#include "eval_tasks/job_spec.h"
#include "server/engine/request_check.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/limits.h"
#include "server/rpc/page_token.h"
#include "server/server.h"
#include "server/server_limits.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

// The number in the second column of the row whose first column begins so; -1 when there is none.
int64_t InDocument(const std::string& document, const std::string& name) {
  for (absl::string_view line : absl::StrSplit(document, '\n')) {
    const std::vector<std::string> columns = absl::StrSplit(line, '|');
    if (columns.size() < 4 || absl::StripAsciiWhitespace(columns[1]).rfind(name, 0) != 0) continue;
    int64_t value = -1;
    EXPECT_TRUE(absl::SimpleAtoi(absl::StrReplaceAll(columns[2], {{",", ""}}), &value)) << line;
    return value;
  }
  return -1;
}

TEST(LimitsTest, TheDocumentHasTheNumbersOfTheCode) {
  const std::string document = testing_support::ReadFile("docs/limits.md");
  ASSERT_NE(document, "");
  const std::pair<const char*, int64_t> limits[] = {
      {"Samples of a job, over", kJobSampleCountMax},
      {"Cells of a job", kJobCellCountMax},
      {"Questions per task", kSampleCountMax},
      {"Concurrent samples of a job", kInFlightMax},
      {"Jobs that are queued", kQueuedJobsMax},
      {"Starts in a row", db::kUnendedStartsMax},
      {"Bytes of a message", kMessageBytesMax},
      {"Active calls (see below), of all", kAdmittedCallsMax},
      {"Bytes of their requests, of all", kAdmittedBytesMax},
      {"Active calls (see below), of one", kAdmittedCallsOfPeerMax},
      {"Bytes of their requests, of one", kAdmittedBytesOfPeerMax},
      {"Calls that wait for a thread", static_cast<int64_t>(kLaneQueueMax)},
      {"Calls of one model in its engine while no job", kEngineCallsMax},
      {"Calls of one model in its engine beside", kEngineCallsBesideJobMax},
      {"Streams of `WatchJob`", static_cast<int64_t>(kWatchesMax)},
      {"Requests that wait in one engine", EngineOptions().queue_length_max},
      {"Bytes of a `request_id`", static_cast<int64_t>(kRequestIdBytesMax)},
      {"Bytes of a text of `Tokenize`", static_cast<int64_t>(kTokenizeBytesMax)},
      {"Stop strings", static_cast<int64_t>(kStopsMax)},
      {"Continuations of a", static_cast<int64_t>(kContinuationsMax)},
      {"Shares of an inspection", kInspectedMassesMax},
      {"Rows of an inspection", kInspectedRowsMax},
      {"Entries of a page", kPageSizeMax},
      {"Streams of one connection", kStreamsPerConnectionMax},
      {"Bytes of the header fields", kHeaderBytesMax},
      {"control", kControlThreads},
      {"submit", kSubmitThreads},
      {"change", kChangeThreads},
      {"load", kLoadThreads},
      {"text", kTextThreads},
      {"a call waits for a control", kControlStallUs / 1'000'000},
      {"a call waits for a text", kWorkStallUs / 1'000'000},
      {"a call waits for a submit", kWorkStallUs / 1'000'000},
      {"the thread of the jobs", kJobStallUs / 1'000'000},
      {"an engine with work", kEngineStallUs / 1'000'000},
  };
  for (const auto& [name, value] : limits) EXPECT_EQ(InDocument(document, name), value) << name;
}

}  // namespace
}  // namespace varifocal
