// The server's side of one TLS connection, without a socket: bytes in, bytes out.
//
// TLS 1.2 and 1.3, ALPN "h2", no tickets, no renegotiation. A client needs a certificate of TlsMaterial::client_ca where it is
// given.
//
// Errors:  UNAVAILABLE: the peer broke the protocol, or its certificate is not accepted. The bytes to send may hold an alert.
// Threads: one for a session; a context may be used by several.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/front/tls_material.h"

struct ssl_ctx_st;
struct ssl_st;

namespace varifocal {

class TlsContext {
 public:
  // INVALID_ARGUMENT (BAD_CREDENTIALS) when OpenSSL does not take the material.
  static absl::StatusOr<std::shared_ptr<TlsContext>> Make(const TlsMaterial& material);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  ssl_ctx_st* get() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

class TlsSession {
 public:
  explicit TlsSession(std::shared_ptr<TlsContext> context);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;

  // Takes what the socket received, and appends its content to *plain and what must be sent to *wire.
  absl::Status Receive(absl::string_view received, std::string* plain, std::string* wire);
  absl::Status Send(absl::string_view plain, std::string* wire);

  bool is_open() const { return is_open_; }      // the handshake is done
  bool has_ended() const { return has_ended_; }  // the peer has announced the end
  std::string PeerName() const;                  // common name of its certificate; empty without one

 private:
  void TakeWire(std::string* wire);
  absl::Status Failed(int result, std::string* wire);

  const std::shared_ptr<TlsContext> context_;
  ssl_st* const session_;
  bool is_open_ = false;
  bool has_ended_ = false;
};

}  // namespace varifocal
