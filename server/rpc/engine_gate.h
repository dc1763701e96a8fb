// How many calls of one model are in its engine at once, and in which order the others get there.
//
// An engine answers in the order of arrival, so a client with a thousand requests in its queue would keep a job, and
// every other client, waiting for all of them. So only `limit()` calls of a model are in its engine; the others wait
// here, the peers in turn, and each call that ends lets the next one in. The limit is smaller beside a running job,
// whose own requests go to the engine directly.
//
// Threads: any. `start` functions run on the given lane. The gate outlives the calls.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "server/rpc/worker_pool.h"

namespace varifocal {

class EngineGate {
 public:
  // `limit` is asked whenever a place may be given, under the gate's lock: it must be quick and not call back.
  EngineGate(WorkerPool* lane, std::function<int64_t()> limit) : lane_(lane), limit_(std::move(limit)) {}

  // `start` runs once there is a place; Leave is then owed. Returns the number of the place in the queue, for Withdraw.
  int64_t Enter(const std::string& model, const std::string& peer, std::function<void()> start);
  // True: it was still waiting, `start` will not run, and Leave is not owed.
  bool Withdraw(const std::string& model, int64_t id);
  void Leave(const std::string& model);

  int64_t WaitingCount(const std::string& model) const;

 private:
  struct Waiting {
    int64_t id = 0;
    std::function<void()> start;
  };
  struct Line {
    int64_t inside_count = 0;
    std::map<std::string, std::deque<Waiting>> by_peer;  // none is empty
    std::string last_peer;                               // whose call went in last
  };
  void LetIn(Line& line);

  WorkerPool* const lane_;
  const std::function<int64_t()> limit_;
  mutable std::mutex mutex_;
  int64_t next_id_ = 0;
  std::map<std::string, Line> lines_;  // by model
};

}  // namespace varifocal
