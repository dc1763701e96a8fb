// Callers who send valid HTTP/2 with intent: compressed calls, streams that are reset by the ten thousand, floods of frames
// that cost little to send, streams that are held, names of no method. Method: the real daemon with a token file, its frames
// written by hand, without a token and with one of each role, directly and behind nginx with the shipped configuration. While
// each attack lasts another caller must be answered; the memory of the daemon is measured every 5 ms and is bounded by a number;
// at the end the daemon stops in order. Loopback alone; an attack ends after a time and a number of frames.
//
// The bounds and what the same attacks did before are in docs/faults.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <zlib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "tests/faults/loopback.h"
#include "tests/support/http2_frames.h"
#include "tests/support/process.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

using testing_support::BackgroundProcess;
using testing_support::BigEndian;
using testing_support::DaemonProcess;
using testing_support::GrpcMessage;
using testing_support::Http2;
using testing_support::Http2Call;
using testing_support::Http2Frame;
using testing_support::kHttp2Preface;
using testing_support::TemporaryDirectory;

constexpr char kListJobs[] = "/varifocal.v1.Evaluation/ListJobs";
constexpr char kHealthWatch[] = "/grpc.health.v1.Health/Watch";
constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";

int64_t Now() { return Clock::Real().MonotonicMicros(); }

// A connection that sends without waiting endlessly, and discards what it gets.
class Attacker {
 public:
  explicit Attacker(const std::string& address) : connection_(address) {
    Send(absl::StrCat(kHttp2Preface, Http2Frame(Http2::kSettings, 0, 0, "")));
  }
  bool is_open() const { return is_open_; }
  // False once the other end has closed, or takes nothing until `end_us`.
  bool Send(absl::string_view bytes, int64_t end_us = INT64_MAX) {
    while (is_open_ && !bytes.empty() && Now() < end_us) {
      Drain();
      const ssize_t count = send(connection_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) {
        bytes.remove_prefix(count);
      } else if (count < 0 && errno == EAGAIN) {
        pollfd waiting = {connection_.fd(), POLLOUT | POLLIN, 0};
        poll(&waiting, 1, 10);
      } else {
        is_open_ = false;
      }
    }
    return is_open_ && bytes.empty();
  }
  void Drain() {
    char bytes[16384];
    ssize_t count = 0;
    while ((count = recv(connection_.fd(), bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) received_.append(bytes, count);
    if (count == 0 || (count < 0 && errno != EAGAIN)) is_open_ = false;
    if (received_.size() > 100'000) received_.erase(0, received_.size() - 50'000);
  }
  void DrainFor(int milliseconds) {
    for (const int64_t end_us = Now() + milliseconds * int64_t{1000}; is_open_ && Now() < end_us;) {
      pollfd waiting = {connection_.fd(), POLLIN, 0};
      poll(&waiting, 1, 5);
      Drain();
    }
  }
  const std::string& received() const { return received_; }

 private:
  Connection connection_;
  bool is_open_ = true;
  std::string received_;
};

std::string Repeat(const std::string& bytes, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += bytes;
  return all;
}

std::string Gzip(size_t megabytes) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string zeros(1 << 20, '\0'), out, part(1 << 16, '\0');
  for (size_t i = 0; i <= megabytes; ++i) {
    stream.next_in = reinterpret_cast<Bytef*>(zeros.data());
    stream.avail_in = i == megabytes ? 0 : zeros.size();
    do {
      stream.next_out = reinterpret_cast<Bytef*>(part.data());
      stream.avail_out = part.size();
      deflate(&stream, i == megabytes ? Z_FINISH : Z_NO_FLUSH);
      out.append(part.data(), part.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  return out;
}

struct Target {
  std::string address;
  std::vector<std::pair<std::string, std::string>> fields;  // of the attacker's calls: its token
  int seconds = 1;

  int64_t End() const { return Now() + seconds * int64_t{1'000'000}; }
  std::string Call(const std::string& path, std::vector<std::pair<std::string, std::string>> more = {}) const {
    more.insert(more.end(), fields.begin(), fields.end());
    return Http2Call(path, more);
  }
};

// ---- The attacks ----

void CompressedCall(const Target& target) {
  const std::string bomb = GrpcMessage(Gzip(512), /*is_compressed=*/true);
  for (const char* encoding : {"gzip", "deflate", "identity", ""}) {
    for (const char* path : {kListJobs, kHealthCheck}) {
      Attacker attacker(target.address);
      std::vector<std::pair<std::string, std::string>> fields;
      if (encoding[0] != 0) fields.push_back({"grpc-encoding", encoding});
      attacker.Send(Http2Frame(Http2::kHeaders, Http2::kEndHeaders, 1, target.Call(path, fields)));
      // Within the first window: without a thousand of WINDOW_UPDATEs this is what a stranger can send at once.
      const int64_t end_us = target.End();
      for (size_t at = 0; at < bomb.size() && attacker.is_open(); at += 16'000) {
        const std::string part = bomb.substr(at, 16'000);
        if (!attacker.Send(Http2Frame(Http2::kData, at + 16'000 >= bomb.size() ? Http2::kEndStream : 0, 1, part),
                           end_us)) {
          break;
        }
        attacker.DrainFor(2);
        if (absl::StrContains(attacker.received(), "grpc-status")) break;
      }
      attacker.DrainFor(100);
    }
  }
}

// From here: `make` is called for the frames of the next burst, with the first stream id of it, until the time is over.
void Flood(const Target& target, int connections, int64_t frames_max, int streams_of_burst,
           const std::function<std::string(uint32_t)>& make, int frames_of_burst) {
  std::vector<std::thread> threads;
  std::atomic<int64_t> sent{0};
  for (int i = 0; i < connections; ++i) {
    threads.emplace_back([&] {
      const int64_t end_us = target.End();
      while (Now() < end_us && sent < frames_max) {
        Attacker attacker(target.address);
        uint32_t stream = 1;
        while (Now() < end_us && sent < frames_max && attacker.Send(make(stream), end_us)) {
          stream += 2 * streams_of_burst;
          sent += frames_of_burst;
        }
        if (!attacker.is_open()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  testing_support::PrintMeasured(absl::StrCat(sent.load(), " frames sent"));
}

void RapidReset(const Target& target) {
  const std::string fields = target.Call(kListJobs);
  Flood(
      target, 8, 2'000'000, 100,
      [&](uint32_t stream) {
        std::string burst;
        for (int i = 0; i < 100; ++i, stream += 2) {
          burst += Http2Frame(Http2::kHeaders, Http2::kEndHeaders, stream, fields);
          burst += Http2Frame(Http2::kReset, 0, stream, BigEndian(8, 4));
        }
        return burst;
      },
      200);
}

// The server resets: its deadline has passed, or the fields are not those of a call.
void ResetByTheServer(const Target& target) {
  const std::string expired = target.Call(kListJobs, {{"grpc-timeout", "1n"}});
  Flood(
      target, 8, 2'000'000, 100,
      [&](uint32_t stream) {
        std::string burst;
        for (int i = 0; i < 100; ++i, stream += 2) {
          burst += Http2Frame(Http2::kHeaders, Http2::kEndHeaders, stream, expired);
          burst += Http2Frame(Http2::kWindowUpdate, 0, stream, BigEndian(0x7fffffff, 4));
        }
        return burst;
      },
      200);
}

void OpenAndLeave(const Target& target) {
  const std::string fields = target.Call(kListJobs);
  const int64_t end_us = target.End();
  for (int round = 0; round < 200 && Now() < end_us; ++round) {
    Attacker attacker(target.address);
    std::string burst;
    for (uint32_t stream = 1; stream < 2000; stream += 2) {
      burst += Http2Frame(Http2::kHeaders, Http2::kEndHeaders, stream, fields);
    }
    attacker.Send(burst, end_us);
  }
}

void PriorityFlood(const Target& target) {
  const std::string burst =
      Repeat(Http2Frame(Http2::kPriority, 0, 3, absl::StrCat(BigEndian(0, 4), std::string(1, '\x10'))), 1000);
  Flood(
      target, 2, 100'000'000, 0, [&](uint32_t) { return burst; }, 1000);
}

void FramesThatAreAnswered(const Target& target) {
  const std::string burst =
      Repeat(absl::StrCat(Http2Frame(Http2::kSettings, 0, 0, ""), Http2Frame(Http2::kPing, 0, 0, "01234567")), 500);
  Flood(
      target, 2, 100'000'000, 0, [&](uint32_t) { return burst; }, 1000);
}

void FramesOfNothing(const Target& target) {
  const std::string open = Http2Frame(Http2::kHeaders, Http2::kEndHeaders, 1, target.Call(kListJobs));
  const std::string burst =
      Repeat(absl::StrCat(Http2Frame(Http2::kData, 0, 1, ""), Http2Frame(Http2::kWindowUpdate, 0, 0, BigEndian(1, 4)),
                          Http2Frame(0x77, 0, 0, "unknown")),
             300);
  Flood(
      target, 2, 100'000'000, 0, [&](uint32_t stream) { return stream == 1 ? absl::StrCat(open, burst) : burst; }, 900);
}

void Continuations(const Target& target) {
  const std::string open = Http2Frame(Http2::kHeaders, 0, 1, target.Call(kListJobs));
  const std::string burst = Repeat(Http2Frame(Http2::kContinuation, 0, 1, ""), 1000);
  Flood(
      target, 2, 100'000'000, 0, [&](uint32_t) { return absl::StrCat(open, burst); }, 1000);
  const std::string large =
      Repeat(Http2Frame(Http2::kContinuation, 0, 1, testing_support::Http2Field("x", std::string(16'000, 'x'))), 20);
  Flood(
      target, 2, 2000, 0, [&](uint32_t) { return absl::StrCat(open, large); }, 20);
}

void HeldHealthStreams(const Target& target) {
  const std::string call = target.Call(kHealthWatch);
  std::vector<std::unique_ptr<Attacker>> held;
  const int64_t end_us = target.End();
  for (int i = 0; i < 20; ++i) {
    held.push_back(std::make_unique<Attacker>(target.address));
    std::string burst;
    for (uint32_t stream = 1; stream < 2000; stream += 2) {
      burst += Http2Frame(Http2::kHeaders, Http2::kEndHeaders, stream, call);
      burst += Http2Frame(Http2::kData, Http2::kEndStream, stream, GrpcMessage(""));
    }
    held.back()->Send(burst, end_us);
  }
  for (auto& attacker : held) attacker->DrainFor(20);
}

void MadeUpMethods(const Target& target) {
  const std::string long_name(3000, 'n');
  Flood(
      target, 4, 40'000, 50,
      [&](uint32_t stream) {
        std::string burst;
        for (int i = 0; i < 50; ++i, stream += 2) {
          const std::string path = absl::StrCat("/varifocal.v1.", long_name, "/m", stream);
          burst += Http2Frame(Http2::kHeaders, Http2::kEndHeaders, stream, target.Call(path));
          burst += Http2Frame(Http2::kData, Http2::kEndStream, stream, GrpcMessage(""));
        }
        return burst;
      },
      100);
}

void ClaimedSizes(const Target& target) {
  for (const uint64_t size : {uint64_t{0xffffffff}, uint64_t{17} << 20}) {
    std::vector<std::unique_ptr<Attacker>> held;
    for (int i = 0; i < 20; ++i) {
      Attacker& attacker = *held.emplace_back(std::make_unique<Attacker>(target.address));
      attacker.Send(Http2Frame(Http2::kHeaders, Http2::kEndHeaders, 1, target.Call(kListJobs)));
      attacker.Send(Http2Frame(Http2::kData, 0, 1, absl::StrCat(std::string(1, '\0'), BigEndian(size, 4))));
      for (int part = 0; part < 4; ++part) attacker.Send(Http2Frame(Http2::kData, 0, 1, std::string(16'000, 'x')));
      attacker.DrainFor(5);
    }
  }
}

void ManyConnections(const Target& target) {
  std::vector<std::unique_ptr<Connection>> silent;
  const int64_t end_us = target.End();
  while (silent.size() < 1500 && Now() < end_us) {
    silent.push_back(std::make_unique<Connection>(target.address));
    if (silent.size() % 2 == 0)
      silent.back()->Send(absl::StrCat(kHttp2Preface, Http2Frame(Http2::kSettings, 0, 0, "")));
  }
}

struct Attack {
  const char* name;
  void (*run)(const Target&);
  int growth_mb_max;  // above the daemon's resident memory before it
};

// The daemon with one small model has 40 MB.
constexpr Attack kAttacks[] = {
    {"compressed call", CompressedCall, 40},
    {"rapid reset", RapidReset, 150},
    {"reset by the server", ResetByTheServer, 150},
    {"streams, then the connection ends", OpenAndLeave, 150},
    {"PRIORITY", PriorityFlood, 100},
    {"SETTINGS and PING", FramesThatAreAnswered, 60},
    {"empty DATA, WINDOW_UPDATE, unknown", FramesOfNothing, 60},
    {"CONTINUATION", Continuations, 60},
    {"held Health.Watch", HeldHealthStreams, 100},
    {"method names", MadeUpMethods, 100},
    {"claimed message sizes", ClaimedSizes, 40},
    {"connections", ManyConnections, 120},
};

// Whether the frames end the stream. Fields may be compressed, so they are not looked at.
bool HasEnded(absl::string_view frames, uint32_t stream) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(frames[i])); };
  while (frames.size() >= 9) {
    const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
    const bool has_end = byte(3) <= Http2::kHeaders && (byte(4) & Http2::kEndStream) != 0;
    if (has_end && byte(8) == stream) return true;
    if (frames.size() < 9 + size) return false;
    frames.remove_prefix(9 + size);
  }
  return false;
}

// A caller beside an attack: answered calls of `varifocal list` would need a process each, so the call is by hand too.
bool IsAnswered(const std::string& address, const std::string& token, int seconds) {
  Attacker caller(address);
  caller.Send(Http2Frame(Http2::kHeaders, Http2::kEndHeaders, 1,
                         Http2Call(kListJobs, {{"authorization", absl::StrCat("Bearer ", token)}})));
  caller.Send(Http2Frame(Http2::kData, Http2::kEndStream, 1, GrpcMessage("")));
  for (const int64_t end_us = Now() + seconds * int64_t{1'000'000}; Now() < end_us && caller.is_open();) {
    caller.DrainFor(10);
    if (HasEnded(caller.received(), 1)) return true;
  }
  return false;
}

class StrangerTest : public testing::Test {
 protected:
  // The short form runs beside other tests, and reports the worst time.
  const int seconds_to_answer_ = testing_support::IsFullSize() ? 5 : 60;

  void SetUp() override {
    testing_support::WriteFile(
        directory_.File("tokens"),
        absl::StrCat("viewer ", Sha256Hex("viewer"), " vera\nsubmitter ", Sha256Hex("submitter"), " sam\nadmin ",
                     Sha256Hex("admin"), " anna\nviewer ", Sha256Hex("other"), " olga\n"));
    daemon_ = std::make_unique<DaemonProcess>(std::vector<std::string>{
        absl::StrCat("--db=", directory_.File("r.db")), "--model=base=models/baseline", "--kv-cache-bytes=64000000",
        absl::StrCat("--token-file=", directory_.File("tokens")), "--metrics-listen=127.0.0.1:0"});
    address_ = daemon_->Address();
    ASSERT_NE(address_, "") << daemon_->Errors();
    ASSERT_TRUE(IsAnswered(address_, "other", 60));
  }

  int64_t ResidentMb() const {
    const std::string status = testing_support::ReadFile(absl::StrCat("/proc/", daemon_->pid(), "/status"));
    int64_t kilobytes = 0;
    for (const absl::string_view line : absl::StrSplit(status, '\n')) {
      if (!absl::StartsWith(line, "VmRSS:")) continue;
      for (const absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty())) {
        if (absl::SimpleAtoi(word, &kilobytes)) break;
      }
    }
    return kilobytes >> 10;
  }

  void Run(const Attack& attack, Target target, const std::string& role) {
    SCOPED_TRACE(absl::StrCat(attack.name, ", token of ", role));
    if (role != "nobody") target.fields = {{"authorization", absl::StrCat("Bearer ", role)}};
    target.seconds = testing_support::IsFullSize() ? 20 : 1;
    const int64_t before = ResidentMb();
    std::atomic<bool> is_over{false};
    std::atomic<int64_t> peak{before}, worst_us{0};
    std::thread meter([&] {
      while (!is_over) {
        peak = std::max<int64_t>(peak, ResidentMb());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    std::thread caller([&] {
      while (!is_over) {
        const int64_t begin_us = Now();
        EXPECT_TRUE(IsAnswered(address_, "other", seconds_to_answer_)) << "a caller beside it";
        worst_us = std::max<int64_t>(worst_us, Now() - begin_us);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
    attack.run(target);
    is_over = true;
    caller.join();
    // nginx limits addresses, so it may answer that this one has had too much.
    EXPECT_TRUE(IsAnswered(target.address, "other", seconds_to_answer_)) << "a caller after it";
    meter.join();
    ASSERT_TRUE(daemon_->IsRunning()) << daemon_->Errors();
    testing_support::PrintMeasured(absl::StrCat(attack.name, " (", role, "): ", before, " -> ", peak.load(),
                                                " MB, worst answer ", worst_us / 1000, " ms"));
    EXPECT_LE(peak - before, attack.growth_mb_max);
  }

  void StopInOrder() {
    daemon_->Signal(SIGTERM);
    EXPECT_EQ(daemon_->Wait(15), 0) << daemon_->Errors().substr(0, 2000);
  }

  TemporaryDirectory directory_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::string address_;
};

class StrangerByRoleTest : public StrangerTest, public testing::WithParamInterface<const char*> {};

TEST_P(StrangerByRoleTest, CannotStopTheDaemon) {
  for (const Attack& attack : kAttacks) Run(attack, {.address = address_}, GetParam());
  EXPECT_LE(ResidentMb(), 400) << "after all of them";
  StopInOrder();
}

INSTANTIATE_TEST_SUITE_P(Roles, StrangerByRoleTest, testing::Values("nobody", "viewer", "submitter", "admin"),
                         [](const auto& info) { return std::string(info.param); });

// nginx with the shipped configuration, without TLS: what it does with frames does not depend on it.
class Nginx {
 public:
  explicit Nginx(const std::string& daemon_address) {
    const Connection free(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(any);
    EXPECT_EQ(bind(free.fd(), reinterpret_cast<sockaddr*>(&any), size), 0);
    EXPECT_EQ(getsockname(free.fd(), reinterpret_cast<sockaddr*>(&any), &size), 0);
    address = absl::StrCat("127.0.0.1:", ntohs(any.sin_port));
    std::string front;
    for (const absl::string_view line :
         absl::StrSplit(testing_support::ReadFile("deploy/nginx/varifocal.conf"), '\n')) {
      if (!absl::StrContains(line, "ssl_")) absl::StrAppend(&front, line, "\n");
    }
    front = absl::StrReplaceAll(front, {{"server 127.0.0.1:50151;", absl::StrCat("server ", daemon_address, ";")},
                                        {"listen 443 ssl http2;", absl::StrCat("listen ", address, " http2;")}});
    const std::string all = absl::StrCat(
        "daemon off;\npid ", directory_.File("pid"), ";\nerror_log ", directory_.File("error.log"),
        " crit;\nworker_processes 1;\nworker_rlimit_nofile 4096;\nevents { worker_connections 2048; }\nhttp {\n"
        "access_log off;\nclient_body_temp_path ",
        directory_.File("b"), ";\nproxy_temp_path ", directory_.File("p"), ";\nfastcgi_temp_path ",
        directory_.File("f"), ";\nuwsgi_temp_path ", directory_.File("u"), ";\nscgi_temp_path ", directory_.File("s"),
        ";\n", front, "}\n");
    testing_support::WriteFile(directory_.File("nginx.conf"), all);
  }
  bool Start() {
    process_ = std::make_unique<BackgroundProcess>(
        "/usr/sbin/nginx", std::vector<std::string>{"-c", directory_.File("nginx.conf"), "-e", directory_.File("e")});
    return process_->WaitForFile(directory_.File("pid"), 20);
  }
  ~Nginx() {
    if (process_ == nullptr) return;
    process_->Signal(SIGTERM);
    process_->Wait(10);
  }
  std::string Errors() const { return testing_support::ReadFile(directory_.File("e")); }

  std::string address;

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<BackgroundProcess> process_;
};

TEST_F(StrangerTest, BehindNginxNeither) {
  if (!std::filesystem::exists("/usr/sbin/nginx"))
    GTEST_SKIP() << "nginx is not installed (apt-get install nginx-light)";
  Nginx nginx(address_);
  ASSERT_TRUE(nginx.Start()) << nginx.Errors();
  for (const char* role : {"nobody", "viewer"}) {
    for (const Attack& attack : kAttacks) Run(attack, {.address = nginx.address}, role);
  }
  StopInOrder();
}

}  // namespace
}  // namespace varifocal
