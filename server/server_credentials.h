// Credentials of a daemon's listener: TLS from PEM files, client certificates, tokens.
//
// Errors:  INVALID_ARGUMENT (BAD_CREDENTIALS): a file that cannot be read, a key that does not match the certificate, a
//          flag that needs another one.
// Threads: call once, while the server is built; the credentials may be used on any.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/rpc/access.h"

namespace varifocal {

struct ServerProtection {
  std::string tls_certificate;  // PEM files: certificate chain ..
  std::string tls_key;          // .. and its private key; both empty: no TLS
  std::string tls_client_ca;    // clients need a certificate of this authority; empty: none needed
  std::string token_file;       // callers need a token of this file (rpc/access.h); empty: none needed

  bool has_tls() const { return !tls_certificate.empty(); }
  bool knows_callers() const { return !tls_client_ca.empty() || !token_file.empty(); }
};

struct ProtectedListener {
  std::shared_ptr<grpc::ServerCredentials> credentials;
  std::shared_ptr<const Tokens> tokens;  // null without a file of them
};

absl::StatusOr<ProtectedListener> MakeServerCredentials(const ServerProtection& protection);

}  // namespace varifocal
