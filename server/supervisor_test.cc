// Messages to the service manager. Method: the test is the manager, with a socket of its own and a fake clock.
#include "server/supervisor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/process.h"

namespace varifocal {
namespace {

class SupervisorTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = directory_.File("notify");
    manager_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(bind(manager_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
    close(manager_);
  }
  std::string Message() const {  // "" when none is there
    char bytes[256];
    const ssize_t size = recv(manager_, bytes, sizeof(bytes), 0);
    return size < 0 ? "" : std::string(bytes, size);
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  int manager_ = -1;
};

TEST_F(SupervisorTest, ReadyAndStopping) {
  Supervisor supervisor(clock_);
  supervisor.Ready("serving here");
  EXPECT_EQ(Message(), "READY=1\nSTATUS=serving here");
  supervisor.Alive();
  EXPECT_EQ(Message(), "") << "the unit has no watchdog";
  supervisor.Stopping();
  EXPECT_EQ(Message(), "STOPPING=1");
}

TEST_F(SupervisorTest, AliveFourTimesAPeriod) {
  setenv("WATCHDOG_USEC", "8000000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  Supervisor supervisor(clock_);
  int message_count = 0;
  for (int quarter_second = 0; quarter_second < 32; ++quarter_second) {
    supervisor.Alive();
    message_count += Message() == "WATCHDOG=1";
    clock_.Advance(250'000);
  }
  EXPECT_EQ(message_count, 4);
}

TEST_F(SupervisorTest, AWatchdogOfAnotherProcessIsNotOurs) {
  setenv("WATCHDOG_USEC", "8000000", 1);
  setenv("WATCHDOG_PID", "1", 1);
  Supervisor supervisor(clock_);
  supervisor.Alive();
  EXPECT_EQ(Message(), "");
}

TEST(SupervisorWithoutManagerTest, NothingIsSent) {
  Supervisor supervisor;
  supervisor.Ready("");
  supervisor.Alive();
  supervisor.Stopping();
}

}  // namespace
}  // namespace varifocal
