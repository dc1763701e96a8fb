// The workers behind the given names: their addresses, whether each can be used, and which requests it runs.
//
// The state of a worker does not leave the set, so the lock that guards the set guards it too.
//
// Errors:  FAILED_PRECONDITION (WORKERS_DIFFER) from HasWorker.
// Threads: not thread-safe but for Resolve; a WorkerStub is of any thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/context_places.h"
#include "server/engine/request.h"
#include "server/workers/worker_models.h"
#include "varifocal/v1/inference.grpc.pb.h"
#include "wire/channel.h"

namespace varifocal {

// What a call needs of its worker; never changed.
struct WorkerStub {
  std::string address;
  std::unique_ptr<v1::Inference::Stub> stub;
};

class WorkerSet {
 public:
  // `in_flight`: requests of one worker.
  WorkerSet(const ChannelSecrets& secrets, bool allow_mixed, int in_flight)
      : secrets_(secrets), in_flight_(in_flight), models_(allow_mixed) {}

  struct Addresses {
    std::map<std::string, std::string> names;  // by address, the name that it was given as
    bool has_unresolved = false;               // a name had no address
  };
  static Addresses Resolve(const std::vector<std::string>& names);  // blocks

  // Creates workers for new addresses, and marks those that are gone. A failed resolution takes no worker away.
  void Update(const Addresses& addresses);
  std::vector<std::shared_ptr<const WorkerStub>> Stubs() const;
  // From the replies of its poll. The requests that are to be ended, as their worker has failed too often.
  std::set<EngineHandle> UpdateHealth(const std::string& address, const std::vector<ModelReply>& replies);

  // The worker that runs the request from now on: of a `context` the one that had it before, else the one that runs the
  // fewest. Null when it must wait.
  std::shared_ptr<const WorkerStub> Assign(EngineHandle handle, const std::string& model, const std::string& context);
  void Release(EngineHandle handle, const std::string& address);        // it has ended there
  void MarkFull(const std::string& address);                            // until the next poll
  void MarkLost(const std::string& address, const std::string& cause);  // until it replies to a poll again

  // Dispatcher::HasWorker.
  absl::StatusOr<bool> HasWorker(std::string* problem);
  std::vector<std::string> UsableAddresses() const;
  const v1::Model& model(const std::string& name) const { return models_.model(name); }
  std::string KindsInWords() const { return models_.KindsInWords(); }

 private:
  struct Worker {
    std::shared_ptr<const WorkerStub> stub;
    bool is_usable = false;
    bool is_listed = true;   // in the latest resolution
    bool is_full = false;    // refused a request for lack of room; until the next poll
    int failure_count = 0;   // of polls, in a row
    std::string problem;     // of the last poll
    std::string difference;  // why it cannot be used beside the others; logged once
    std::set<EngineHandle> running;
  };

  Worker* Choose(const std::string& model, const std::string& context);
  bool HasRoom(const Worker& worker) const;
  static void LogLost(const Worker& worker, const std::string& cause);

  const ChannelSecrets secrets_;
  const int in_flight_;
  std::map<std::string, Worker> workers_;  // by address; one that runs a request is not removed
  ContextPlaces<std::string> address_of_;  // by model and context
  WorkerModels models_;
};

}  // namespace varifocal
