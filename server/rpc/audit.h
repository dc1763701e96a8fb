// Who calls: whether the caller may, and the audit log, one line for every call that changes models or jobs, with caller,
// resource and status.
//
//   change call=LoadModel peer=ipv4:127.0.0.1:40312 token=anna certificate=none resource=models/focal=/models/focal
//   status=OK
//
// `certificate` is the common name of the caller's certificate, where callers need one (--tls-client-ca).
//
// Threads: any; the line is written after the change, on the same thread.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "server/front/callers.h"
#include "server/rpc/access.h"

namespace varifocal {

class Audit {
 public:
  // `tokens` and `callers` name the callers, and outlive the audit.
  Audit(const TokenSource* tokens, const Callers* callers) : tokens_(tokens), callers_(callers) {}

  // Whether the caller's token allows the method. A handler for which it does not returns null at once, and
  // server/rpc/refusals.h answers.
  bool Allows(const grpc::CallbackServerContext& context, absl::string_view method) const;

  // Whose calls count together against the limits and take turns: "token NAME", or without a token the address.
  std::string CallerOf(const grpc::CallbackServerContext& context) const;

  // Wraps `body` to write the line after it. `resource` is called after the body, when a new job has its name.
  std::function<absl::Status()> Record(const grpc::CallbackServerContext* context, const char* call,
                                       std::function<std::string()> resource, std::function<absl::Status()> body) const;

 private:
  const TokenSource* const tokens_;
  const Callers* const callers_;
};

}  // namespace varifocal
