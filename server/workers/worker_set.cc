#include "server/workers/worker_set.h"

#include <iterator>
#include <utility>

#include "base/log.h"
#include "server/workers/worker_addresses.h"

namespace varifocal {
namespace {

constexpr int kFailuresMax = 3;  // in a row, until a worker's requests are ended

void LogLost(const Worker& worker, const std::string& cause) {
  Log(LogLevel::kWarning, "worker_lost",
      {{"worker", worker.address}, {"cause", cause}, {"running", worker.running.size()}});
}

}  // namespace

WorkerSet::Addresses WorkerSet::Resolve(const std::vector<std::string>& names) {
  Addresses found;
  for (const std::string& name : names) {
    const std::vector<std::string> addresses = ResolveWorker(name);
    if (addresses.empty()) found.has_unresolved = true;
    for (const std::string& address : addresses) found.names.emplace(address, name);
  }
  return found;
}

void WorkerSet::Update(const Addresses& addresses) {
  for (auto& [address, worker] : workers_) {
    worker->is_listed = addresses.names.count(address) > 0 || addresses.has_unresolved;
  }
  for (const auto& [address, name] : addresses.names) {
    if (workers_.count(address) > 0) continue;
    auto worker = std::make_shared<Worker>();
    worker->address = address;
    worker->stub = v1::Inference::NewStub(MakeWorkerChannel(address, name, secrets_));
    workers_[address] = std::move(worker);
  }
  for (auto it = workers_.begin(); it != workers_.end();) {
    const bool is_gone = !it->second->is_listed && !it->second->is_usable && it->second->running.empty();
    it = is_gone ? workers_.erase(it) : std::next(it);
  }
}

bool WorkerSet::UpdateHealth(Worker& worker, const std::vector<ModelReply>& replies) {
  worker.is_full = false;
  const std::string problem = ProblemOf(replies);
  const std::string difference = problem.empty() ? models_.Compare(worker.address, replies) : "";
  const bool was_usable = worker.is_usable;
  worker.problem = problem;
  worker.failure_count = problem.empty() ? 0 : worker.failure_count + 1;
  worker.is_usable = problem.empty() && difference.empty() && worker.is_listed;
  if (!difference.empty() && worker.difference != difference) {
    Log(LogLevel::kError, "worker_refused", {{"worker", worker.address}, {"cause", difference}});
  }
  worker.difference = difference;
  if (worker.is_usable && !was_usable) Log(LogLevel::kInfo, "worker_joined", {{"worker", worker.address}});
  if (!worker.is_usable && was_usable) LogLost(worker, problem.empty() ? difference : problem);
  return worker.failure_count >= kFailuresMax;
}

void WorkerSet::MarkLost(Worker& worker, const std::string& cause) {
  worker.is_usable = false;
  LogLost(worker, cause);
}

std::vector<std::string> WorkerSet::UsableAddresses() const {
  std::vector<std::string> addresses;
  for (const auto& [address, worker] : workers_) {
    if (worker->is_usable) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace varifocal
