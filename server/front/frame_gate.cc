#include "server/front/frame_gate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace varifocal {
namespace {

constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kHeadBytes = 9;
constexpr int64_t kPrefixBytes = 5;  // a flag and a size

enum FrameType {
  kData,
  kFields,
  kPriority,
  kResetStream,
  kSettings,
  kPushPromise,
  kPing,
  kGoAway,
  kWindowUpdate,
  kContinuation
};
constexpr int kAck = 1, kEndStream = 1, kEndFields = 4;
constexpr uint32_t kNoError = 0, kCancel = 8, kEnhanceYourCalm = 11;

// Of a connection that is not used for anything else, a flood of these costs an answer each.
constexpr int kCostOfAnswered = 20;
// Field bytes that cost as much as a stream.
constexpr int64_t kFieldBytesOfStream = 2048;
// The sizes of frames that have no data: those that gRPC knows are smaller.
constexpr int64_t kControlBytesMax = 4096;

std::string Frame(int type, int flags, uint32_t stream_id, absl::string_view payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame.push_back(static_cast<char>(payload.size() >> shift));
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) frame.push_back(static_cast<char>(stream_id >> shift));
  return absl::StrCat(frame, payload);
}

std::string Word(uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

// A field that is in no table and has no Huffman code; name and value have fewer than 127 bytes.
std::string PlainField(absl::string_view name, absl::string_view value) {
  return absl::StrCat(std::string(1, '\0'), std::string(1, static_cast<char>(name.size())), name,
                      std::string(1, static_cast<char>(value.size())), value);
}

uint32_t Byte(absl::string_view bytes, size_t i) { return static_cast<unsigned char>(bytes[i]); }
int64_t SizeIn(absl::string_view head) { return Byte(head, 0) << 16 | Byte(head, 1) << 8 | Byte(head, 2); }
uint32_t StreamIn(absl::string_view head) {
  return (Byte(head, 5) & 0x7f) << 24 | Byte(head, 6) << 16 | Byte(head, 7) << 8 | Byte(head, 8);
}

}  // namespace

void FrameGate::Refuse(absl::string_view why) {
  refusal_ = std::string(why);
  if (!server_has_begun_) to_client += Frame(kSettings, 0, 0, "");
  to_client += Frame(kGoAway, 0, 0, absl::StrCat(Word(last_stream_id_), Word(kEnhanceYourCalm), why));
}

bool FrameGate::TakePreface(absl::string_view& bytes) {
  const size_t count = std::min(bytes.size(), kPreface.size() - preface_count_);
  if (bytes.substr(0, count) != kPreface.substr(preface_count_, count)) {
    refusal_ = "the connection does not begin as HTTP/2 does";
    return false;
  }
  to_server.append(bytes.data(), count);
  preface_count_ += count;
  bytes.remove_prefix(count);
  return true;
}

FrameGate::Passed FrameGate::FromClient(absl::string_view bytes, int64_t now_us, int turn) {
  Passed passed;
  const size_t size = bytes.size();
  if (preface_count_ < kPreface.size() && !TakePreface(bytes)) return passed;
  int begun = 0;
  while (!bytes.empty() && refusal_.empty()) {
    if (left_ < 0) {
      const size_t count = std::min(bytes.size(), kHeadBytes - head_.size());
      head_.append(bytes.data(), count);
      bytes.remove_prefix(count);
      if (head_.size() < kHeadBytes) break;
      type_ = Byte(head_, 3);
      flags_ = Byte(head_, 4);
      stream_id_ = StreamIn(head_);
      const bool is_stream = type_ == kFields;
      if ((is_stream && begun >= turn) || !BeginFrame(now_us, passed)) {
        // The head is looked at again: give its last byte back.
        head_.pop_back();
        passed.has_turn_ended = passed.wait_us == 0;
        passed.consumed = size - bytes.size() - 1;
        return passed;
      }
      if (!refusal_.empty()) break;
      begun += is_stream;
      left_ = SizeIn(head_);
      head_.clear();
    }
    const size_t count = std::min<int64_t>(left_, bytes.size());
    if (count > 0) PassPayload(bytes.substr(0, count));
    bytes.remove_prefix(count);
    left_ -= count;
    if (left_ == 0) {
      left_ = -1;
      EndFrame();
    }
  }
  passed.consumed = size - bytes.size();
  return passed;
}

bool FrameGate::BeginFrame(int64_t now_us, Passed& passed) {
  const int64_t size = SizeIn(head_);
  if (fields_of_ != 0 ? type_ != kContinuation || stream_id_ != fields_of_ : type_ == kContinuation) {
    Refuse("a frame came inside of a header block, or a part of one outside");
    return true;
  }
  if (!is_open_ && (type_ != kSettings || (flags_ & kAck) != 0)) {
    Refuse("the first frame is not the settings");
    return true;
  }
  const bool has_fields = type_ == kFields || type_ == kContinuation;
  if (type_ == kPushPromise) Refuse("a client cannot push");
  if (type_ != kData && type_ <= kContinuation && size > (has_fields ? limits_.field_bytes_max : kControlBytesMax))
    Refuse(absl::StrCat("a frame of type ", type_, " has ", size, " bytes"));
  if (!refusal_.empty()) return true;

  passed.wait_us = std::max(frames_rate_.MicrosUntilOne(now_us), shared_->frames.MicrosUntilOne(now_us));
  if (has_fields) {
    passed.wait_us =
        std::max({passed.wait_us, streams_rate_.MicrosUntilOne(now_us), shared_->streams.MicrosUntilOne(now_us)});
  }
  if (passed.wait_us > 0) return false;
  const int frames = type_ == kSettings || type_ == kPing ? kCostOfAnswered : 1;
  frames_rate_.Take(frames);
  shared_->frames.Take(frames);
  if (has_fields) {
    const int64_t streams = (type_ == kFields) + size / kFieldBytesOfStream;
    streams_rate_.Take(streams);
    shared_->streams.Take(streams);
  }

  way_ = type_ == kPriority || type_ > kContinuation ? Way::kDrop : Way::kPass;
  const bool is_known = streams_.count(stream_id_) > 0;
  if ((type_ == kResetStream || type_ == kWindowUpdate) && stream_id_ != 0 && !is_known) way_ = Way::kDrop;
  if (type_ == kFields || type_ == kContinuation) BeginFields();
  if (type_ == kFields && is_known) streams_[stream_id_].has_ended |= (flags_ & kEndStream) != 0;
  if (type_ == kFields && !is_known && stream_id_ > last_stream_id_ && refusal_.empty()) {
    last_stream_id_ = stream_id_;
    streams_[stream_id_] = {.begin_us = now_us, .has_ended = (flags_ & kEndStream) != 0};
    if (streams_.size() > limits_.streams_max)
      Refuse(absl::StrCat(streams_.size(), " streams are open, the limit is ", limits_.streams_max));
  }
  if (type_ == kData && is_known) BeginData();
  if (way_ == Way::kPass || way_ == Way::kWatch) to_server += head_;
  return true;
}

void FrameGate::BeginFields() {
  if (type_ == kFields) field_bytes_ = field_frames_ = 0;
  field_bytes_ += SizeIn(head_);
  ++field_frames_;
  fields_of_ = (flags_ & kEndFields) != 0 ? 0 : stream_id_;
  if (field_bytes_ > limits_.field_bytes_max || field_frames_ > limits_.field_frames_max) {
    Refuse(absl::StrCat("the header fields of a call have more than ", limits_.field_bytes_max, " bytes or ",
                        limits_.field_frames_max, " frames"));
  }
}

void FrameGate::BeginData() {
  const Stream& stream = streams_[stream_id_];
  cut_bytes_ = 0;
  if (stream.is_cut) {
    way_ = Way::kCut;
  } else if (SizeIn(head_) == 0 && (flags_ & kEndStream) == 0) {
    way_ = Way::kDrop;  // nothing, at the cost of a frame
  } else if ((flags_ & ~kEndStream) == 0) {
    way_ = Way::kWatch;  // gRPC resets a stream with other flags
  }
}

void FrameGate::PassPayload(absl::string_view payload) {
  switch (way_) {
    case Way::kDrop:
      return;
    case Way::kCut:
      cut_bytes_ += payload.size();
      return;
    case Way::kPass:
      to_server.append(payload.data(), payload.size());
      return;
    case Way::kWatch: {
      std::string bytes(payload);
      LookAtMessages(bytes, streams_[stream_id_]);
      to_server += bytes;
    }
  }
}

// The flag of a compressed message is removed, and its size replaced by one that never comes.
void FrameGate::LookAtMessages(std::string& payload, Stream& stream) {
  for (size_t at = 0; at < payload.size();) {
    if (stream.message_left > 0) {
      const size_t count = std::min<int64_t>(stream.message_left, payload.size() - at);
      stream.message_left -= count;
      at += count;
      continue;
    }
    if (stream.prefix_count == 0) {
      stream.is_compressed |= (payload[at] & 1) != 0;
      stream.size = 0;
      if (stream.is_compressed) payload[at] = 0;
    } else {
      stream.size = stream.size << 8 | Byte(payload, at);
      if (stream.is_compressed) payload[at] = static_cast<char>(stream.prefix_count == 1 ? 0 : 0xff);
    }
    ++at;
    if (++stream.prefix_count < kPrefixBytes) continue;
    stream.prefix_count = 0;
    stream.message_left = stream.is_compressed ? INT64_MAX : stream.size;
    if (!stream.is_compressed && stream.size > limits_.message_bytes_max) stream.is_too_large = true;
  }
}

void FrameGate::EndFrame() {
  is_open_ = true;  // the first frame was one of settings
  if (way_ == Way::kDrop) return;
  if (type_ == kResetStream) streams_.erase(stream_id_);
  if (type_ == kData) EndData();
}

void FrameGate::EndData() {
  const auto found = streams_.find(stream_id_);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  if (way_ == Way::kCut && cut_bytes_ > 0) {
    // gRPC does not see these bytes, so it does not open the window of the connection again.
    to_client += Frame(kWindowUpdate, 0, 0, Word(static_cast<uint32_t>(cut_bytes_)));
  }
  if ((flags_ & kEndStream) != 0) stream.has_ended = true;
  if (way_ != Way::kWatch) return;
  if (stream.is_too_large) {
    AnswerTooLarge(stream_id_);
    streams_.erase(found);  // gRPC discards what still comes of a stream that was reset
  } else if (stream.is_compressed) {
    // gRPC answers: the encoding is not one that it accepts, or the request is not complete.
    if (!stream.has_ended) to_server += Frame(kData, kEndStream, stream_id_, "");
    stream.is_cut = true;
  }
}

void FrameGate::AnswerTooLarge(uint32_t stream_id) {
  to_server += Frame(kResetStream, 0, stream_id, Word(kCancel));
  to_client +=
      Frame(kFields, kEndFields | kEndStream, stream_id,
            absl::StrCat(PlainField(":status", "200"), PlainField("content-type", "application/grpc"),
                         PlainField("grpc-status", "8"),
                         PlainField("grpc-message", absl::StrCat("the message has more bytes than the limit, which is ",
                                                                 limits_.message_bytes_max))));
  to_client += Frame(kResetStream, 0, stream_id, Word(kNoError));
}

void FrameGate::Tick(int64_t now_us) {
  if (left_ >= 0 || fields_of_ != 0) return;  // inside of a frame or a header block
  for (auto at = streams_.begin(); at != streams_.end() && now_us - at->second.begin_us > limits_.request_us_max;) {
    if (at->second.has_ended) {
      ++at;
      continue;
    }
    to_server += Frame(kResetStream, 0, at->first, Word(kCancel));
    to_client += Frame(kResetStream, 0, at->first, Word(kCancel));
    at = streams_.erase(at);
  }
}

void FrameGate::FromServer(absl::string_view bytes) {
  server_has_begun_ |= !bytes.empty();
  while (!bytes.empty()) {
    if (server_left_ > 0) {
      const size_t count = std::min<int64_t>(server_left_, bytes.size());
      server_left_ -= count;
      bytes.remove_prefix(count);
      continue;
    }
    const size_t count = std::min(bytes.size(), kHeadBytes - server_head_.size());
    server_head_.append(bytes.data(), count);
    bytes.remove_prefix(count);
    if (server_head_.size() < kHeadBytes) return;
    const int type = Byte(server_head_, 3);
    const int flags = Byte(server_head_, 4);
    if (type == kFields || type == kContinuation) server_in_fields_ = (flags & kEndFields) == 0;
    const bool ends = type == kResetStream || ((type == kData || type == kFields) && (flags & kEndStream) != 0);
    if (ends) streams_.erase(StreamIn(server_head_));
    server_left_ = SizeIn(server_head_);
    server_head_.clear();
  }
}

}  // namespace varifocal
