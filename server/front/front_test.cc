// The listener: what gRPC gets, and who is closed for whom. Method: a front on a loopback port whose sockets for gRPC the test
// keeps; time is the real one and awaited, never measured.
#include "server/front/front.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "server/front/connection.h"
#include "tests/faults/loopback.h"
#include "tests/support/http2_frames.h"

namespace varifocal {
namespace {

std::string FirstBytes() { return absl::StrCat(kHttp2Preface, Http2Frame(Http2::kSettings, 0, 0, "")); }

class FrontTest : public testing::Test {
 protected:
  void Start(FrontOptions options = {}) {
    options.address = {.socket_path = "", .host = "127.0.0.1", .port = 0};
    options.callers = &callers_;
    auto front = Front::Listen(std::move(options));
    ASSERT_TRUE(front.ok()) << front.status();
    front_ = *std::move(front);
    front_->Start([this](int fd) {
      fcntl(fd, F_SETFL, 0);  // the test waits
      MutexLock lock(mutex_);
      served_.push_back(std::make_unique<Connection>(fd));
      changed_.NotifyAll();
    });
    address_ = absl::StrCat("127.0.0.1:", front_->port());
  }
  void TearDown() override { front_ = nullptr; }
  // The n-th socket that gRPC would have.
  Connection& Served(size_t n) {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&]() VF_REQUIRES(mutex_) { return served_.size() > n; });
    return *served_[n];
  }
  size_t served_count() {
    MutexLock lock(mutex_);
    return served_.size();
  }
  static std::string Read(const Connection& connection, size_t count) {
    std::string bytes(count, '\0');
    size_t at = 0;
    while (at < count) {
      pollfd waiting = {connection.fd(), POLLIN, 0};
      poll(&waiting, 1, -1);
      const ssize_t got = recv(connection.fd(), bytes.data() + at, count - at, 0);
      if (got <= 0) break;
      at += got;
    }
    return bytes.substr(0, at);
  }

  Callers callers_;
  std::unique_ptr<Front> front_;
  std::string address_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<Connection>> served_ VF_GUARDED_BY(mutex_);
};

TEST_F(FrontTest, BytesGoBothWaysOnceTheSettingsHaveCome) {
  Start();
  Connection silent(address_), client(address_);
  client.Send(FirstBytes().substr(0, 20));
  client.Send(FirstBytes().substr(20));
  Connection& server = Served(0);
  EXPECT_EQ(Read(server, FirstBytes().size()), FirstBytes());
  const std::string answer = Http2Frame(Http2::kSettings, 0, 0, std::string(300'000, 's'));
  server.Send(answer);
  EXPECT_EQ(Read(client, answer.size()), answer);
  EXPECT_EQ(served_count(), 1u) << "a connection that says nothing costs gRPC nothing";
  EXPECT_EQ(front_->connection_count(), 2);
  const Caller caller = callers_.Of(absl::StrCat("fd:", server.fd()));
  EXPECT_EQ(caller.address.rfind("ipv4:127.0.0.1:", 0), 0u) << caller.address;
  EXPECT_EQ(callers_.Of("inproc").address, "inproc");
  shutdown(client.fd(), SHUT_WR);
  EXPECT_TRUE(server.DrainUntilClosed(60'000));
}

// The first bytes may come in any pieces, each read on its own.
TEST(FrontConnectionTest, ReadsOnUntilTheSettingsAreWhole) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FrameLimits limits;
  SharedRates shared(limits);
  FrontConnection connection(ends[0], Caller(), limits, &shared, nullptr, 0);
  for (const char byte : FirstBytes()) {
    EXPECT_FALSE(connection.WantsServer());
    ASSERT_NE(connection.ClientEvents() & EPOLLIN, 0u);
    ASSERT_EQ(write(ends[1], &byte, 1), 1);
    ASSERT_TRUE(connection.ReadClient(1).ok());
  }
  EXPECT_TRUE(connection.WantsServer());
  close(ends[1]);
  EXPECT_FALSE(connection.ReadClient(1).ok());
}

TEST_F(FrontTest, AFullListenerClosesWhoeverIsIdle) {
  Start({.connections_max = 4});
  Connection called(address_);
  called.Send(FirstBytes() + Http2Frame(Http2::kHeaders, Http2::kEndHeaders, 1, Http2Call("/a/b")));
  Served(0);
  Connection idle(address_);
  idle.Send(FirstBytes());
  Served(1);
  Connection silent(address_), second(address_);
  second.Send(FirstBytes());
  Served(2);
  Connection third(address_);
  third.Send(FirstBytes());
  Served(3);
  EXPECT_TRUE(silent.DrainUntilClosed(60'000)) << "first the one without settings";
  Connection fourth(address_);
  fourth.Send(FirstBytes());
  Served(4);
  EXPECT_TRUE(idle.DrainUntilClosed(60'000)) << "then the one that has been silent longest";
  EXPECT_EQ(front_->connection_count(), 4);
  EXPECT_FALSE(called.DrainUntilClosed(0)) << "one with a call stays";
}

TEST_F(FrontTest, WithCallsOnAllOfThemANewOneIsClosed) {
  Start({.connections_max = 2});
  std::vector<std::unique_ptr<Connection>> called;
  for (size_t i = 0; i < 2; ++i) {
    called.push_back(std::make_unique<Connection>(address_));
    called.back()->Send(FirstBytes() + Http2Frame(Http2::kHeaders, Http2::kEndHeaders, 1, Http2Call("/a/b")));
    Served(i);
  }
  Connection other(address_);
  EXPECT_TRUE(other.DrainUntilClosed(60'000));
}

TEST_F(FrontTest, SettingsHaveADeadline) {
  Start({.handshake_us = 1000});
  Connection silent(address_);
  EXPECT_TRUE(silent.DrainUntilClosed(60'000));
}

TEST_F(FrontTest, AfterTheStopNothingIsServed) {
  Start();
  Connection open(address_), silent(address_);
  open.Send(FirstBytes());
  Connection& server = Served(0);
  front_->StopAccepting();
  EXPECT_TRUE(silent.DrainUntilClosed(60'000));
  EXPECT_FALSE(Connection(address_).is_open());
  server.Send("still here");
  EXPECT_EQ(Read(open, 10), "still here");
}

// What a client has not read fills all buffers up to gRPC's. It comes to the client whichever end is closed first.
class FullFrontTest : public FrontTest, public testing::WithParamInterface<bool> {};

TEST_P(FullFrontTest, WhatWasSentIsReceived) {
  Start();
  Connection client(address_);
  client.Send(FirstBytes());
  Connection& server = Served(0);
  Read(server, FirstBytes().size());
  size_t sent = 0;
  const std::string piece(10'000, 'x');
  for (pollfd room = {server.fd(), POLLOUT, 0}; poll(&room, 1, 300) > 0;) {
    const ssize_t count = send(server.fd(), piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) sent += count;
  }
  ASSERT_GT(sent, 100'000u);
  if (GetParam()) shutdown(server.fd(), SHUT_RDWR);
  std::thread stops([this] {
    if (!GetParam()) front_ = nullptr;
  });
  size_t received = 0;
  char bytes[1000];
  for (ssize_t count = 1; count > 0; received += count)
    count = std::max<ssize_t>(recv(client.fd(), bytes, sizeof(bytes), 0), 0);
  stops.join();
  EXPECT_EQ(received, sent);
}
INSTANTIATE_TEST_SUITE_P(Ends, FullFrontTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "OfGrpc" : "OfTheFront"; });

}  // namespace
}  // namespace varifocal
