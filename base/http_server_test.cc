// Slow and hostile HTTP clients: each step of a connection has a deadline, and none of them keeps others from an answer. Method:
// raw sockets on loopback, limits of a fraction of a second.
#include "base/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class RawClient {
 public:
  explicit RawClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  void Send(const std::string& bytes) const { send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  std::string ReadAll() const {
    std::string all;
    char bytes[65536];
    for (ssize_t count; (count = recv(fd_, bytes, sizeof(bytes), 0)) > 0;) all.append(bytes, count);
    return all;
  }

 private:
  const int fd_;
};

class HttpServerTest : public testing::Test {
 protected:
  void Start(const HttpLimits& limits) {
    auto server = HttpServer::Start(
        0,
        [](const HttpRequest& request) {
          HttpAnswer answer;
          answer.body = absl::StrCat("path=", request.path);
          for (const auto& [name, value] : request.parameters) absl::StrAppend(&answer.body, " ", name, "=", value);
          if (request.path == "/large") answer.body = std::string(8 << 20, 'x');
          return answer;
        },
        limits);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Head(const std::string& target, const std::string& method = "GET") const {
    return absl::StrCat(method, " ", target, " HTTP/1.1\r\nHost: localhost:", server_->port(), "\r\n\r\n");
  }
  std::string Ask(const std::string& bytes) const {
    const RawClient client(server_->port());
    client.Send(bytes);
    return client.ReadAll();
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, RequestsAndWhatIsNone) {
  Start({});
  EXPECT_THAT(Ask(Head("/a%20b?x=1+2&y=%41&%zz=%4")), HasSubstr("\r\n\r\npath=/a b %zz=%4 x=1 2 y=A"));
  const std::string head = Ask(Head("/a", "HEAD"));
  EXPECT_THAT(head, HasSubstr("Content-Length: 7\r\n"));
  EXPECT_THAT(head, testing::EndsWith("\r\n\r\n"));
  EXPECT_THAT(Ask(Head("/", "POST") + std::string(100'000, 'b')), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask(Head("http://example.org/")), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x')), StartsWith("HTTP/1.1 431 "));
}

// Before, four such connections were all that could be open at a time.
TEST_F(HttpServerTest, SlowClientsDelayNoOther) {
  Start({.head_us = 3'600'000'000, .write_us = 3'600'000'000});
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(std::make_unique<RawClient>(server_->port()));
    if (i % 3 == 1) slow.back()->Send("GET / HTTP/1.1\r\nX: ");
    if (i % 10 == 2) slow.back()->Send(Head("/large"));  // and never reads
    slow.back()->Send(i % 3 == 1 ? "y" : "");
  }
  EXPECT_THAT(Ask(Head("/")), HasSubstr("path=/"));
}

TEST_F(HttpServerTest, AHeadAndAReaderHaveADeadline) {
  Start({.head_us = 200'000, .write_us = 200'000});
  const RawClient half(server_->port()), deaf(server_->port());
  half.Send("GET / HTTP/1.1\r\nX: ");
  deaf.Send(Head("/large"));
  EXPECT_EQ(half.ReadAll(), "") << "closed";
  EXPECT_THAT(Ask(Head("/")), HasSubstr("path=/"));
}

TEST_F(HttpServerTest, AFullServerClosesTheOldestThatWaits) {
  Start({.head_us = 3'600'000'000, .connections_max = 8});
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(std::make_unique<RawClient>(server_->port()));
  EXPECT_THAT(Ask(Head("/")), HasSubstr("path=/"));
  EXPECT_EQ(silent[0]->ReadAll(), "") << "closed for the new one";
}

}  // namespace
}  // namespace varifocal
