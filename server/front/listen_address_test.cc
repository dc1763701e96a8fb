// Which addresses need no protection, and which Unix sockets are replaced.
#include "server/front/listen_address.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/reason.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

std::string ReasonName(const absl::Status& status) { return status.ok() ? "OK" : ReasonOf(status).name; }

TEST(ListenAddressTest, Forms) {
  EXPECT_EQ(ParseListenAddress("127.0.0.1:7")->port, 7);
  EXPECT_EQ(ParseListenAddress("[::1]:0")->host, "::1");
  EXPECT_EQ(ParseListenAddress("unix:/run/v.sock")->socket_path, "/run/v.sock");
  EXPECT_EQ(ParseListenAddress("unix:v:1")->socket_path, "v:1");
  for (const char* bad : {"", "here", ":1", "h:", "h:-1", "h:65536", "h:x", "unix:"})
    EXPECT_EQ(ReasonName(ParseListenAddress(bad).status()), "BAD_LISTEN_ADDRESS") << bad;
  const absl::Status status = ParseListenAddress("unix:/" + std::string(107, 'x')).status();
  EXPECT_THAT(status.message(), Message("108", "107"));
  EXPECT_TRUE(ParseListenAddress("unix:/" + std::string(106, 'x')).ok());
}

TEST(ListenAddressTest, OtherAddressesThanLoopbackOnesNeedProtection) {
  for (const char* near : {"127.0.0.1:0", "127.1.2.3:0", "localhost:0", "unix:/tmp/never-made"})
    EXPECT_TRUE(CheckListenAddress(near, {}).ok()) << near;
  for (const char* far : {"0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"}) {
    for (int has = 0; has < 8; ++has) {
      const ListenProtection protection = {(has & 1) != 0, (has & 2) != 0, (has & 4) != 0};
      const absl::Status status = CheckListenAddress(far, protection);
      if (has == 7) {
        EXPECT_TRUE(status.ok() || ReasonName(status) == "CANNOT_LISTEN") << far << ": " << status;  // without IPv6
        continue;
      }
      EXPECT_EQ(ReasonName(status), "REMOTE_LISTEN_ADDRESS") << far << ": " << status;
      const std::string message(status.message());
      EXPECT_EQ(message.find("--tls-cert=FILE with --tls-key=FILE") == message.npos, protection.has_tls) << message;
      EXPECT_EQ(message.find("--token-file=FILE or --tls-client-ca=FILE") == message.npos, protection.knows_callers);
      EXPECT_EQ(message.find("--model-root=DIR or --data-root=DIR") == message.npos, protection.has_file_roots);
    }
  }
}

TEST(UnixSocketClaimTest, OnlyAStaleSocketOfOursIsReplaced) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("s");
  const auto make_socket = [&path](bool listens) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un address = *SocketAddress(path);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    if (listens) {
      EXPECT_EQ(listen(fd, 1), 0);
    }
    return fd;
  };
  struct stat info;
  {
    const auto claim = UnixSocketClaim::Take(path);
    ASSERT_TRUE(claim.ok()) << claim.status();
    EXPECT_EQ(ReasonName(UnixSocketClaim::Take(path).status()), "ADDRESS_IN_USE") << "even before there is a socket";
  }
  close(make_socket(true));  // its process has died
  EXPECT_TRUE(UnixSocketClaim::Take(path).ok());
  EXPECT_NE(lstat(path.c_str(), &info), 0) << "it is removed";

  const int alive = make_socket(true);
  EXPECT_EQ(ReasonName(UnixSocketClaim::Take(path).status()), "ADDRESS_IN_USE");
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << "it stays";
  close(alive);

  unlink(path.c_str());
  WriteFile(path, "precious");
  EXPECT_EQ(ReasonName(UnixSocketClaim::Take(path).status()), "CANNOT_LISTEN");
  EXPECT_EQ(ReadFile(path), "precious");
  unlink(path.c_str());
  ASSERT_EQ(symlink(directory.File("nowhere").c_str(), path.c_str()), 0);
  EXPECT_EQ(ReasonName(UnixSocketClaim::Take(path).status()), "CANNOT_LISTEN");
  EXPECT_EQ(ReasonName(UnixSocketClaim::Take(directory.File("no/such/s")).status()), "CANNOT_LISTEN");
}

}  // namespace
}  // namespace varifocal
