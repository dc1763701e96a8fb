// Access control: a role for each token, a minimum role for each method.
//
// A token file has one line per token: the role, the SHA-256 of the token in hexadecimal, a name for the log, and
// optionally the time from which on the token is refused, separated by blanks; # starts a comment. It does not contain the
// tokens.
//
//   viewer     reads models and jobs
//   submitter  also submits, cancels and resumes jobs, and runs inference
//   admin      also loads and unloads models, and calls methods that are not in the table
//
// A call carries "authorization: Bearer TOKEN". It is refused before anything in its request is looked at.
//
// gRPC's own hook for this, an AuthMetadataProcessor, is not used: in 1.51 a server with one aborts when a call has a header
// field grpclb_client_stats, which any client can send.
//
// Errors:  UNAUTHENTICATED without a known token, or with one that has expired (TOKEN_EXPIRED), PERMISSION_DENIED with
//          one of a lower role: none depends on the request. Of files: INVALID_ARGUMENT (BAD_CREDENTIALS) with the line.
// Threads: Tokens is immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "grpcpp/support/string_ref.h"

namespace varifocal {

enum class Role { kAnyone, kViewer, kSubmitter, kAdmin };  // each includes the permissions of the previous one

struct MethodRole {
  const char* method;  // "/varifocal.v1.Inference/LoadModel"
  Role least;
};
absl::Span<const MethodRole> MethodRoles();  // for tests
bool IsMethod(absl::string_view method);     // of the table
Role LeastRole(absl::string_view method);    // kAdmin for a method that is not in the table

class Tokens {
 public:
  struct Holder {
    Role role = Role::kAnyone;
    std::string name;
    int64_t expiry_us = INT64_MAX;  // the first wall time at which it is refused
    bool operator==(const Holder&) const = default;
  };

  bool operator==(const Tokens&) const = default;
  size_t size() const { return holders_.size(); }
  static absl::StatusOr<std::shared_ptr<const Tokens>> Read(const std::string& path);
  static absl::StatusOr<std::shared_ptr<const Tokens>> Parse(absl::string_view text);

  // The holder of the token in the value of an authorization field; null when there is none.
  const Holder* Find(absl::string_view authorization) const;
  absl::Status Authorize(absl::string_view method, absl::string_view authorization, int64_t wall_us) const;

 private:
  std::map<std::string, Holder, std::less<>> holders_;  // by the token's SHA-256
};

// The tokens as they are now: a file of them may be replaced while the daemon runs.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::shared_ptr<const Tokens> Get() const = 0;  // null: callers need none
  virtual int64_t WallMicros() const = 0;
};

// The name of the call's token, also of one that has expired; empty without a known one.
std::string TokenName(const TokenSource& source, const std::multimap<grpc::string_ref, grpc::string_ref>& metadata);
// OK without tokens. A duplicate authorization field is none.
absl::Status AuthorizeCall(const TokenSource& source, absl::string_view method,
                           const std::multimap<grpc::string_ref, grpc::string_ref>& metadata);

}  // namespace varifocal
