// The daemons that a coordinator sends its requests to.
//
// Requests wait in one queue, in the order in which they came. Each worker has at most `in_flight` of them. Requests with the same
// `context` go to the same worker, which has the context's keys and values in its prefix cache. A request whose worker is
// lost returns to the front of the queue and runs again elsewhere; its `on_done` is called once. As every worker gives the
// same bits, results do not depend on which one ran a request.
//
// Addresses are resolved again every few seconds, so workers may join and leave a DNS name. Every second each worker is
// asked for its models, on a channel that follows its gRPC health: one that is not healthy, has other models (weights, tokenizer, number
// format, attention, code version) or another kind of device (backend, instruction set) than the first gets no requests.
// Three failures in a row end its running requests. Without any worker requests wait.
//
// Errors:  from Connect: INVALID_ARGUMENT for a malformed address; UNAVAILABLE when no worker answers in time;
//          FAILED_PRECONDITION (WORKERS_DIFFER) when those that answer differ.
//          from on_done: as Engine, of the worker; INTERNAL when `attempts_max` workers were lost with the request;
//          UNAVAILABLE after Stop.
// Threads: any. Callbacks run on gRPC's threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/request.h"
#include "varifocal/v1/inference.pb.h"
#include "wire/channel.h"

namespace varifocal {

struct RemoteWorkersOptions {
  std::vector<std::string> addresses;    // HOST:PORT or unix:PATH; a HOST may have many addresses
  std::vector<std::string> model_names;  // that every worker must have
  ChannelSecrets secrets;                // a token needs certificates
  int in_flight = 8;                     // requests of one worker
  int attempts_max = 8;                  // workers that may be lost with one request
  bool allow_mixed = false;              // accept workers of several backends and instruction sets
  std::chrono::milliseconds period = std::chrono::seconds(1);  // between polls of the workers
  // For the first worker to answer; 0: as long as it takes, since the machines may start in any order.
  std::chrono::milliseconds connect_timeout = std::chrono::milliseconds(0);
};

class Dispatcher;

class RemoteWorkers {
 public:
  using Done = std::function<void(absl::StatusOr<EngineResult>)>;

  // Waits until a worker has answered, and each of the others has answered or failed once.
  static absl::StatusOr<std::unique_ptr<RemoteWorkers>> Connect(const RemoteWorkersOptions& options);
  ~RemoteWorkers();  // Stop

  // As the workers describe it; of options.model_names.
  v1::Model model(const std::string& name) const;
  // "cpu/avx2", or several kinds separated by "+".
  std::string KindsInWords() const;
  std::vector<std::string> Addresses() const;  // of the workers in use now

  // `has_bounds`: the model's temperatures are learned (worker_request.h).
  EngineHandle Start(const std::string& model, EngineRequest request, bool has_bounds, Done done);
  void Cancel(EngineHandle handle);
  int64_t queued_count() const;
  int64_t running_count() const;
  void Stop();  // ends everything with UNAVAILABLE and waits for the callbacks

 private:
  explicit RemoteWorkers(const RemoteWorkersOptions& options);
  absl::Status WaitForWorker();
  void WatchLoop();

  const RemoteWorkersOptions options_;
  const std::unique_ptr<Dispatcher> dispatcher_;
  std::thread thread_;  // polls and resolves
};

}  // namespace varifocal
