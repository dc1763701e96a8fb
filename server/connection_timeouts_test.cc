// Timeouts of connections, with values of a fraction of a second in place of those of server/server_limits.h. Method: HTTP/2
// by hand, since a client of the library keeps its connection alive. A timeout is tried from both sides: what must not end a
// connection is awaited for longer than the timeout, and the connection answers a ping then; an end is awaited for as long
// as it takes.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/server.h"

namespace varifocal {
namespace {

constexpr int kNeverMs = 3'600'000;
constexpr int kShortMs = 200;

enum FrameType : char { kSettings = 4, kPing = 6, kGoAway = 7, kEnd = -1 };
constexpr char kAck = 1;

std::string Frame(char type, char flags, const std::string& payload) {
  std::string head(9, '\0');
  head[2] = payload.size();
  head[3] = type;
  head[4] = flags;
  return head + payload;
}

// A client that sends what the test passes to it, and answers nothing by itself.
class RawClient {
 public:
  explicit RawClient(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;

  void Send(const std::string& bytes) const { send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void SendSettings() const { Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, "")); }
  // The next frame; type kEnd when the server has closed the connection.
  struct Received {
    char type = kEnd, flags = 0;
    std::string payload;
  };
  Received Receive() const {
    std::string head(9, '\0');
    if (!ReadAll(head)) return {};
    const auto byte = [&](int i) { return static_cast<size_t>(static_cast<unsigned char>(head[i])); };
    Received frame = {head[3], head[4], std::string(byte(0) << 16 | byte(1) << 8 | byte(2), '\0')};
    if (!ReadAll(frame.payload)) return {};
    return frame;
  }
  // Skips other frames.
  Received ReceiveUntil(char type) const {
    Received frame = Receive();
    while (frame.type != type && frame.type != kEnd) frame = Receive();
    return frame;
  }
  bool AnswersPing() const {
    Send(Frame(kPing, 0, "01234567"));
    for (Received frame = Receive(); frame.type != kEnd; frame = Receive()) {
      if (frame.type == kPing && frame.flags == kAck) return frame.payload == "01234567";
    }
    return false;
  }

 private:
  bool ReadAll(std::string& bytes) const {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t count = recv(fd_, bytes.data() + at, bytes.size() - at, 0);
      if (count <= 0) return false;
      at += count;
    }
    return true;
  }
  const int fd_;
};

class ConnectionTimeoutsTest : public testing::Test {
 protected:
  void Start(const ConnectionTimeouts& timeouts) {
    SetLogLevel(LogLevel::kError);
    ServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.timeouts = timeouts;
    auto server = Server::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    start_us_ = Clock::Real().MonotonicMicros();
  }
  void PassTheTimeout() const { std::this_thread::sleep_for(std::chrono::milliseconds(2 * kShortMs)); }
  void ExpectNotBeforeTheTimeout() const {
    EXPECT_GE(Clock::Real().MonotonicMicros() - start_us_, kShortMs * int64_t{1000});
  }

  std::unique_ptr<Server> server_;
  int64_t start_us_ = 0;
};

TEST_F(ConnectionTimeoutsTest, FromTheConnectionToTheSettings) {
  Start({kShortMs, kNeverMs, kNeverMs, kNeverMs});
  const RawClient silent(server_->address()), half(server_->address()), in_time(server_->address());
  half.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  in_time.SendSettings();
  EXPECT_EQ(silent.ReceiveUntil(kEnd).type, kEnd);
  EXPECT_EQ(half.ReceiveUntil(kEnd).type, kEnd);
  ExpectNotBeforeTheTimeout();
  PassTheTimeout();
  EXPECT_TRUE(in_time.AnswersPing());
}

TEST_F(ConnectionTimeoutsTest, WithoutACall) {
  Start({kNeverMs, kShortMs, kNeverMs, kNeverMs});
  const RawClient idle(server_->address()), calls(server_->address());
  idle.SendSettings();
  // A call that has begun: the header fields alone, and no end of the request.
  calls.SendSettings();
  const auto field = [](const std::string& name, const std::string& value) {  // a literal without indexing
    return absl::StrCat(std::string(1, '\0'), std::string(1, static_cast<char>(name.size())), name,
                        std::string(1, static_cast<char>(value.size())), value);
  };
  constexpr char kHeaders = 1, kEndOfHeaders = 4;
  std::string call = Frame(kHeaders, kEndOfHeaders,
                           field(":method", "POST") + field(":scheme", "http") + field(":authority", "localhost") +
                               field(":path", "/varifocal.v1.Inference/ListModels") + field("te", "trailers") +
                               field("content-type", "application/grpc"));
  call[8] = 1;  // of stream 1
  calls.Send(call);
  EXPECT_EQ(idle.ReceiveUntil(kGoAway).type, kGoAway);
  EXPECT_EQ(idle.ReceiveUntil(kEnd).type, kEnd);
  ExpectNotBeforeTheTimeout();
  PassTheTimeout();
  EXPECT_TRUE(calls.AnswersPing());
}

TEST_F(ConnectionTimeoutsTest, UntilAPingAndItsAnswer) {
  Start({kNeverMs, kNeverMs, kShortMs, kShortMs});
  const RawClient dead(server_->address()), alive(server_->address());
  dead.SendSettings();
  alive.SendSettings();
  const RawClient::Received ping = alive.ReceiveUntil(kPing);
  ASSERT_EQ(ping.type, kPing);
  ExpectNotBeforeTheTimeout();
  alive.Send(Frame(kPing, kAck, ping.payload));
  EXPECT_EQ(dead.ReceiveUntil(kPing).type, kPing);
  EXPECT_EQ(dead.ReceiveUntil(kEnd).type, kEnd);
  EXPECT_GE(Clock::Real().MonotonicMicros() - start_us_, 2 * kShortMs * int64_t{1000});
  EXPECT_EQ(alive.ReceiveUntil(kPing).type, kPing) << "open after its answer, until the next ping";
}

}  // namespace
}  // namespace varifocal
