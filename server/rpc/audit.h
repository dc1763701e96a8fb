// One log line for every call that changes what the daemon serves or runs: who called, what it named, how it ended.
//
//   change call=LoadModel peer=ipv4:127.0.0.1:40312 token=anna resource=models/focal=/models/focal status=OK
//
// Threads: any; the line is written after the change, on the thread that made it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "server/rpc/access.h"

namespace varifocal {

class Audit {
 public:
  // `tokens` name the callers; null when there are none.
  explicit Audit(std::shared_ptr<const Tokens> tokens) : tokens_(std::move(tokens)) {}

  // The same body with the line after it. `resource` is asked after the body: a new job has its name then.
  std::function<absl::Status()> Record(const grpc::CallbackServerContext* context, const char* call,
                                       std::function<std::string()> resource, std::function<absl::Status()> body) const;

 private:
  std::string NameOf(const grpc::CallbackServerContext& context) const;

  const std::shared_ptr<const Tokens> tokens_;
};

}  // namespace varifocal
