#include "server/workers/remote_workers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/workers/dispatcher.h"
#include "server/workers/worker_addresses.h"

namespace varifocal {
namespace {

using std::chrono::milliseconds;

constexpr int kPollsPerResolve = 5;
constexpr auto kQuietConnect = std::chrono::seconds(2);
constexpr auto kConnectLinePeriod = std::chrono::seconds(30);

}  // namespace

RemoteWorkers::RemoteWorkers(const RemoteWorkersOptions& options)
    : options_(options), dispatcher_(std::make_unique<Dispatcher>(options)) {}
RemoteWorkers::~RemoteWorkers() { Stop(); }

absl::StatusOr<std::unique_ptr<RemoteWorkers>> RemoteWorkers::Connect(const RemoteWorkersOptions& options) {
  VF_CHECK(options.secrets.token.empty() || !options.secrets.root_certificates.empty(), "a token without TLS");
  RETURN_IF_ERROR(CheckWorkerAddresses(options.addresses));
  std::unique_ptr<RemoteWorkers> workers(new RemoteWorkers(options));
  RETURN_IF_ERROR(workers->WaitForWorker());
  workers->thread_ = std::thread([raw = workers.get()] { raw->WatchLoop(); });
  return workers;
}

absl::Status RemoteWorkers::WaitForWorker() {
  const auto deadline = std::chrono::steady_clock::now() + options_.connect_timeout;
  const bool has_deadline = options_.connect_timeout > milliseconds(0);
  auto next_line = std::chrono::steady_clock::now() + kQuietConnect;
  std::string last_problem = "no address was found";
  while (true) {
    dispatcher_->ResolveWorkers();
    dispatcher_->PollWorkers();
    ASSIGN_OR_RETURN(const bool has_worker, dispatcher_->HasWorker(&last_problem));
    if (has_worker) return absl::OkStatus();
    if (!has_deadline && std::chrono::steady_clock::now() >= next_line) {
      next_line += kConnectLinePeriod;
      Log(LogLevel::kWarning, "waiting_for_workers",
          {{"workers", absl::StrJoin(options_.addresses, ",")}, {"problem", last_problem}});
    }
    if (has_deadline && std::chrono::steady_clock::now() >= deadline) {
      return Unavailable("no worker of ", absl::StrJoin(options_.addresses, ","), " answered within ",
                         options_.connect_timeout.count() / 1000, " s; the last: ", last_problem);
    }
    std::this_thread::sleep_for(std::min<milliseconds>(options_.period, milliseconds(200)));
  }
}

void RemoteWorkers::WatchLoop() {
  for (int poll = 1; dispatcher_->WaitFor(options_.period); ++poll) {
    if (poll % kPollsPerResolve == 0) dispatcher_->ResolveWorkers();
    dispatcher_->PollWorkers();
  }
}

void RemoteWorkers::Stop() {
  dispatcher_->BeginStop();
  if (thread_.joinable()) thread_.join();
  dispatcher_->WaitUntilDone();
}

v1::Model RemoteWorkers::model(const std::string& name) const { return dispatcher_->model(name); }
std::string RemoteWorkers::KindsInWords() const { return dispatcher_->KindsInWords(); }
std::vector<std::string> RemoteWorkers::Addresses() const { return dispatcher_->UsableAddresses(); }
EngineHandle RemoteWorkers::Start(const std::string& model, EngineRequest request, bool has_bounds, Done done) {
  return dispatcher_->Start(model, std::move(request), has_bounds, std::move(done));
}
void RemoteWorkers::Cancel(EngineHandle handle) { dispatcher_->Cancel(handle); }
int64_t RemoteWorkers::queued_count() const { return dispatcher_->queued_count(); }
int64_t RemoteWorkers::running_count() const { return dispatcher_->running_count(); }

}  // namespace varifocal
