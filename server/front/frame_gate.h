// The HTTP/2 frames of one connection on their way to gRPC: counted, slowed down or refused before gRPC sees them.
//
// gRPC 1.51 keeps every stream that was opened until a thread has looked at it, inflates a compressed message before it
// looks at its size, and keeps what PRIORITY and CONTINUATION frames cost. None of that can be set, so what reaches it is
// bounded here:
//
//   streams      a rate of a connection and one of all; above it the connection is read later
//   frames       the same; PRIORITY and frames of unknown types count and are not passed on
//   fields       bytes and frames of a header block; above them the connection is refused
//   messages     one that is compressed or larger than the limit never reaches gRPC: the call is answered and the rest of its
//                request is discarded
//   requests     one that is not complete in time is cancelled
//
// Field blocks are not decoded, and answers of its own use no HPACK table, so both ends keep theirs.
//
// Source:  RFC 9113, sections 4 to 6; the five bytes before a message: gRPC over HTTP/2 (PROTOCOL-HTTP2.md).
// Threads: one.
// Cost:    O(bytes); one entry for each open stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "server/front/token_bucket.h"

namespace varifocal {

struct FrameLimits {
  Rate streams = {.per_second = 2000, .burst = 2000};  // of one connection; a stream of long fields counts as several
  Rate all_streams = {.per_second = 4000, .burst = 4000};  // of all connections
  Rate frames = {.per_second = 20'000, .burst = 20'000};   // of one connection; SETTINGS and PING count as twenty
  Rate all_frames = {.per_second = 200'000, .burst = 200'000};
  int64_t field_bytes_max = 64 << 10;  // of a header block, above gRPC's own limit, which has a better answer
  int field_frames_max = 16;           // CONTINUATION frames of a header block
  int64_t message_bytes_max = 16 << 20;
  size_t streams_max =
      1100;  // open at a time: those that gRPC allows, and some of a client that does not know that yet
  int64_t request_us_max = 60'000'000;  // from the fields of a call to the end of its request
};

// The rates of all connections together.
struct SharedRates {
  explicit SharedRates(const FrameLimits& limits) : streams(limits.all_streams), frames(limits.all_frames) {}
  TokenBucket streams, frames;
};

class FrameGate {
 public:
  FrameGate(const FrameLimits& limits, SharedRates* shared)
      : limits_(limits), shared_(shared), streams_rate_(limits.streams), frames_rate_(limits.frames) {}

  struct Passed {
    size_t consumed = 0;          // bytes of the input; the rest is to be given again ..
    int64_t wait_us = 0;          // .. after this time; 0: all was consumed, or `has_turn_ended`
    bool has_turn_ended = false;  // others first
  };
  // What the client sent. At most `turn` streams are opened. Not called again after a refusal.
  Passed FromClient(absl::string_view bytes, int64_t now_us, int turn);
  // What gRPC sent; all of it goes to the client.
  void FromServer(absl::string_view bytes);
  // Cancels requests that are not complete in time.
  void Tick(int64_t now_us);

  // Bytes for gRPC; the caller takes them away.
  std::string to_server;
  // Frames of its own for the client, which may be sent where IsBetweenFrames(); the caller takes them away.
  std::string to_client;
  bool IsBetweenFrames() const {
    return (server_has_begun_ || !refusal_.empty()) && server_left_ == 0 && server_head_.empty() && !server_in_fields_;
  }

  bool IsOpen() const { return is_open_; }  // the client's first settings have come
  size_t stream_count() const { return streams_.size(); }
  // Why the connection must be closed; empty: it need not. to_client then has a frame with the reason.
  const std::string& refusal() const { return refusal_; }

 private:
  struct Stream {
    int64_t begin_us = 0;
    int64_t message_left = 0;  // bytes of the current message
    int prefix_count = 0;      // bytes of the five before the next one ..
    int64_t size = 0;          // .. and what they say so far
    bool is_compressed = false;
    bool is_too_large = false;
    bool is_cut = false;     // what still comes is discarded, until gRPC has answered
    bool has_ended = false;  // by the client
  };

  bool TakePreface(absl::string_view& bytes);
  // What is to be done with the frame whose head has come; false: later.
  bool BeginFrame(int64_t now_us, Passed& passed);
  void BeginFields();
  void BeginData();
  void PassPayload(absl::string_view payload);
  void LookAtMessages(std::string& payload, Stream& stream);
  void EndFrame();
  void EndData();
  void Refuse(absl::string_view why);
  void AnswerTooLarge(uint32_t stream_id);

  const FrameLimits limits_;
  SharedRates* const shared_;
  TokenBucket streams_rate_, frames_rate_;
  std::string refusal_;
  bool is_open_ = false;

  size_t preface_count_ = 0;
  std::string head_;  // of the frame that comes: up to nine bytes
  int type_ = 0, flags_ = 0;
  uint32_t stream_id_ = 0;
  int64_t left_ = -1;  // bytes of the payload of the frame that passes; -1: its head is not complete
  enum class Way { kPass, kDrop, kCut, kWatch } way_ = Way::kPass;
  int64_t cut_bytes_ = 0;
  uint32_t fields_of_ = 0;  // the stream whose header block has not ended; 0: none
  int64_t field_bytes_ = 0;
  int field_frames_ = 0;
  uint32_t last_stream_id_ = 0;
  std::map<uint32_t, Stream> streams_;  // those that neither end has finished

  bool server_has_begun_ = false;
  std::string server_head_;
  int64_t server_left_ = 0;
  bool server_in_fields_ = false;
};

}  // namespace varifocal
