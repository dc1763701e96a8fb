// Limits the concurrent calls of one model in its engine and schedules the others round-robin over peers.
//
// An engine divides its tokens between jobs and callers (server/engine/scheduler.h), but serves callers in the order of arrival:
// one with a thousand queued requests would delay every other. So at most `limit(model)` calls of a model are in its engine; the
// others wait here, in round-robin order of their peers, and each call that ends admits the next one. A job's requests go to
// the engine directly; the limit is smaller beside a running job, so that its share of the engine's places is not taken.
//
// Threads: any. `start` functions run on the given pool. The gate outlives the calls.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "server/rpc/rpc_pool.h"

namespace varifocal {

class EngineGate {
 public:
  // `limit` is called whenever a place may be assigned, under the gate's lock: it must be fast and not call back.
  EngineGate(RpcPool* pool, std::function<int64_t(const std::string& model)> limit, const Clock& clock = Clock::Real())
      : pool_(pool), limit_(std::move(limit)), clock_(clock) {}

  // Runs `start` once a place is free; Leave must follow. Returns the queue entry's number, for Withdraw.
  int64_t Enter(const std::string& model, const std::string& peer, std::function<void()> start);
  // True: it was still waiting, `start` will not run, and Leave must not be called.
  bool Withdraw(const std::string& model, int64_t id);
  void Leave(const std::string& model);

  struct Queue {
    int64_t waiting_count = 0;
    int64_t oldest_wait_us = 0;  // 0 when none waits
  };
  Queue QueueOf(const std::string& model) const;

 private:
  struct Waiting {
    int64_t id = 0;
    int64_t enter_us = 0;
    std::function<void()> start;
  };
  struct Line {
    int64_t inside_count = 0;
    std::map<std::string, std::deque<Waiting>> by_peer;  // none is empty
    std::string last_peer;                               // the peer whose call was admitted last
  };
  void LetIn(const std::string& model, Line& line) VF_REQUIRES(mutex_);

  RpcPool* const pool_;
  const std::function<int64_t(const std::string&)> limit_;
  const Clock& clock_;
  mutable Mutex mutex_;
  int64_t next_id_ VF_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Line> lines_ VF_GUARDED_BY(mutex_);  // by model
};

}  // namespace varifocal
