// The watchdog's policy on a manual clock; the probe against real sockets: one that is answered, one that is accepted only
// by the kernel, one without a listener.
#include "server/listener_watchdog.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/server.h"
#include "server/server_limits.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

TEST(ListenerHealthTest, ReportsThreeFailuresInARow) {
  FakeClock clock;
  int probe_count = 0;
  absl::Status answer;
  ListenerHealth health(
      [&] {
        ++probe_count;
        return answer;
      },
      clock, /*period_us=*/1000);
  EXPECT_TRUE(health.Poll().ok());
  EXPECT_EQ(probe_count, 0) << "not before a period has passed";
  const auto next = [&] {
    EXPECT_EQ(health.MicrosToNextProbe(), 1000);
    clock.Advance(999);
    const int before = probe_count;
    EXPECT_TRUE(health.Poll().ok());
    EXPECT_EQ(probe_count, before);
    clock.Advance(1);
    return health.Poll().ok();
  };
  EXPECT_TRUE(next());
  answer = absl::UnavailableError("no answer");
  EXPECT_TRUE(next());
  EXPECT_TRUE(next());
  answer = absl::OkStatus();
  EXPECT_TRUE(next()) << "a success between them starts the count again";
  answer = absl::UnavailableError("no answer");
  EXPECT_TRUE(next());
  EXPECT_TRUE(next());
  EXPECT_FALSE(next());
  EXPECT_EQ(probe_count, 7);
}

class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(fd_); }
  void Listen() { EXPECT_EQ(listen(fd_, 8), 0); }
  int fd() const { return fd_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int fd_;
  int port_ = 0;
};

TEST(ProbeListenerTest, ATakenConnectionIsNotAnAnswer) {
  Listener listener;
  EXPECT_THAT(std::string(ProbeListener(listener.address(), /*has_tls=*/false, 50).message()),
              testing::HasSubstr("Connection refused"));
  listener.Listen();
  EXPECT_THAT(ProbeListener(listener.address(), /*has_tls=*/false, 50).message(), Message());
}

TEST(ProbeListenerTest, TheServerAnswers) {
  ServerOptions options;
  options.listen_address = "127.0.0.1:0";
  auto server = Server::Start(std::move(options));
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  const absl::Status status = ProbeListener(address, /*has_tls=*/false, 60'000);
  EXPECT_TRUE(status.ok()) << status;
  (*server)->Shutdown(std::chrono::milliseconds(0));
  EXPECT_FALSE(ProbeListener(address, /*has_tls=*/false, 60'000).ok());
}

// It accepts and even speaks HTTP/2, and a call has no answer: before, the first byte was enough.
TEST(ProbeListenerTest, SettingsAreNotAnAnswer) {
  Listener listener;
  listener.Listen();
  std::thread server([&] {
    const int fd = accept(listener.fd(), nullptr, nullptr);
    const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
    (void)!write(fd, settings.data(), settings.size());
    char bytes[1024];
    while (read(fd, bytes, sizeof bytes) > 0) continue;  // until the probe gives up
    close(fd);
  });
  EXPECT_THAT(ProbeListener(listener.address(), /*has_tls=*/false, 200).message(), Message());
  server.join();
}

TEST(ProbeServerTest, ASocketThatNobodyServes) {
  EXPECT_FALSE(ProbeServer([](int fd) { close(fd); }, 60'000).ok());
  int held = -1;
  EXPECT_FALSE(ProbeServer([&held](int fd) { held = fd; }, 50).ok());
  close(held);
}

TEST(DescriptorLimitTest, BecomesTheHardOne) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto raised = RaiseDescriptorLimit();
  rlimit now = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(raised.ok()) << raised.status();
  EXPECT_EQ(*raised, before.rlim_max);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
}

}  // namespace
}  // namespace varifocal
