#include "server/front/tls_session.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/check.h"
#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

// Forward secrecy and authenticated encryption; of TLS 1.3 all are.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr unsigned char kProtocol[] = {2, 'h', '2'};
constexpr size_t kChunkBytes = 16 << 10;

using TlsBio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using TlsCertificate = std::unique_ptr<X509, decltype(&X509_free)>;

std::string LastTlsError() {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "the connection was broken" : reason;
}

int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                   unsigned int offered_size, void*) {
  unsigned char* selected = nullptr;
  const int result = SSL_select_next_proto(&selected, out_size, kProtocol, sizeof(kProtocol), offered, offered_size);
  *out = selected;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

TlsBio Reading(const std::string& text) { return TlsBio(BIO_new_mem_buf(text.data(), text.size()), BIO_free_all); }

int NoTlsPassphrase(char*, int, int, void*) { return -1; }

bool UseCertificates(SSL_CTX* context, const std::string& chain) {
  const TlsBio bio = Reading(chain);
  const TlsCertificate own(PEM_read_bio_X509(bio.get(), nullptr, NoTlsPassphrase, nullptr), X509_free);
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, NoTlsPassphrase, nullptr)) {
    if (SSL_CTX_add_extra_chain_cert(context, next) != 1) {  // takes it
      X509_free(next);
      return false;
    }
  }
  return true;
}

bool UseKey(SSL_CTX* context, const std::string& text) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(Reading(text).get(), nullptr, NoTlsPassphrase, nullptr), EVP_PKEY_free);
  return key != nullptr && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

bool AskForCertificates(SSL_CTX* context, const std::string& authorities) {
  const TlsBio bio = Reading(authorities);
  int count = 0;
  while (true) {
    const TlsCertificate one(PEM_read_bio_X509(bio.get(), nullptr, NoTlsPassphrase, nullptr), X509_free);
    if (one == nullptr) break;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one.get()) != 1) return false;
    if (SSL_CTX_add_client_CA(context, one.get()) != 1) return false;
    ++count;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return count > 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<TlsContext>> TlsContext::Make(const TlsMaterial& material) {
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return ResourceExhausted("no memory for TLS");
  const std::shared_ptr<TlsContext> owner(new TlsContext(context));
  ERR_clear_error();
  SSL_CTX_set_options(
      context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, SelectProtocol, nullptr);
  const bool is_good = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
                       SSL_CTX_set_cipher_list(context, kCiphers) == 1 &&
                       UseCertificates(context, material.certificate) && UseKey(context, material.key) &&
                       (material.client_ca.empty() || AskForCertificates(context, material.client_ca));
  const std::string why = is_good ? "" : LastTlsError();
  ERR_clear_error();  // the end of a PEM file is one
  if (is_good) return owner;
  return WithReason(InvalidArgument("the certificate cannot be served: ", why), ErrorReason::kBadCredentials);
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

TlsSession::TlsSession(std::shared_ptr<TlsContext> context)
    : context_(std::move(context)), session_(SSL_new(context_->get())) {
  VF_CHECK(session_ != nullptr);
  SSL_set_bio(session_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_accept_state(session_);
}

TlsSession::~TlsSession() { SSL_free(session_); }

void TlsSession::TakeWire(std::string* wire) {
  BIO* const bio = SSL_get_wbio(session_);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  if (size > 0) wire->append(data, size);
  (void)BIO_reset(bio);
}

absl::Status TlsSession::Failed(int result, std::string* wire) {
  const int error = SSL_get_error(session_, result);
  const std::string why = LastTlsError();
  ERR_clear_error();
  TakeWire(wire);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return absl::OkStatus();
  if (error == SSL_ERROR_ZERO_RETURN) {
    has_ended_ = true;
    return absl::OkStatus();
  }
  return Unavailable("TLS: ", why);
}

absl::Status TlsSession::Receive(absl::string_view received, std::string* plain, std::string* wire) {
  ERR_clear_error();
  while (!received.empty()) {
    const int count = BIO_write(SSL_get_rbio(session_), received.data(), static_cast<int>(received.size()));
    if (count <= 0) return ResourceExhausted("no memory for TLS");
    received.remove_prefix(count);
  }
  if (!is_open_) {
    const int result = SSL_do_handshake(session_);
    if (result != 1) return Failed(result, wire);
    is_open_ = true;
  }
  for (char chunk[kChunkBytes];;) {
    const int result = SSL_read(session_, chunk, sizeof(chunk));
    if (result <= 0) return Failed(result, wire);
    plain->append(chunk, result);
  }
}

absl::Status TlsSession::Send(absl::string_view plain, std::string* wire) {
  ERR_clear_error();
  while (!plain.empty()) {
    const int result = SSL_write(session_, plain.data(), static_cast<int>(plain.size()));
    if (result <= 0) {
      const absl::Status failed = Failed(result, wire);
      return failed.ok() ? Unavailable("TLS: cannot write") : failed;
    }
    plain.remove_prefix(result);
  }
  TakeWire(wire);
  return absl::OkStatus();
}

std::string TlsSession::PeerName() const {
  const X509* const certificate = SSL_get0_peer_certificate(session_);
  if (certificate == nullptr) return "";
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (index < 0) return "";
  const ASN1_STRING* const name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index));
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name)), ASN1_STRING_length(name));
}

}  // namespace varifocal
