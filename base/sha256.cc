#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace varifocal {

static constexpr char kHexDigits[] = "0123456789abcdef";

struct Sha256Stream::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256Stream::Sha256Stream() : context_(std::make_unique<Context>()) {
  VF_CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}

Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::Update(absl::string_view bytes) {
  VF_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256Stream::Finish() {
  Sha256Digest digest;
  unsigned size = 0;
  VF_CHECK(EVP_DigestFinal_ex(context_->evp, digest.data(), &size) == 1 && size == digest.size());
  return digest;
}

Sha256Digest Sha256(absl::string_view bytes) {
  Sha256Stream stream;
  stream.Update(bytes);
  return stream.Finish();
}

std::string ToHex(const Sha256Digest& digest) {
  std::string hex;
  hex.reserve(64);
  for (uint8_t byte : digest) {
    hex.push_back(kHexDigits[byte >> 4]);
    hex.push_back(kHexDigits[byte & 15]);
  }
  return hex;
}

bool IsSha256Hex(absl::string_view text) {
  return text.size() == 64 && text.find_first_not_of(kHexDigits) == absl::string_view::npos;
}

}  // namespace varifocal
