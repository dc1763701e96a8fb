#include "server/rpc/engine_gate.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace varifocal {

int64_t EngineGate::Enter(const std::string& model, const std::string& peer, std::function<void()> start) {
  MutexLock lock(mutex_);
  const int64_t id = next_id_++;
  Line& line = lines_[model];
  line.by_peer[peer].push_back({id, clock_.MonotonicMicros(), std::move(start)});
  LetIn(model, line);
  return id;
}

bool EngineGate::Withdraw(const std::string& model, int64_t id) {
  MutexLock lock(mutex_);
  Line& line = lines_[model];
  for (auto peer = line.by_peer.begin(); peer != line.by_peer.end(); ++peer) {
    std::deque<Waiting>& queue = peer->second;
    for (auto waiting = queue.begin(); waiting != queue.end(); ++waiting) {
      if (waiting->id != id) continue;
      queue.erase(waiting);
      if (queue.empty()) line.by_peer.erase(peer);
      return true;
    }
  }
  return false;
}

void EngineGate::Leave(const std::string& model) {
  MutexLock lock(mutex_);
  Line& line = lines_[model];
  VF_CHECK(line.inside_count > 0, "every call that leaves came in");
  --line.inside_count;
  LetIn(model, line);
}

EngineGate::Queue EngineGate::QueueOf(const std::string& model) const {
  MutexLock lock(mutex_);
  Queue result;
  const auto line = lines_.find(model);
  if (line == lines_.end()) return result;
  const int64_t now_us = clock_.MonotonicMicros();
  for (const auto& [peer, queue] : line->second.by_peer) {
    result.waiting_count += std::ssize(queue);
    result.oldest_wait_us = std::max(result.oldest_wait_us, now_us - queue.front().enter_us);
  }
  return result;
}

void EngineGate::LetIn(const std::string& model, Line& line) {
  while (!line.by_peer.empty() && line.inside_count < limit_(model)) {
    auto peer = line.by_peer.upper_bound(line.last_peer);  // the peers in turn
    if (peer == line.by_peer.end()) peer = line.by_peer.begin();
    line.last_peer = peer->first;
    std::function<void()> start = std::move(peer->second.front().start);
    peer->second.pop_front();
    if (peer->second.empty()) line.by_peer.erase(peer);
    ++line.inside_count;
    const absl::Status posted = pool_->Post(std::move(start));
    VF_CHECK(posted.ok(), "the pool has room for every admitted call");
  }
}

}  // namespace varifocal
