// A connection to a daemon: the two services behind one channel, and what its errors mean to a person.
//
// Errors: UNAVAILABLE with how to start one when no daemon answers at the address; otherwise what the daemon said.
// Threads: any.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/daemon_target.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal::client {

// Both ways; 32K tokens as text are 0.2 MiB, so this is a guard and not a limit that anybody meets.
inline constexpr int kMessageBytesMax = 16 << 20;

class Daemon {
 public:
  // Waits a few seconds for the address to answer, but not for one that refuses. A usage error for an address or flags that
  // do not fit.
  static absl::StatusOr<std::unique_ptr<Daemon>> Connect(const DaemonTarget& target);
  // Over a channel that is there already: the server inside this process.
  explicit Daemon(const std::shared_ptr<grpc::Channel>& channel);

  v1::Inference::Stub& inference() { return *inference_; }
  v1::Evaluation::Stub& evaluation() { return *evaluation_; }

 private:
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Evaluation::Stub> evaluation_;
};

absl::Status FromGrpc(const grpc::Status& status);

// Calls that only look something up or queue something answer at once; a minute says that something is wrong.
inline void SetShortDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
}

// One short call: Call(stub, &Stub::GetJob, request) -> response.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                              const Request& request) {
  grpc::ClientContext context;
  SetShortDeadline(context);
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

}  // namespace varifocal::client
