// HTTP/2 frames by hand, for what a client of the library cannot be made to send.
//
// Source:  RFC 9113, section 4.1; RFC 7541, section 6.2.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace varifocal {
inline namespace testing_support {

inline constexpr char kHttp2Preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct Http2 {
  enum Type { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoAway, kWindowUpdate, kContinuation };
  enum Flag { kNone = 0, kAck = 1, kEndStream = 1, kEndHeaders = 4 };
};

inline std::string BigEndian(uint64_t value, int byte_count) {
  std::string bytes;
  for (int i = byte_count - 1; i >= 0; --i) bytes.push_back(static_cast<char>(value >> 8 * i));
  return bytes;
}

// `claimed` is the length in the head, which may differ from the payload's.
inline std::string Http2Frame(int type, int flags, uint32_t stream, absl::string_view payload, size_t claimed) {
  return absl::StrCat(BigEndian(claimed, 3), std::string(1, static_cast<char>(type)),
                      std::string(1, static_cast<char>(flags)), BigEndian(stream, 4), payload);
}
inline std::string Http2Frame(int type, int flags, uint32_t stream, absl::string_view payload) {
  return Http2Frame(type, flags, stream, payload, payload.size());
}

// A literal that HPACK does not index, without Huffman code.
inline std::string Http2Field(absl::string_view name, absl::string_view value) {
  const auto text = [](absl::string_view bytes) {
    std::string size;
    if (bytes.size() < 127) {
      size.push_back(static_cast<char>(bytes.size()));
    } else {
      size.push_back(127);
      size_t rest = bytes.size() - 127;
      for (; rest >= 128; rest /= 128) size.push_back(static_cast<char>(rest % 128 + 128));
      size.push_back(static_cast<char>(rest));
    }
    return absl::StrCat(size, bytes);
  };
  return absl::StrCat(std::string(1, '\0'), text(name), text(value));
}

// The fields of a gRPC call.
inline std::string Http2Call(absl::string_view path,
                             const std::vector<std::pair<std::string, std::string>>& more = {}) {
  std::string block = absl::StrCat(Http2Field(":method", "POST"), Http2Field(":scheme", "http"),
                                   Http2Field(":path", path), Http2Field(":authority", "localhost"),
                                   Http2Field("te", "trailers"), Http2Field("content-type", "application/grpc"));
  for (const auto& [name, value] : more) block += Http2Field(name, value);
  return block;
}

// A message of gRPC: a flag, whether it is compressed, its size, and itself.
inline std::string GrpcMessage(absl::string_view message, bool is_compressed = false) {
  return absl::StrCat(std::string(1, is_compressed ? '\1' : '\0'), BigEndian(message.size(), 4), message);
}

}  // namespace testing_support
}  // namespace varifocal
