// Credentials of a daemon's listener: TLS from PEM files, client certificates. Tokens are server/rpc/access.h's.
//
// Source:  gRPC 1.51, grpc_security.h, the certificate config fetcher: asked at every handshake. The library's own
//          FileWatcherCertificateProvider drops the certificate in use before it has checked the next one
//          (tls_security_connector.cc, UpdateHandshakerFactoryLocked).
// Errors:  INVALID_ARGUMENT (BAD_CREDENTIALS): a flag that needs another one.
// Threads: call once, while the server is built; the credentials may be used on any.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/current_credentials.h"

namespace grpc {
class ServerCredentials;
}

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

// TLS, or none. `current` and the result outlive the server.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const CurrentCredentials* current);

}  // namespace varifocal
