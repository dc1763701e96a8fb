#include "server/workers/worker_set.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/reason.h"
#include "server/workers/worker_addresses.h"

namespace varifocal {
namespace {

constexpr int kFailuresMax = 3;  // in a row, until a worker's requests are ended

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
  for (auto& [address, worker] : workers_)
    worker.is_listed = addresses.names.count(address) > 0 || addresses.has_unresolved;
  for (const auto& [address, name] : addresses.names) {
    if (workers_.count(address) > 0) continue;
    workers_[address].stub = std::make_shared<const WorkerStub>(
        WorkerStub{address, v1::Inference::NewStub(MakeWorkerChannel(address, name, secrets_))});
  }
  for (auto it = workers_.begin(); it != workers_.end();) {
    const bool is_gone = !it->second.is_listed && !it->second.is_usable && it->second.running.empty();
    it = is_gone ? workers_.erase(it) : std::next(it);
  }
}

std::vector<std::shared_ptr<const WorkerStub>> WorkerSet::Stubs() const {
  std::vector<std::shared_ptr<const WorkerStub>> stubs;
  for (const auto& [address, worker] : workers_) stubs.push_back(worker.stub);
  return stubs;
}

std::set<EngineHandle> WorkerSet::UpdateHealth(const std::string& address, const std::vector<ModelReply>& replies) {
  const auto found = workers_.find(address);
  if (found == workers_.end()) return {};
  Worker& worker = found->second;
  worker.is_full = false;
  const std::string problem = ProblemOf(replies);
  const std::string difference = problem.empty() ? models_.Compare(address, replies) : "";
  const bool was_usable = worker.is_usable;
  worker.problem = problem;
  worker.failure_count = problem.empty() ? 0 : worker.failure_count + 1;
  worker.is_usable = problem.empty() && difference.empty() && worker.is_listed;
  if (!difference.empty() && worker.difference != difference)
    Log(LogLevel::kError, "worker_refused", {{"worker", address}, {"cause", difference}});
  worker.difference = difference;
  if (worker.is_usable && !was_usable) Log(LogLevel::kInfo, "worker_joined", {{"worker", address}});
  if (!worker.is_usable && was_usable) LogLost(worker, problem.empty() ? difference : problem);
  return worker.failure_count >= kFailuresMax ? worker.running : std::set<EngineHandle>();
}

std::shared_ptr<const WorkerStub> WorkerSet::Assign(EngineHandle handle, const std::string& model,
                                                    const std::string& context) {
  Worker* const worker = Choose(model, context);
  if (worker == nullptr) return nullptr;
  worker->running.insert(handle);
  return worker->stub;
}

WorkerSet::Worker* WorkerSet::Choose(const std::string& model, const std::string& context) {
  const std::string key = absl::StrCat(model, "\n", context);
  if (!context.empty()) {
    const std::string* const kept = address_of_.Find(key);
    const auto found = kept == nullptr ? workers_.end() : workers_.find(*kept);
    if (found != workers_.end() && found->second.is_usable) return HasRoom(found->second) ? &found->second : nullptr;
  }
  Worker* best = nullptr;
  for (auto& [address, worker] : workers_) {
    if (!worker.is_usable || !HasRoom(worker)) continue;
    if (best == nullptr || worker.running.size() < best->running.size()) best = &worker;
  }
  if (best != nullptr && !context.empty()) address_of_.Put(key, best->stub->address);
  return best;
}

bool WorkerSet::HasRoom(const Worker& worker) const {
  return !worker.is_full && std::ssize(worker.running) < in_flight_;
}

void WorkerSet::Release(EngineHandle handle, const std::string& address) { workers_.at(address).running.erase(handle); }

void WorkerSet::MarkFull(const std::string& address) { workers_.at(address).is_full = true; }

void WorkerSet::MarkLost(const std::string& address, const std::string& cause) {
  Worker& worker = workers_.at(address);
  if (!worker.is_usable) return;
  worker.is_usable = false;
  LogLost(worker, cause);
}

void WorkerSet::LogLost(const Worker& worker, const std::string& cause) {
  Log(LogLevel::kWarning, "worker_lost",
      {{"worker", worker.stub->address}, {"cause", cause}, {"running", worker.running.size()}});
}

absl::StatusOr<bool> WorkerSet::HasWorker(std::string* problem) {
  bool has_worker = false;
  for (const auto& [address, worker] : workers_) {
    if (!worker.difference.empty())
      return WithReason(absl::FailedPreconditionError(worker.difference), ErrorReason::kWorkersDiffer);
    if (!worker.problem.empty()) *problem = absl::StrCat(address, ": ", worker.problem);
    has_worker = has_worker || worker.is_usable;
  }
  if (has_worker) models_.FixKinds();
  return has_worker;
}

std::vector<std::string> WorkerSet::UsableAddresses() const {
  std::vector<std::string> addresses;
  for (const auto& [address, worker] : workers_) {
    if (worker.is_usable) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace varifocal
