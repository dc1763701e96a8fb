// A connection to a daemon: stubs of both services on one channel, and user-readable errors.
//
// Errors: UNAVAILABLE with how to start one when no daemon answers at the address; otherwise the daemon's error.
// Threads: any.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/daemon_target.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal::client {

class Daemon {
 public:
  // Waits a few seconds for the address to answer, but fails at once if it refuses. A usage error for an invalid
  // address or flags that contradict each other.
  static absl::StatusOr<std::unique_ptr<Daemon>> Connect(const DaemonTarget& target);
  // On an existing channel: the server inside this process.
  explicit Daemon(const std::shared_ptr<grpc::Channel>& channel);

  v1::Inference::Stub& inference() { return *inference_; }
  v1::Evaluation::Stub& evaluation() { return *evaluation_; }
  const std::shared_ptr<grpc::Channel>& channel() { return channel_; }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Evaluation::Stub> evaluation_;
};

absl::Status FromGrpc(const grpc::Status& status);

// Lookups and submissions return at once; after a minute something is wrong.
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

// Calls `use` with every model of the daemon, page by page.
absl::Status EachModel(Daemon& daemon, const std::function<absl::Status(const v1::Model&)>& use);

}  // namespace varifocal::client
