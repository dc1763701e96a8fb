// The standard health service. gRPC's own holds any number of Watch streams, and anyone may open them.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/watch_stream.h"

namespace varifocal {

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  void Set(const std::string& service, bool is_serving);
  // Sends what has changed to streams that could not take it at once; called four times a second.
  void Poll();
  // All services stop serving permanently, and all streams end.
  void Shutdown();
  size_t watch_count() const;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context, const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  using State = grpc::health::v1::HealthCheckResponse::ServingStatus;
  struct Watcher {
    std::string service;
    std::string connection;
    std::shared_ptr<MessageStream<grpc::health::v1::HealthCheckResponse>> stream;
    State sent = grpc::health::v1::HealthCheckResponse::UNKNOWN;
  };

  State StateOf(const std::string& service) const VF_REQUIRES(mutex_);
  absl::Status MakeRoom(const std::string& connection) VF_REQUIRES(mutex_);
  void Look(Watcher& watcher) const VF_REQUIRES(mutex_);

  mutable Mutex mutex_;
  bool is_shut_down_ VF_GUARDED_BY(mutex_) = false;
  std::map<std::string, bool> services_ VF_GUARDED_BY(mutex_);
  std::vector<Watcher> watchers_ VF_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace varifocal
