// The daemon as an object: models, jobs and services behind one gRPC server.
//
// `varifocald` is this and flags; `varifocal run` and the verbs that take a model directory are this inside their own
// process, behind a channel that never touches a socket. So there is one path to test.
//
// Errors:  from Start: what a database, a model directory or an address is refused for, in one sentence; nothing is
// left behind. Threads: any. Shutdown may take as long as its grace and what a model needs to stop within a layer.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/file_roots.h"
#include "grpcpp/grpcpp.h"
#include "server/engine/engine.h"
#include "server/hosting/model_host.h"
#include "server/model/model.h"
#include "server/server_credentials.h"

namespace varifocal {

// Requests and responses above this are refused: 16 MiB hold a 32K prompt about eighty times.
inline constexpr int kMessageBytesMax = 16 << 20;

struct ServerOptions {
  struct NamedModel {
    std::string name;
    std::string directory;
  };

  std::string database_path;       // empty: no jobs, models only
  std::vector<NamedModel> models;  // loaded before anything is served
  ModelOptions model;              // device, number format, threads, instruction set
  EngineOptions engine;
  int in_flight = 8;  // samples under way at once, for jobs that do not say
  // "127.0.0.1:50151", port 0 takes a free one, or "unix:PATH" (listen_address.h); empty: in-process channels only.
  std::string listen_address;
  ServerProtection protection;  // TLS and tokens; an address that is no loopback one needs them, and roots
  FileRoots roots;  // where files of requests must be (file_roots.h); of the whole process, `models` are allowed
  bool reflection = false;   // tell callers what services and messages there are
  std::string command_line;  // for the record
  // When the listener has stopped accepting connections (listener_watchdog.h), on a thread of its own; unset: not watched.
  std::function<void(const absl::Status&)> on_listener_dead;
  ModelFactory model_factory;  // for tests; unset: real models
  const Clock* clock = &Clock::Real();
};

class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);
  ~Server();  // Shutdown without grace

  std::shared_ptr<grpc::Channel> InProcessChannel();
  const std::string& address() const { return address_; }  // with the port that was taken; empty without a socket

  // Health turns NOT_SERVING, the running job goes back to the queue, no new call is accepted; calls under way have
  // until the grace ends, then they are cancelled. Idempotent.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::string address_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace varifocal
