// The daemon as a class: models, jobs and services behind one gRPC server.
//
// `varifocald` adds flags; `varifocal run` and the verbs with a model directory use it in-process over an in-process
// channel, so that all use the same code path.
//
// Errors:  from Start: the reason for rejecting a database, model directory or address, in one sentence; no side effects
//          remain.
// Threads: any. Shutdown may take its grace period plus the time a model needs to stop within a layer.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/file_roots.h"
#include "server/engine/engine.h"
#include "server/hosting/model_host.h"
#include "server/model/model.h"
#include "server/server_credentials.h"
#include "server/server_limits.h"
#include "wire/message_limits.h"

namespace grpc {
class Channel;
}

namespace varifocal {

struct ServerOptions {
  struct NamedModel {
    std::string name;
    std::string directory;
  };

  // Other daemons that run the models; `models` are then read for their tokenizers alone.
  struct Workers {
    std::string addresses;                // "HOST:PORT,.."; empty: the models run here
    std::string tls_ca_file, token_file;  // empty: a plain connection
    int in_flight = 8;                    // requests of one worker
    bool allow_mixed = false;             // of several backends and instruction sets
  };

  std::string database_path;           // empty: no jobs, models only
  std::vector<NamedModel> models;      // loaded before anything is served
  std::vector<std::string> endpoints;  // models of other servers, as EndpointSpec reads them; connected before serving
  int64_t endpoint_budget_tokens = 0;  // that all of them may cost together; 0: no limit
  Workers workers;
  ModelOptions model;  // device, number format, threads, instruction set
  EngineOptions engine;
  int in_flight = 0;  // concurrent samples, for jobs without a value; 0: 8 for each copy of a model
  // "127.0.0.1:50151", port 0 binds a free one, or "unix:PATH" (listen_address.h); empty: in-process channels only.
  std::string listen_address;
  ServerProtection protection;  // TLS and tokens; an address other than loopback needs them, and roots
  ConnectionTimeouts timeouts;
  FileRoots roots;  // where files of requests must be (file_roots.h); of the whole process, `models` are allowed
  bool reflection = false;      // serve descriptors of services and messages
  std::string command_line;     // for provenance
  std::string metrics_address;  // "127.0.0.1:9464": GET /metrics there answers with MetricsText; empty: nowhere
  // Called on a separate thread when the listener has stopped accepting connections (listener_watchdog.h); unset: not
  // watched.
  std::function<void(const absl::Status&)> on_listener_dead;
  // Called four times a second while no thread of the daemon is stalled, for a supervisor's watchdog; optional.
  std::function<void()> on_alive;
  int64_t endpoint_retry_ms = 15'000;  // between attempts at an endpoint that is off
  // The process exits when Start fails: what was made so far is then not destroyed, which may wait for threads that never came.
  bool exits_after_failure = false;
  ModelFactory model_factory;  // for tests; unset: real models
  const Clock* clock = &Clock::Real();
};

class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);
  ~Server();  // Shutdown without grace

  std::shared_ptr<grpc::Channel> InProcessChannel();
  const std::string& address() const { return address_; }  // with the bound port; empty without a socket
  int metrics_port() const;                                // 0 without metrics

  // Health turns NOT_SERVING, the running job is requeued, no new call is accepted; active calls have
  // until the grace period ends, then they are cancelled. Idempotent.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  struct Parts;
  absl::Status Init(ServerOptions options);
  explicit Server(std::unique_ptr<Parts> parts);

  std::string address_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace varifocal
