// The workers behind the given names: their addresses, whether each can be used, and which requests it runs.
//
// Threads: not thread-safe but for Resolve; the Dispatcher's lock protects it and every Worker.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/engine/request.h"
#include "server/workers/worker_models.h"
#include "varifocal/v1/inference.grpc.pb.h"
#include "wire/channel.h"

namespace varifocal {

struct Worker {
  std::string address;                        // never changed, so read without the lock
  std::unique_ptr<v1::Inference::Stub> stub;  // likewise
  bool is_usable = false;
  bool is_listed = true;   // in the latest resolution
  bool is_full = false;    // refused a request for lack of room; until the next poll
  int failure_count = 0;   // of polls, in a row
  std::string problem;     // of the last poll
  std::string difference;  // why it cannot be used beside the others; logged once
  std::set<EngineHandle> running;
};

class WorkerSet {
 public:
  WorkerSet(const ChannelSecrets& secrets, bool allow_mixed) : secrets_(secrets), models_(allow_mixed) {}

  struct Addresses {
    std::map<std::string, std::string> names;  // by address, the name that it was given as
    bool has_unresolved = false;               // a name had no address
  };
  static Addresses Resolve(const std::vector<std::string>& names);  // blocks

  // Creates workers for new addresses, and marks those that are gone. A failed resolution takes no worker away.
  void Update(const Addresses& addresses);
  // From the replies of its poll. True when it has failed so often that its requests are to be ended.
  bool UpdateHealth(Worker& worker, const std::vector<ModelReply>& replies);
  static void MarkLost(Worker& worker, const std::string& cause);  // until it replies to a poll again

  const std::map<std::string, std::shared_ptr<Worker>>& by_address() const { return workers_; }
  std::vector<std::string> UsableAddresses() const;
  WorkerModels& models() { return models_; }
  const WorkerModels& models() const { return models_; }

 private:
  const ChannelSecrets secrets_;
  std::map<std::string, std::shared_ptr<Worker>> workers_;
  WorkerModels models_;
};

}  // namespace varifocal
