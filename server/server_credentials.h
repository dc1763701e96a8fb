// Which credentials a daemon's listener needs: TLS from PEM files (front/tls_session.h), client certificates, and tokens
// (rpc/access.h).
//
// Errors:  INVALID_ARGUMENT (BAD_CREDENTIALS): a flag that needs another one.
// Threads: any.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/front/tls_material.h"

namespace varifocal {

struct ServerProtection {
  std::string tls_certificate;  // PEM files: certificate chain ..
  std::string tls_key;          // .. and its private key; both empty: no TLS
  std::string tls_client_ca;    // clients need a certificate of this authority; empty: none needed
  std::string token_file;       // callers need a token of this file (rpc/access.h); empty: none needed

  bool has_tls() const { return !tls_certificate.empty(); }
  bool knows_callers() const { return !tls_client_ca.empty() || !token_file.empty(); }
  TlsFiles tls_files() const { return {tls_certificate, tls_key, tls_client_ca}; }
};

// Reflection has no roles, so it is refused beside tokens.
absl::Status CheckProtection(const ServerProtection& protection, bool reflection);

}  // namespace varifocal
