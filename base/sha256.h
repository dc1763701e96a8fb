// SHA-256 digests as values; they identify samples, seeds, weights, tokenizers and prefixes.
//
// Source: FIPS 180-4, through OpenSSL.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace varifocal {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(absl::string_view bytes);
std::string ToHex(const Sha256Digest& digest);  // 64 lower-case hexadecimal digits
bool IsSha256Hex(absl::string_view text);       // such 64
inline std::string Sha256Hex(absl::string_view bytes) { return ToHex(Sha256(bytes)); }

// Incremental hashing. Threads: one at a time.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  void Update(absl::string_view bytes);
  Sha256Digest Finish();  // the stream must not be used afterwards

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace varifocal
