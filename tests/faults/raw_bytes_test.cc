// Raw bytes and broken HTTP/2 at the port of a server. Method: connections that send random bytes, the preface with
// random, contradictory or endless frames, half of a request, or nothing, and then end orderly, with a reset, or not at
// all; at most 32 stay open at a time. Afterwards the server answers health and a known prompt (I5), and has no more
// descriptors than before.
#include <deque>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/fakes/server_fixture.h"
#include "tests/faults/loopback.h"
#include "tests/support/connected_channel.h"
#include "tests/support/http2_frames.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

constexpr size_t kOpenMax = 32;

std::string RandomBytes(Random& random, size_t count_max) {
  std::string bytes(random.Below(count_max + 1), '\0');
  for (char& byte : bytes) byte = random.Below(256);
  return bytes;
}

std::string RequestHeaders() { return Http2Call("/varifocal.v1.Inference/ListModels"); }

std::string RandomFrame(Random& random) {
  const std::string payload = RandomBytes(random, 64);
  const size_t claimed = random.Below(4) == 0 ? random.Below(1 << 24) : payload.size();
  return Http2Frame(random.Below(12), random.Below(256), random.Below(8), payload, claimed);
}

std::string Attack(Random& random) {
  std::string bytes = kHttp2Preface;
  switch (random.Below(9)) {
    case 0:
      return RandomBytes(random, 2000);
    case 1:  // half of the preface
      bytes.resize(random.Below(bytes.size()));
      return bytes;
    case 2:
      bytes += Http2Frame(Http2::kSettings, 0, 0, "");
      for (uint64_t i = 0; i < 1 + random.Below(20); ++i) bytes += RandomFrame(random);
      return bytes;
    case 3:  // settings whose values or sizes are not allowed
      return bytes + Http2Frame(Http2::kSettings, 0, 0, RandomBytes(random, 60));
    case 4:  // a header block that does not end, up to a bound here
      bytes += Http2Frame(Http2::kSettings, 0, 0, "") + Http2Frame(Http2::kHeaders, 0, 1, RequestHeaders());
      for (int i = 0; i < 60; ++i)
        bytes += Http2Frame(Http2::kContinuation, 0, 1, Http2Field(absl::StrCat("x-", i), std::string(100, 'v')));
      return bytes;
    case 5:  // streams that are opened and reset
      bytes += Http2Frame(Http2::kSettings, 0, 0, "");
      for (uint32_t stream = 1; stream < 100; stream += 2) {
        bytes += Http2Frame(Http2::kHeaders, 4, stream, RequestHeaders());
        bytes += Http2Frame(Http2::kReset, 0, stream, std::string("\0\0\0\x08", 4));
      }
      return bytes;
    case 6:  // a message that claims 2 GiB
      return absl::StrCat(
          bytes, Http2Frame(Http2::kSettings, 0, 0, ""), Http2Frame(Http2::kHeaders, 4, 1, RequestHeaders()),
          Http2Frame(Http2::kData, 0, 1, std::string("\0\x7f\xff\xff\xff", 5) + RandomBytes(random, 100)));
    case 7:  // a good request, cut anywhere
      bytes += Http2Frame(Http2::kSettings, 0, 0, "") + Http2Frame(Http2::kHeaders, 4, 1, RequestHeaders()) +
               Http2Frame(Http2::kData, 1, 1, std::string(5, '\0'));
      bytes.resize(random.Below(bytes.size() + 1));
      return bytes;
    default:  // windows that overflow, pings, a stream that depends on itself
      bytes += Http2Frame(Http2::kSettings, 0, 0, "");
      for (int i = 0; i < 20; ++i) {
        bytes += Http2Frame(Http2::kWindowUpdate, 0, random.Below(2), std::string("\x7f\xff\xff\xff", 4));
        bytes += Http2Frame(Http2::kPing, 0, 0, RandomBytes(random, 9));
        bytes += Http2Frame(Http2::kPriority, 0, 3, std::string("\0\0\0\x03\x10", 5));
      }
      return bytes;
  }
}

int64_t DescriptorCount() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

class RawBytesTest : public ServerTest {
 protected:
  void ExpectServing() {
    const auto channel = ConnectedChannel(server_->address());
    EXPECT_EQ(Health(channel, ""), "SERVING");
    EXPECT_TRUE(Generate(SmallGenerate()).ok());
  }
};

TEST_F(RawBytesTest, BrokenConnectionsHurtNoOther) {
  ExpectServing();
  const int64_t before = DescriptorCount();
  int64_t closed_count = 0;
  {
    std::deque<Connection> open;
    for (Trials trials("connections", {.quick = 1000, .full = 30'000}); trials.Next();) {
      Random random = trials.MakeRandom();
      Connection connection(server_->address());
      ASSERT_TRUE(connection.is_open());
      if (random.Below(16) > 0) connection.Send(Attack(random));
      if (random.Coin()) closed_count += connection.DrainUntilClosed(2);
      if (random.Coin()) connection.ResetAtClose();
      if (random.Below(4) == 0) open.push_back(std::move(connection));
      if (open.size() > kOpenMax) open.pop_front();
      if (trials.index() % 200 == 199) ExpectServing();
    }
  }
  PrintMeasured(absl::StrCat(closed_count, " connections closed by the server within 2 ms"));
  ExpectServing();
  // gRPC keeps the descriptor of a connection without settings until its own time-out, 20 s.
  for (int i = 0; i < 9000 && DescriptorCount() > before + 8; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(DescriptorCount(), before + 8) << "descriptors of ended connections";
}

TEST_F(RawBytesTest, ABrokenConnectionIsClosed) {
  Random random("closed");
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), RandomBytes(random, 2000) + std::string(64, 'x'),
        std::string(kHttp2Preface) + Http2Frame(Http2::kSettings, 0, 0, "x")}) {
    Connection connection(server_->address());
    connection.Send(bytes);
    EXPECT_TRUE(connection.DrainUntilClosed(60'000)) << bytes.substr(0, 20);
  }
}

}  // namespace
}  // namespace varifocal
