// What of a client's frames reaches gRPC, and when. Method: frames by hand, a manual clock; whole and byte by byte.
#include "server/front/frame_gate.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/http2_frames.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

constexpr int kTurns = 1 << 20;

std::string Settings() { return Http2Frame(Http2::kSettings, 0, 0, ""); }
std::string Begin() { return absl::StrCat(kHttp2Preface, Settings()); }
std::string Headers(uint32_t stream, int flags = Http2::kEndHeaders) {
  return Http2Frame(Http2::kHeaders, flags, stream, Http2Call("/a/b"));
}
std::string Data(uint32_t stream, absl::string_view payload, int flags = 0) {
  return Http2Frame(Http2::kData, flags, stream, payload);
}

class FrameGateTest : public testing::Test {
 protected:
  void Make(const FrameLimits& limits = {}) {
    limits_ = limits;
    shared_ = std::make_unique<SharedRates>(limits);
    gate_ = std::make_unique<FrameGate>(limits, shared_.get());
  }
  // All of it, as fast as the rates allow; the microseconds that this took.
  int64_t Pass(absl::string_view bytes) {
    const int64_t begin_us = now_us_;
    while (!bytes.empty() && gate_->refusal().empty()) {
      const FrameGate::Passed passed = gate_->FromClient(bytes, now_us_, kTurns);
      bytes.remove_prefix(passed.consumed);
      now_us_ += passed.wait_us;
    }
    return now_us_ - begin_us;
  }
  std::string Taken() { return std::exchange(gate_->to_server, ""); }

  FrameLimits limits_;
  std::unique_ptr<SharedRates> shared_;
  std::unique_ptr<FrameGate> gate_;
  int64_t now_us_ = 1'000'000;
};

TEST_F(FrameGateTest, OrdinaryCallsPassByteForByteHoweverTheyAreCut) {
  const std::string call =
      absl::StrCat(Begin(), Headers(1), Data(1, GrpcMessage("request"), Http2::kEndStream), Settings(),
                   Http2Frame(Http2::kSettings, Http2::kAck, 0, ""), Http2Frame(Http2::kPing, 0, 0, "01234567"),
                   Headers(3, 0), Http2Frame(Http2::kContinuation, Http2::kEndHeaders, 3, "more"),
                   Data(3, GrpcMessage(std::string(40'000, 'x')).substr(0, 20'000)),
                   Data(3, GrpcMessage(std::string(40'000, 'x')).substr(20'000), Http2::kEndStream),
                   Http2Frame(Http2::kReset, 0, 3, BigEndian(8, 4)));
  for (const size_t part : {size_t{1}, size_t{7}, call.size()}) {
    Make();
    for (size_t at = 0; at < call.size(); at += part) Pass(absl::string_view(call).substr(at, part));
    EXPECT_EQ(Taken(), call) << part;
    EXPECT_EQ(gate_->to_client, "");
    EXPECT_EQ(gate_->stream_count(), 1u) << "stream 1 waits for its answer";
  }
}

TEST_F(FrameGateTest, StreamsWaitAboveTheRateOfTheConnectionAndOfAll) {
  Make({.streams = {.per_second = 100, .burst = 10}});
  std::string calls = Begin();
  for (uint32_t stream = 1; stream < 2 * 60; stream += 2)
    absl::StrAppend(&calls, Headers(stream), Http2Frame(Http2::kReset, 0, stream, BigEndian(8, 4)));
  EXPECT_NEAR(Pass(calls), 500'000, 20'000) << "60 streams: 10 at once, 50 at 100 a second";
  EXPECT_EQ(Taken().size(), calls.size());
  Make({.all_streams = {.per_second = 100, .burst = 10}});
  FrameGate other(limits_, shared_.get());
  EXPECT_EQ(other.FromClient(absl::StrCat(Begin(), Headers(1)), now_us_, kTurns).wait_us, 0);
  EXPECT_NEAR(Pass(calls), 510'000, 20'000) << "one of the first ten is the other's";
  // A turn ends after its streams.
  Make();
  const FrameGate::Passed passed = gate_->FromClient(calls, now_us_, 3);
  EXPECT_TRUE(passed.has_turn_ended);
  EXPECT_EQ(gate_->FromClient(absl::string_view(calls).substr(passed.consumed), now_us_, kTurns).wait_us, 0);
  EXPECT_EQ(Taken(), calls);
}

// What costs gRPC most for the bytes that it costs to send.
TEST_F(FrameGateTest, FramesOfNoUseAreCountedAndNotPassedOn) {
  Make({.frames = {.per_second = 1000, .burst = 100}});
  Pass(Begin());
  Taken();
  std::string useless;
  for (int i = 0; i < 500; ++i) {
    absl::StrAppend(&useless, Http2Frame(Http2::kPriority, 0, 3, "12345"), Http2Frame(0x42, 7, 9, "unknown"),
                    Http2Frame(Http2::kReset, 0, 7, BigEndian(8, 4)),
                    Http2Frame(Http2::kWindowUpdate, 0, 7, BigEndian(8, 4)));
  }
  EXPECT_NEAR(Pass(useless), 1'900'000, 50'000) << "2,000 frames";
  EXPECT_EQ(Taken(), "");
  Make({.frames = {.per_second = 1000, .burst = 100}});
  std::string answered = Begin();
  for (int i = 0; i < 50; ++i) absl::StrAppend(&answered, Settings(), Http2Frame(Http2::kPing, 0, 0, "01234567"));
  EXPECT_NEAR(Pass(answered), 1'900'000, 100'000) << "100 frames that count as 20";
  Make();
  Pass(absl::StrCat(Begin(), Headers(1)));
  Taken();
  Pass(absl::StrCat(Data(1, ""), Data(1, ""), Data(1, "", Http2::kEndStream)));
  EXPECT_EQ(Taken(), Data(1, "", Http2::kEndStream));
}

TEST_F(FrameGateTest, HeaderBlocksAreBounded) {
  const auto refusal = [this](const std::string& bytes) {
    Make({.field_bytes_max = 1000, .field_frames_max = 4});
    Pass(absl::StrCat(Begin(), bytes));
    return gate_->refusal();
  };
  const auto part = [](int bytes, int flags = 0) {
    return Http2Frame(Http2::kContinuation, flags, 1, std::string(bytes, 'x'));
  };
  EXPECT_EQ(refusal(absl::StrCat(Headers(1, 0), part(100), part(0), part(0, Http2::kEndHeaders))), "");
  EXPECT_THAT(refusal(absl::StrCat(Headers(1, 0), part(0), part(0), part(0), part(0))), HasSubstr("4 frames"));
  EXPECT_THAT(refusal(absl::StrCat(Headers(1, 0), part(500), part(500))), HasSubstr("1000 bytes"));
  EXPECT_THAT(refusal(Http2Frame(Http2::kHeaders, 4, 1, "", 1001)), HasSubstr("1001 bytes")) << "at its head";
  EXPECT_NE(refusal(absl::StrCat(Headers(1, 0), Settings())), "");
  EXPECT_NE(refusal(part(1)), "");
  EXPECT_THAT(gate_->to_client, HasSubstr("header block")) << "the client is told";
  EXPECT_NE(refusal(Http2Frame(Http2::kPush, 4, 1, "1234")), "");
  EXPECT_NE(refusal(Http2Frame(Http2::kSettings, 0, 0, "", 1 << 20)), "");
}

TEST_F(FrameGateTest, ConnectionsThatAreNoHttp2) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01"), absl::StrCat(kHttp2Preface, Headers(1)),
        absl::StrCat(kHttp2Preface, Http2Frame(Http2::kSettings, Http2::kAck, 0, ""))}) {
    Make();
    Pass(bytes);
    EXPECT_NE(gate_->refusal(), "") << bytes;
    EXPECT_FALSE(gate_->IsOpen());
  }
}

// gRPC sees a message that is not compressed, claims another size, and never comes to its end.
TEST_F(FrameGateTest, ACompressedMessageIsNeverWhole) {
  const std::string message = GrpcMessage(std::string(100, 'z'), /*is_compressed=*/true);
  const std::string disarmed = absl::StrCat(std::string(2, '\0'), "\xff\xff\xff", std::string(100, 'z'));
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{3}, size_t{5}, size_t{50}}) {
    Make();
    Pass(absl::StrCat(Begin(), Headers(1)));
    Taken();
    Pass(absl::StrCat(cut == 0 ? "" : Data(1, message.substr(0, cut)), Data(1, message.substr(cut)), Data(1, "more"),
                      Data(1, "", Http2::kEndStream)));
    const std::string first = disarmed.substr(0, cut == 0 ? disarmed.size() : cut);
    EXPECT_EQ(Taken(), absl::StrCat(Data(1, first), Data(1, "", Http2::kEndStream))) << cut;
    EXPECT_FALSE(gate_->IsBetweenFrames()) << "gRPC has said nothing yet";
    const size_t discarded = (cut == 0 ? 0 : message.size() - cut) + 4;
    EXPECT_THAT(gate_->to_client, HasSubstr(Http2Frame(Http2::kWindowUpdate, 0, 0, BigEndian(4, 4))))
        << "the window of the connection stays open: " << discarded;
  }
  // In one frame with its end.
  Make();
  Pass(absl::StrCat(Begin(), Headers(1)));
  Taken();
  Pass(Data(1, message, Http2::kEndStream));
  EXPECT_EQ(Taken(), Data(1, disarmed, Http2::kEndStream));
}

TEST_F(FrameGateTest, AMessageAboveTheLimitIsAnsweredHere) {
  for (const int size : {99, 100, 101}) {
    Make({.message_bytes_max = 100});
    Pass(absl::StrCat(Begin(), Headers(1)));
    Taken();
    const std::string begin = GrpcMessage(std::string(size, 'x')).substr(0, 50);
    Pass(absl::StrCat(Data(1, begin.substr(0, 3)), Data(1, begin.substr(3))));
    const std::string passed = absl::StrCat(Data(1, begin.substr(0, 3)), Data(1, begin.substr(3)));
    if (size <= 100) {
      EXPECT_EQ(Taken(), passed);
      EXPECT_EQ(gate_->to_client, "");
      continue;
    }
    EXPECT_EQ(Taken(), absl::StrCat(passed, Http2Frame(Http2::kReset, 0, 1, BigEndian(8, 4))));
    EXPECT_THAT(gate_->to_client, HasSubstr("the limit, which is 100"));
    EXPECT_EQ(gate_->stream_count(), 0u);
  }
}

TEST_F(FrameGateTest, ARequestThatDoesNotEndIsCancelled) {
  Make({.request_us_max = 1000});
  Pass(absl::StrCat(Begin(), Headers(1), Data(1, "half"), Headers(3, Http2::kEndHeaders | Http2::kEndStream)));
  Taken();
  now_us_ += 1000;
  gate_->Tick(now_us_);
  EXPECT_EQ(Taken(), "");
  gate_->Tick(now_us_ + 1);
  EXPECT_EQ(Taken(), Http2Frame(Http2::kReset, 0, 1, BigEndian(8, 4)));
  EXPECT_EQ(gate_->stream_count(), 1u) << "the other one has ended, and may take as long as it likes";
}

TEST_F(FrameGateTest, AnAnswerEndsItsStream) {
  Make();
  Pass(absl::StrCat(Begin(), Headers(1), Headers(3), Headers(5)));
  EXPECT_FALSE(gate_->IsBetweenFrames());
  gate_->FromServer(Settings());
  EXPECT_TRUE(gate_->IsBetweenFrames());
  const std::string answer =
      absl::StrCat(Http2Frame(Http2::kHeaders, 0, 1, "a"), Http2Frame(Http2::kContinuation, Http2::kEndHeaders, 1, "b"),
                   Http2Frame(Http2::kData, Http2::kEndStream, 1, "c"));
  for (size_t i = 0; i < answer.size(); ++i) {
    gate_->FromServer(absl::string_view(answer).substr(i, 1));
    EXPECT_EQ(gate_->IsBetweenFrames(), i + 1 == answer.size() || i == answer.size() - 11) << i;
  }
  EXPECT_EQ(gate_->stream_count(), 2u);
  gate_->FromServer(absl::StrCat(Http2Frame(Http2::kReset, 0, 3, BigEndian(0, 4)),
                                 Http2Frame(Http2::kHeaders, Http2::kEndHeaders | Http2::kEndStream, 5, "d")));
  EXPECT_EQ(gate_->stream_count(), 0u);
}

}  // namespace
}  // namespace varifocal
