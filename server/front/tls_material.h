// Certificate chain, private key and client authorities of a TLS listener: PEM files, read and checked.
//
// Errors:  INVALID_ARGUMENT (BAD_CREDENTIALS) with the file: not PEM, a key with a passphrase, a key of another
//          certificate; those of ReadFile.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace varifocal {

struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string client_ca;  // empty: clients need no certificate

  bool empty() const { return certificate.empty(); }
};

struct TlsMaterial {
  std::string certificate, key, client_ca;  // PEM
  std::string subject;                      // of the first certificate of the chain
  int64_t not_before_s = 0;                 // its validity, seconds since 1970-01-01 UTC
  int64_t not_after_s = 0;

  bool operator==(const TlsMaterial&) const = default;
};

absl::StatusOr<TlsMaterial> ReadTlsMaterial(const TlsFiles& files);

}  // namespace varifocal
