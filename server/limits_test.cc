// docs/limits.md and the code have the same numbers, and every limit of its tables has a test. Method: table rows are found
// by the prefix of their first column, and the number is compared with the constant.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "db/writer.h"
#include "eval_tasks/attention_inspection.h"
#include "eval_tasks/job_spec.h"
#include "server/engine/request_check.h"
#include "server/front/frame_gate.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/limits.h"
#include "server/rpc/page_token.h"
#include "server/server_limits.h"
#include "tests/support/process.h"
#include "tokenizer/thinking.h"

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

// A row of a table, and the test that tries the limit at one below, at it and one above: of itself, or of a smaller number in
// its place.
struct Row {
  const char* name;
  int64_t value;
  const char* source;
  const char* test;
};

std::vector<Row> LimitsOfJobsAndCalls() {
  constexpr const char *kJobSpec = "eval_tasks/job_spec_test.cc", *kGrid = "eval_tasks/grid_test.cc",
                       *kAdmission = "server/rpc/admission_test.cc", *kBoundary = "server/limits_boundary_test.cc";
  constexpr const char *kAdmit = "AdmissionTest, CallsAndBytesOfAPeerAndOfAllAreBounded",
                       *kGate = "EngineGateTest, PeersTakeTurnsWithinTheLimit";
  return {
      {"Samples of a job, over", kJobSampleCountMax, kGrid, "GridTest, SamplesOfAJobAtTheLimit"},
      {"Cells of a job", kJobCellCountMax, kGrid, "GridTest, CellsAroundTheLimit"},
      {"Questions per task", kSampleCountMax, kJobSpec, "JobSpecTest, NumbersAtTheirLimits"},
      {"Concurrent samples of a job", kInFlightMax, kJobSpec, "JobSpecTest, NumbersAtTheirLimits"},
      {"Bytes of a job's specification", kSpecBytesMax, "server/jobs/job_manager_test.cc",
       "JobManagerTest, BytesOfASpecification"},
      {"Bytes of the description", kDescriptionBytesMax, kBoundary, "LimitsBoundaryTest, BytesOfADescription"},
      {"Jobs that are queued", kQueuedJobsMax, "server/jobs/job_manager_test.cc",
       "JobManagerTest, QueuedJobsAreLimited"},
      {"Starts in a row", db::kChargedStartsMax, "db/writer_jobs_test.cc",
       "StartsTest, AJobThatEndsItsProcessFailsAfterFourChargedStarts"},
      {"Bytes of a message", kMessageBytesMax, kBoundary, "LimitsBoundaryTest, BytesOfAMessage"},
      {"Active calls (see below), of all", kAdmittedCallsMax, kAdmission, kAdmit},
      {"Bytes of their requests, of all", kAdmittedBytesMax, kAdmission, kAdmit},
      {"Active calls (see below), of one", kAdmittedCallsOfPeerMax, kAdmission, kAdmit},
      {"Bytes of their requests, of one", kAdmittedBytesOfPeerMax, kAdmission, kAdmit},
      {"Calls that wait for a thread", kPoolQueueMax, kAdmission, "RpcPoolTest, AFullPoolRefusesAndAStalledOneShowsIt"},
      {"Calls of one model in its engine while no job", kEngineCallsMax, kAdmission, kGate},
      {"Calls of one model in its engine beside", kEngineCallsBesideJobMax, kAdmission, kGate},
      {"Streams of `WatchJob`", kWatchesMax, kBoundary, "LimitsBoundaryTest, Watches"},
      {"Streams of the health service's `Watch`, of all", kHealthWatchesMax, kBoundary,
       "LimitsBoundaryTest, HealthWatches"},
      {"Streams of the health service's `Watch`, of one", kHealthWatchesOfConnectionMax, kBoundary,
       "LimitsBoundaryTest, HealthWatches"},
      {"Connections", kConnectionsMax, "server/front/front_test.cc", "FrontTest, AFullListenerClosesWhoeverIsIdle"},
      {"Requests that wait in one engine", EngineOptions().queue_length_max, "server/engine/engine_test.cc",
       "LifeTest, QueueIsBounded"},
      {"Bytes of a `request_id`", kRequestIdBytesMax, kBoundary, "LimitsBoundaryTest, BytesOfARequestId"},
      {"Bytes of a text of `Tokenize`", kTokenizeBytesMax, kBoundary, "LimitsBoundaryTest, BytesOfATextToTokenize"},
      {"Token ids of an answer of `Tokenize`", kTokenizeIdsMax, "tokenizer/tokenizer_test.cc",
       "EncodeTest, NumberOfIdsIsLimitedWhileTheyAreMade"},
      {"Token ids of a `Detokenize`", kDetokenizeIdsMax, kBoundary, "LimitsBoundaryTest, IdsToDetokenize"},
      {"Stop strings", kStopsMax, kBoundary, "LimitsBoundaryTest, StopStrings"},
      {"Bytes of a marker", kThinkingMarkerBytesMax, "tokenizer/thinking_test.cc", "Thinking, BytesOfAMarker"},
      {"Continuations of a", kContinuationsMax, kBoundary, "LimitsBoundaryTest, Continuations"},
      {"Scores of an `ImportScores`", kImportedScoresMax, "server/evaluation_test.cc",
       "ImportScoresTest, NumbersOfScoresAndNames"},
      {"Names of scores", kImportedNamesMax, "server/evaluation_test.cc", "ImportScoresTest, NumbersOfScoresAndNames"},
      {"Bytes of the source", kImportSourceBytesMax, "server/evaluation_test.cc",
       "ImportScoresTest, RefusalsNameTheJudgmentAndStoreNothing"},
      {"Bytes of the id", kImportIdBytesMax, "server/evaluation_test.cc",
       "ImportScoresTest, RefusalsNameTheJudgmentAndStoreNothing"},
      {"Shares of an inspection", kInspectedMassesMax, kBoundary, "LimitsBoundaryTest, SharesOfAnInspection"},
      {"Rows of an inspection", kInspectedRowsMax, kBoundary, "LimitsBoundaryTest, RowsOfAnInspection"},
      {"Entries of a page", kPageSizeMax, "server/rpc/page_token_test.cc", "PageTokenTest, PageSizes"},
      {"Streams of one connection", kStreamsPerConnectionMax, "server/metrics_test.cc",
       "MetricsTest, StreamsOfAConnection"},
      {"Bytes of the header fields", kHeaderBytesMax, kBoundary, "LimitsBoundaryTest, BytesOfAHeader"},
      {"Log lines that wait", 8192, "base/log_queue_test.cc",
       "LogQueueTest, ABlockedReaderDropsLinesAndBlocksNoWriter"},
  };
}

std::vector<Row> LimitsOfHealth() {
  constexpr const char *kFaults = "server/faults_test.cc", *kPool = "HealthTest, AStalledPoolIsTheHealthOfItsServices";
  return {
      {"a call waits for a control", kControlStallUs / 1'000'000, kFaults, kPool},
      {"a call waits for a text", kWorkStallUs / 1'000'000, kFaults, kPool},
      {"a call waits for a submit", kWorkStallUs / 1'000'000, kFaults, kPool},
      {"the thread of the jobs", kJobStallUs / 1'000'000, "server/health_monitor_test.cc",
       "JobThreadTest, WithoutAHeartbeat"},
      {"the files of the database", 0, kFaults, "ServerFaultsTest, HealthFollowsTheFilesOfTheDatabase"},
      {"an engine with work", kEngineStallUs / 1'000'000, "server/health_monitor_test.cc",
       "EngineStallTest, WorkWithoutAStep"},
  };
}

// The first columns of the tables of a section.
std::vector<std::string> RowsOf(const std::string& document, const std::string& section) {
  std::vector<std::string> rows;
  bool is_inside = false;
  for (absl::string_view line : absl::StrSplit(document, '\n')) {
    if (absl::StartsWith(line, "## ")) is_inside = line == absl::StrCat("## ", section);
    const std::vector<std::string> columns = absl::StrSplit(line, '|');
    if (!is_inside || columns.size() < 4 || absl::StartsWith(columns[2], " ---")) continue;
    rows.emplace_back(absl::StripAsciiWhitespace(columns[1]));
  }
  return std::vector<std::string>(rows.begin() + (rows.empty() ? 0 : 1), rows.end());  // without the head
}

TEST(LimitsTest, EveryRowHasTheNumberOfTheCodeAndATest) {
  const std::string document = ReadFile("docs/limits.md");
  ASSERT_NE(document, "");
  std::vector<std::string> rows = RowsOf(document, "Jobs");
  for (const std::string& row : RowsOf(document, "Calls")) rows.push_back(row);
  for (const std::string& row : RowsOf(document, "Health")) rows.push_back(row);
  std::vector<Row> limits = LimitsOfJobsAndCalls();
  for (const Row& row : LimitsOfHealth()) limits.push_back(row);
  EXPECT_EQ(rows.size(), limits.size());
  for (const std::string& row : rows) {
    const bool is_listed =
        std::any_of(limits.begin(), limits.end(), [&](const Row& limit) { return absl::StartsWith(row, limit.name); });
    EXPECT_TRUE(is_listed) << row;
  }
  for (const Row& limit : limits) {
    EXPECT_EQ(InDocument(document, limit.name), limit.value) << limit.name;
    EXPECT_THAT(ReadFile(limit.source), testing::HasSubstr(absl::StrCat("(", limit.test, ")"))) << limit.name;
  }
}

// The quota of gRPC's own buffers has no test: what counts against it is gRPC's decision.
TEST(LimitsTest, EveryLimitOfAConnectionHasATest) {
  const std::string document = ReadFile("docs/network.md");
  constexpr char kBoundary[] = "server/limits_boundary_test.cc", kTimeouts[] = "server/connection_timeouts_test.cc";
  constexpr char kGate[] = "server/front/frame_gate_test.cc", kFront[] = "server/front/front_test.cc";
  const ConnectionTimeouts timeouts;
  const FrameLimits frames;
  EXPECT_EQ(frames.streams.per_second, 2000);
  EXPECT_EQ(frames.all_streams.per_second, 4000);
  EXPECT_EQ(frames.frames.per_second, 20'000);
  EXPECT_EQ(frames.all_frames.per_second, 200'000);
  EXPECT_EQ(frames.message_bytes_max, kMessageBytesMax);
  const struct {
    std::string name, value;
    const char *source, *test;
  } limits[] = {
      {"Connections", "4,096", kFront, "FrontTest, AFullListenerClosesWhoeverIsIdle"},
      {"Connections of one address", "half", nullptr, nullptr},
      {"Streams that are opened", "2,000 and 4,000", kGate,
       "FrameGateTest, StreamsWaitAboveTheRateOfTheConnectionAndOfAll"},
      {"Frames, of one", "20,000 and 200,000", kGate, "FrameGateTest, FramesOfNoUseAreCountedAndNotPassedOn"},
      {"The same, when gRPC", absl::StrCat(frames.field_bytes_max >> 10, " KiB, or ", frames.field_frames_max), kGate,
       "FrameGateTest, HeaderBlocksAreBounded"},
      {"Compressed messages", "none", kGate, "FrameGateTest, ACompressedMessageIsNeverWhole"},
      {"From the fields", absl::StrCat(frames.request_us_max / 1'000'000, " s"), kGate,
       "FrameGateTest, ARequestThatDoesNotEndIsCancelled"},
      {"`Health.Watch`", absl::StrCat(kHealthWatchesOfConnectionMax), kBoundary, "LimitsBoundaryTest, HealthWatches"},
      {"Message, either", absl::StrCat(kMessageBytesMax >> 20, " MiB"), kBoundary,
       "LimitsBoundaryTest, BytesOfAMessage"},
      {"Streams of one connection", "1,000", "server/metrics_test.cc", "MetricsTest, StreamsOfAConnection"},
      {"Header fields", absl::StrCat(kHeaderBytesMax >> 10, " KiB"), kBoundary, "LimitsBoundaryTest, BytesOfAHeader"},
      {"From the connection", absl::StrCat(timeouts.handshake_ms / 1000, " s"), kTimeouts,
       "ConnectionTimeoutsTest, FromTheConnectionToTheSettings"},
      {"Connection without", absl::StrCat(timeouts.idle_ms / 60'000, " min"), kTimeouts,
       "ConnectionTimeoutsTest, WithoutACall"},
      {absl::StrCat("Answer to a keepalive ping, sent after ", timeouts.keepalive_ms / 1000, " s"),
       absl::StrCat(timeouts.keepalive_answer_ms / 1000, " s"), kTimeouts,
       "ConnectionTimeoutsTest, UntilAPingAndItsAnswer"},
      {"Memory of gRPC's own", absl::StrCat(kTransportBytesMax >> 20, " MiB"), nullptr, nullptr},
      {"Text of `Tokenize`", absl::StrCat(kTokenizeBytesMax >> 20, " MiB"), kBoundary,
       "LimitsBoundaryTest, BytesOfATextToTokenize"},
      {"Open descriptors", "the hard limit", "server/listener_watchdog_test.cc",
       "DescriptorLimitTest, BecomesTheHardOne"},
  };
  EXPECT_EQ(RowsOf(document, "Limits of connections").size(), std::size(limits));
  for (const auto& limit : limits) {
    EXPECT_THAT(document, testing::ContainsRegex(absl::StrCat("\n\\| ", limit.name, "[^|]*\\| ", limit.value)));
    if (limit.source == nullptr) continue;
    EXPECT_THAT(ReadFile(limit.source), testing::HasSubstr(absl::StrCat("(", limit.test, ")")));
  }
}

TEST(LimitsTest, ThreadsOfThePools) {
  const std::string document = ReadFile("docs/limits.md");
  const std::pair<const char*, int64_t> pools[] = {{"control", kControlThreads},
                                                   {"submit", kSubmitThreads},
                                                   {"change", kChangeThreads},
                                                   {"load", kLoadThreads},
                                                   {"text", kTextThreads}};
  for (const auto& [name, value] : pools) EXPECT_EQ(InDocument(document, name), value) << name;
}

}  // namespace
}  // namespace varifocal
