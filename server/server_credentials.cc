#include "server/server_credentials.h"

#include "base/reason.h"

namespace varifocal {
namespace {

absl::Status Bad(absl::string_view what) {
  return WithReason(absl::InvalidArgumentError(what), ErrorReason::kBadCredentials);
}

}  // namespace

absl::Status CheckProtection(const ServerProtection& protection, bool reflection) {
  if (protection.has_tls() == protection.tls_key.empty()) return Bad("--tls-cert and --tls-key must be given together");
  if (!protection.has_tls() && !protection.tls_client_ca.empty())
    return Bad("--tls-client-ca needs --tls-cert and --tls-key");
  if (reflection && !protection.token_file.empty())
    return Bad("--reflection and --token-file exclude each other: reflection has no roles");
  return absl::OkStatus();
}

}  // namespace varifocal
