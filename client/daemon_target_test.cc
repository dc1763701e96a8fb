// Connecting to a daemon: a Unix socket, TLS with a token, and contradicting flags.
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/sha256.h"
#include "client/testing_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using testing::HasSubstr;
using testing_support::BackgroundProcess;

class DaemonTargetTest : public testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::string& listen) const {
    return {absl::StrCat("--db=", directory_.File("r.db")), "--model=base=models/baseline", "--threads=1",
            absl::StrCat("--listen=", listen), absl::StrCat("--port-file=", directory_.File("port"))};
  }
  std::string File(const std::string& name) const { return directory_.File(name); }
  std::string Flag(const char* name, const std::string& file) const {
    return absl::StrCat("--", name, "=", File(file));
  }

  testing_support::TemporaryDirectory directory_;
};

TEST_F(DaemonTargetTest, AUnixSocket) {
  const std::string address = absl::StrCat("unix:", File("v.sock"));
  EXPECT_THAT(Varifocal({"models", "--daemon=" + address, "--connect-timeout=0"}).err,
              HasSubstr("--listen=" + address));
  BackgroundProcess daemon("varifocald", Arguments(address));
  ASSERT_TRUE(daemon.WaitForFile(File("port"), 60)) << daemon.Errors();
  EXPECT_THAT(Varifocal({"models", "--daemon=" + address}), Prints(HasSubstr("base")));
}

// The commands of a quick start follow each other without a pause: the client is there first.
TEST_F(DaemonTargetTest, ADaemonThatIsStarting) {
  const std::string address = absl::StrCat("unix:", File("v.sock"));
  Ran models = {};
  std::thread client([&] { models = Varifocal({"models", "--daemon=" + address, "--connect-timeout=60"}); });
  BackgroundProcess daemon("varifocald", Arguments(address));
  client.join();
  EXPECT_EQ(models.code, ExitCode::kDone) << models.err << daemon.Errors();
  EXPECT_THAT(models.out, HasSubstr("base"));
}

TEST_F(DaemonTargetTest, TlsWithAToken) {
  const std::string make = absl::StrCat(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj /CN=localhost -addext ",
      "subjectAltName=IP:127.0.0.1 -keyout ", File("key"), " -out ", File("pem"), " 2>/dev/null");
  ASSERT_EQ(std::system(make.c_str()), 0);
  testing_support::WriteFile(File("tokens"), absl::StrCat("viewer ", Sha256Hex("secret"), " vera\n"));
  testing_support::WriteFile(File("token"), "secret\n");
  testing_support::WriteFile(File("wrong"), "guess\n");
  testing_support::WriteFile(File("empty"), "\n");
  std::vector<std::string> arguments = Arguments("127.0.0.1:0");
  for (const std::string& flag : {Flag("tls-cert", "pem"), Flag("tls-key", "key"), Flag("token-file", "tokens")}) {
    arguments.push_back(flag);
  }
  BackgroundProcess daemon("varifocald", arguments);
  ASSERT_TRUE(daemon.WaitForFile(File("port"), 60)) << daemon.Errors();
  const std::string port = testing_support::ReadFile(File("port"));
  const std::string address = absl::StrCat("--daemon=127.0.0.1:", port.substr(0, port.find('\n')));
  const Ran models = Varifocal({"models", address, Flag("tls-ca", "pem"), Flag("token-file", "token")});
  EXPECT_THAT(models, Prints(HasSubstr("base")));
  EXPECT_THAT(Varifocal({"unload", "base", address, Flag("tls-ca", "pem"), Flag("token-file", "token")}),
              FailsWith(Message()));
  EXPECT_THAT(Varifocal({"models", address, Flag("tls-ca", "pem"), Flag("token-file", "wrong")}).err, Message());
  EXPECT_THAT(Varifocal({"models", address, Flag("tls-ca", "pem"), Flag("token-file", "empty")}).err, Message());
  // A connection that fails has its cause, unlike a daemon that is not there.
  ASSERT_EQ(std::system(absl::StrReplaceAll(make, {{File("key"), File("key2")}, {File("pem"), File("pem2")}}).c_str()),
            0);
  const std::string at_once = "--connect-timeout=0",
                    by_name = absl::StrReplaceAll(address, {{"127.0.0.1", "localhost"}});
  EXPECT_THAT(Varifocal({"models", address, at_once}), FailsWith(MessageIn("needs --tls-ca")));
  EXPECT_THAT(Varifocal({"models", address, at_once, Flag("tls-ca", "pem2")}),
              FailsWith(MessageIn("not of an authority")));
  EXPECT_THAT(Varifocal({"models", address, at_once, Flag("tls-ca", "key")}), FailsWith(MessageIn("no certificate")));
  EXPECT_THAT(Varifocal({"models", by_name, at_once, Flag("tls-ca", "pem")}), FailsWith(MessageIn("another name")));
  BackgroundProcess plain("varifocald", {Flag("db", "plain.db"), "--listen=unix:" + File("plain.sock")});
  while (access(File("plain.sock").c_str(), F_OK) != 0 && plain.IsRunning()) usleep(5'000);
  EXPECT_THAT(Varifocal({"models", "--daemon=unix:" + File("plain.sock"), at_once, Flag("tls-ca", "pem")}),
              FailsWith(MessageIn("does not speak TLS")));
}

// A token without TLS, on this machine alone.
TEST_F(DaemonTargetTest, ATokenOnThisMachine) {
  testing_support::WriteFile(File("tokens"), absl::StrCat("viewer ", Sha256Hex("secret"), " vera\n"));
  testing_support::WriteFile(File("token"), "secret\n");
  for (const std::string& listen : {std::string("127.0.0.1:0"), absl::StrCat("unix:", File("v.sock"))}) {
    std::vector<std::string> arguments = Arguments(listen);
    arguments.push_back(Flag("token-file", "tokens"));
    std::filesystem::remove(File("port"));
    BackgroundProcess daemon("varifocald", arguments);
    ASSERT_TRUE(daemon.WaitForFile(File("port"), 60)) << daemon.Errors();
    const std::string port = testing_support::ReadFile(File("port"));
    const std::string address =
        listen[0] == 'u' ? "--daemon=" + listen : absl::StrCat("--daemon=127.0.0.1:", port.substr(0, port.find('\n')));
    EXPECT_THAT(Varifocal({"models", address}).err, Message()) << listen;
    const Ran models = Varifocal({"models", address, Flag("token-file", "token")});
    EXPECT_EQ(models.code, ExitCode::kDone) << listen << ": " << models.err;
    EXPECT_THAT(models.out, HasSubstr("base"));
  }
}

TEST_F(DaemonTargetTest, FlagsThatDoNotFit) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"--daemon=unix:"}, "must be HOST:PORT with a port from 1 to 65535, or unix:PATH"},
      {{"--daemon=host"}, "must be HOST:PORT with a port from 1 to 65535, or unix:PATH"},
      {{"--daemon=far.example:1", "--token-file=t"}, "--token-file needs --tls-ca=FILE"},
      {{"--tls-cert=c"}, "need --tls-ca=FILE"},
      {{"--tls-ca=a", "--tls-key=k"}, "--tls-cert and --tls-key must be given together"},
  };
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> arguments = {"models"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Ran ran = Varifocal(arguments);
    EXPECT_EQ(ran.code, ExitCode::kWrongUsage) << flags[0];
    EXPECT_THAT(ran.err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace varifocal::client
