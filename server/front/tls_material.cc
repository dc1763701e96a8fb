#include "server/front/tls_material.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "base/files.h"
#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr FileKind kPemFile = {"a PEM file", 1 << 20, FileUse::kOwn};

using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::Status Bad(const std::string& path, absl::string_view what) {
  return WithReason(InvalidArgument(path, " ", what), ErrorReason::kBadCredentials);
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kPemFile);
  if (!text.ok()) return WithReason(text.status(), ErrorReason::kBadCredentials);
  return text;
}

Bio Open(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), text.size()), BIO_free_all); }

// A daemon cannot ask for a passphrase.
int NoPassphrase(char*, int, int, void*) { return -1; }

// The first certificate of the file; all of them must be readable.
absl::StatusOr<Certificate> FirstCertificate(const std::string& text, const std::string& path) {
  const Bio bio = Open(text);
  Certificate first(PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr), X509_free);
  if (first == nullptr) return Bad(path, "has no CERTIFICATE in PEM");
  while (BIO_pending(bio.get()) > 0) {
    const Certificate next(PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr), X509_free);
    if (next == nullptr) break;
  }
  return first;
}

absl::StatusOr<int64_t> SecondsOf(const ASN1_TIME* time, const std::string& path) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return Bad(path, "has a CERTIFICATE with an unreadable validity");
  return timegm(&parts);
}

std::string SubjectOf(const X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free_all);
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return size > 0 ? std::string(data, size) : "";
}

}  // namespace

absl::StatusOr<TlsMaterial> ReadTlsMaterial(const TlsFiles& files) {
  TlsMaterial material;
  ASSIGN_OR_RETURN(material.certificate, ReadText(files.certificate));
  ASSIGN_OR_RETURN(material.key, ReadText(files.key));
  ASSIGN_OR_RETURN(const Certificate certificate, FirstCertificate(material.certificate, files.certificate));
  const Key key(PEM_read_bio_PrivateKey(Open(material.key).get(), nullptr, NoPassphrase, nullptr), EVP_PKEY_free);
  if (key == nullptr) return Bad(files.key, "has no PRIVATE KEY in PEM without a passphrase");
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return Bad(files.key, absl::StrCat("is not the key of the certificate ", files.certificate));
  if (!files.client_ca.empty()) {
    ASSIGN_OR_RETURN(material.client_ca, ReadText(files.client_ca));
    RETURN_IF_ERROR(FirstCertificate(material.client_ca, files.client_ca).status());
  }
  material.subject = SubjectOf(certificate.get());
  ASSIGN_OR_RETURN(material.not_before_s, SecondsOf(X509_get0_notBefore(certificate.get()), files.certificate));
  ASSIGN_OR_RETURN(material.not_after_s, SecondsOf(X509_get0_notAfter(certificate.get()), files.certificate));
  return material;
}

}  // namespace varifocal
