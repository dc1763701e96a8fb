// Exchanges with a server that fails on demand, over real HTTP: which failures are attempted again, after which pauses,
// and in which sentence the others end. The clock is a fake one that each pause advances.
#include "server/endpoint/endpoint_client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/reason.h"
#include "gmock/gmock.h"
#include "server/endpoint/faulty_server.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Fault = FaultyServer::Fault;
using Scripted = FaultyServer::Scripted;

class EndpointClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<EndpointClient> Client(EndpointSpec spec) {
    spec.name = "e";
    return std::make_unique<EndpointClient>(std::move(spec), MakeHttpClient(), clock_,
                                            [this](int64_t us, const EndpointClient::IsCancelled&) {
                                              pauses_ms_.push_back(us / 1000);
                                              clock_.Advance(us);
                                            });
  }
  std::unique_ptr<EndpointClient> Connected(const FaultyServer& server, int attempts_max = 6) {
    auto client = Client({.url = server.url(), .attempts_max = attempts_max});
    const absl::Status status = client->Connect();
    EXPECT_TRUE(status.ok()) << status;
    return client;
  }
  static CompletionRequest Request() {
    CompletionRequest request;
    request.token_ids = {10, 11, 12};
    request.max_new_tokens = 2;
    return request;
  }

  FakeClock clock_;
  std::vector<int64_t> pauses_ms_;
};

TEST_F(EndpointClientTest, LearnsModelVersionAndServer) {
  const FaultyServer server({});
  const auto client = Connected(server);
  EXPECT_EQ(client->model().id, "served");
  EXPECT_EQ(client->model().owner, "tests");
  EXPECT_EQ(client->version(), "1.2.3");
  EXPECT_EQ(client->server_header(), "faulty");
}

TEST_F(EndpointClientTest, RetriesTransientFailuresWithDoublingPauses) {
  for (const Scripted& fault : {Scripted{Fault::kStatus, 500},
                                {Fault::kStatus, 502},
                                {Fault::kStatus, 503},
                                {Fault::kStatus, 408},
                                {Fault::kCutBody},
                                {Fault::kNotJson},
                                {Fault::kNoUsage}}) {
    FaultyServer server({});
    const auto client = Connected(server);
    pauses_ms_.clear();
    server.FailNext({fault, fault, fault});
    const auto done = client->Complete(Request(), {});
    ASSERT_TRUE(done.ok()) << done.status() << static_cast<int>(fault.fault) << fault.status;
    EXPECT_EQ(done->attempt_count, 4);
    EXPECT_THAT(pauses_ms_, ElementsAre(500, 1000, 2000));
    EXPECT_EQ(server.bodies().size(), 4u);
  }
}

// A pause that the server requested is at least as long as requested, and holds back the next request too.
TEST_F(EndpointClientTest, ObeysRetryAfter) {
  FaultyServer server({});
  const auto client = Connected(server);
  server.FailNext({{Fault::kStatus, 429, "7"}, {Fault::kStatus, 429, "not a number"}});
  const auto done = client->Complete(Request(), {});
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->attempt_count, 3);
  EXPECT_THAT(pauses_ms_, ElementsAre(7000, 1000));
  pauses_ms_.clear();
  server.FailNext({{Fault::kStatus, 429, "infinite-past"}});
  EXPECT_TRUE(client->Complete(Request(), {}).ok());
  EXPECT_THAT(pauses_ms_, ElementsAre(500)) << "no date";

  // Another caller, while the first waits: its clock still has three of five seconds left.
  pauses_ms_.clear();
  server.FailNext({{Fault::kStatus, 429, "5"}});
  std::vector<int64_t> seen_ms;
  auto impatient =
      std::make_unique<EndpointClient>(EndpointSpec{.name = "e", .url = server.url(), .attempts_max = 1},
                                       MakeHttpClient(), clock_, [&](int64_t us, const EndpointClient::IsCancelled&) {
                                         seen_ms.push_back(us / 1000);
                                         clock_.Advance(us);
                                       });
  ASSERT_TRUE(impatient->Connect().ok());
  EXPECT_FALSE(impatient->Complete(Request(), {}).ok());
  EXPECT_THAT(seen_ms, IsEmpty());  // the only attempt has failed: nothing to wait for
  EXPECT_TRUE(impatient->Complete(Request(), {}).ok());
}

TEST_F(EndpointClientTest, EndsWithTheClassOfTheFailure) {
  const struct {
    Scripted fault;
    ErrorReason reason;
    absl::StatusCode code;
    std::vector<std::string> expected;  // contained in the message
    int attempts;
  } cases[] = {
      {{Fault::kStatus, 400, "", {"10"}},
       ErrorReason::kEndpointRefused,
       absl::StatusCode::kInvalidArgument,
       {"400", "10"},
       1},
      {{Fault::kStatus, 422}, ErrorReason::kEndpointRefused, absl::StatusCode::kInvalidArgument, {"422"}, 1},
      {{Fault::kStatus, 500}, ErrorReason::kEndpointRefused, absl::StatusCode::kInternal, {"3"}, 3},
      {{Fault::kStatus, 429}, ErrorReason::kEndpointFaulted, absl::StatusCode::kUnavailable, {"429"}, 3},
      {{Fault::kStatus, 401}, ErrorReason::kEndpointFaulted, absl::StatusCode::kUnavailable, {"API"}, 1},
      {{Fault::kStatus, 404}, ErrorReason::kEndpointFaulted, absl::StatusCode::kUnavailable, {}, 1},
      {{Fault::kCutBody}, ErrorReason::kEndpointFaulted, absl::StatusCode::kUnavailable, {}, 3},
      {{Fault::kNotJson}, ErrorReason::kEndpointBadReply, absl::StatusCode::kInternal, {}, 3},
      {{Fault::kHugeReply}, ErrorReason::kEndpointBadReply, absl::StatusCode::kOutOfRange, {"67108864"}, 1},
      {{Fault::kOtherModel},
       ErrorReason::kEndpointFaulted,
       absl::StatusCode::kUnavailable,
       {"\"another\"", "\"served\""},
       1},
      {{Fault::kPromptCount}, ErrorReason::kEndpointWrongCount, absl::StatusCode::kFailedPrecondition, {"2", "3"}, 1},
      {{Fault::kNewCount}, ErrorReason::kEndpointWrongCount, absl::StatusCode::kFailedPrecondition, {"2"}, 1},
      {{Fault::kShortAtLength}, ErrorReason::kEndpointWrongCount, absl::StatusCode::kFailedPrecondition, {}, 1},
  };
  for (const auto& c : cases) {
    FaultyServer server({});
    const auto client = Connected(server, /*attempts_max=*/3);
    server.FailNext({c.fault, c.fault, c.fault});
    const auto done = client->Complete(Request(), {});
    ASSERT_FALSE(done.ok()) << ErrorReasonName(c.reason);
    EXPECT_EQ(done.status().code(), c.code) << done.status();
    EXPECT_TRUE(HasReason(done.status(), c.reason)) << done.status();
    EXPECT_THAT(done.status().message(), MessageMatcher(c.expected));
    EXPECT_THAT(done.status().message(), HasSubstr("endpoint \"e\""));
    EXPECT_EQ(ReasonOf(done.status()).metadata["attemptCount"], std::to_string(c.attempts))
        << ErrorReasonName(c.reason);
    EXPECT_EQ(std::ssize(server.bodies()), c.attempts) << ErrorReasonName(c.reason);
  }
}

TEST_F(EndpointClientTest, NamesWhatIsWrongWithAnAddress) {
  FaultyServer server({});
  const std::string root = server.url().substr(0, server.url().size() - 3);
  const struct {
    std::string url;
    const char* expected;
  } cases[] = {
      {"http://127.0.0.1:1/v1", "Failed to connect to 127.0.0.1 port 1"},
      {"http://no-such-host.invalid/v1", "Could not resolve host"},
      {root + "/v2", "answered 404"},
      {"https" + root.substr(4) + "/v1",
       "if the server speaks plain HTTP on this port, its address begins with http://"},
  };
  for (const auto& c : cases) {
    const absl::Status status = Client({.url = c.url, .attempts_max = 2})->Connect();
    EXPECT_TRUE(HasReason(status, ErrorReason::kEndpointFaulted)) << status;
    EXPECT_THAT(status.message(), HasSubstr(c.expected)) << c.url;
  }
}

// A server of plain HTTP may wait for the end of a header after the first bytes of a TLS handshake.
TEST_F(EndpointClientTest, NamesTlsWhereNoHandshakeIsAnswered) {
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(silent, 8), 0);  // the kernel accepts the connection and no thread reads from it
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string root = absl::StrCat("://127.0.0.1:", ntohs(address.sin_port), "/v1");
  EXPECT_THAT(Client({.url = "https" + root, .attempts_max = 1, .timeout_ms = 200})->Connect(),
              IsError(absl::StatusCode::kDeadlineExceeded, Message("TLS", "0.2", "HTTP")));
  const absl::Status plain = Client({.url = "http" + root, .attempts_max = 1, .timeout_ms = 200})->Connect();
  EXPECT_THAT(plain.message(), Message("0.2"));
  close(silent);
}

TEST_F(EndpointClientTest, ChecksTheCertificate) {
  const std::string directory = testing::TempDir() + "/endpoint_client_tls";
  std::filesystem::create_directories(directory);
  const std::string certificate = directory + "/cert.pem", key = directory + "/key.pem";
  ASSERT_EQ(
      std::system(
          absl::StrCat(
              "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1 "
              "-addext subjectAltName=IP:127.0.0.1 -keyout ",
              key, " -out ", certificate, " 2>/dev/null")
              .c_str()),
      0);
  const FaultyServer server({}, certificate, key);
  const absl::Status unknown = Client({.url = server.url()})->Connect();
  EXPECT_THAT(unknown.message(), HasSubstr("TLS"));
  EXPECT_THAT(unknown.message(), HasSubstr("self-signed"));
  EXPECT_THAT(pauses_ms_, IsEmpty());  // not attempted again
  const absl::Status trusted = Client({.url = server.url(), .ca_file = certificate})->Connect();
  EXPECT_TRUE(trusted.ok()) << trusted;
  const std::string absent = directory + "/absent.pem";
  EXPECT_THAT(Client({.url = server.url(), .ca_file = absent})->Connect().message(), HasSubstr(absent));
}

TEST_F(EndpointClientTest, ChoosesTheModel) {
  const FaultyServer two({.models = {"a", "b"}});
  EXPECT_THAT(Client({.url = two.url()})->Connect().message(), Message());
  EXPECT_THAT(Client({.url = two.url(), .model = "c"})->Connect().message(), Message("\"c\""));
  const auto client = Client({.url = two.url(), .model = "b"});
  ASSERT_TRUE(client->Connect().ok());
  ASSERT_TRUE(client->Complete(Request(), {}).ok());
  EXPECT_EQ(two.bodies()[0]["model"], "b");
  const FaultyServer none({.models = {}});
  EXPECT_THAT(Client({.url = none.url()})->Connect().message(), Message());
}

TEST_F(EndpointClientTest, SendsTheKeyAndNeverShowsIt) {
  FaultyServer server({.key = "sk-secret"});
  const auto client = Client({.url = server.url(), .key = "sk-secret", .attempts_max = 1});
  ASSERT_TRUE(client->Connect().ok());
  EXPECT_TRUE(client->Complete(Request(), {}).ok());
  // This server repeats the key that it was given.
  const absl::Status refused = Client({.url = server.url(), .key = "sk-other"})->Connect();
  EXPECT_THAT(refused.message(), Message("API"));
  EXPECT_THAT(refused.ToString(), Not(HasSubstr("sk-other")));
}

TEST_F(EndpointClientTest, CancelsWhileTheServerIsSilent) {
  FaultyServer server({});
  const auto client = Connected(server);
  server.FailNext({{Fault::kHang}});
  std::atomic<bool> is_cancelled{false};
  absl::Status status;
  std::thread caller([&] { status = client->Complete(Request(), [&] { return is_cancelled.load(); }).status(); });
  server.WaitForBodies(1);
  is_cancelled = true;
  caller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

TEST_F(EndpointClientTest, GivesUpOnASilentServerAfterItsTimeout) {
  FaultyServer server({});
  const auto client = Client({.url = server.url(), .attempts_max = 2, .timeout_ms = 200});
  ASSERT_TRUE(client->Connect().ok());
  server.FailNext({{Fault::kHang}, {Fault::kHang}});
  EXPECT_THAT(client->Complete(Request(), {}).status(),
              IsError(absl::StatusCode::kDeadlineExceeded, Message("0.2", "2")));
}

}  // namespace
}  // namespace varifocal
