#include "server/rpc/health_service.h"

#include <algorithm>
#include <utility>

#include "base/reason.h"
#include "base/status_macros.h"
#include "server/rpc/limits.h"

namespace varifocal {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// Names are short; what is longer has no service, and is not kept.
constexpr size_t kServiceBytesMax = 256;

absl::Status TooManyWatches(size_t limit, absl::string_view whose) {
  return WithReason(ResourceExhausted("there are ", limit, " streams of Health.Watch", whose, ", which is the limit"),
                    ErrorReason::kTooManyCalls, {{"limit", absl::StrCat(limit)}});
}

}  // namespace

HealthService::State HealthService::StateOf(const std::string& service) const {
  const auto found = services_.find(service);
  if (found == services_.end()) return HealthCheckResponse::SERVICE_UNKNOWN;
  return found->second && !is_shut_down_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthService::Look(Watcher& watcher) const {
  const State now = StateOf(watcher.service);
  if (now == watcher.sent || !watcher.stream->IsReady()) return;
  watcher.sent = now;
  HealthCheckResponse response;
  response.set_status(now);
  watcher.stream->Send(std::move(response));
}

void HealthService::Set(const std::string& service, bool is_serving) {
  {
    MutexLock lock(mutex_);
    services_[service] = is_serving;
  }
  Poll();
}

void HealthService::Poll() {
  MutexLock lock(mutex_);
  std::erase_if(watchers_, [](const Watcher& watcher) { return !watcher.stream->IsOpen(); });
  for (Watcher& watcher : watchers_) Look(watcher);
}

void HealthService::Shutdown() {
  MutexLock lock(mutex_);
  is_shut_down_ = true;
  for (Watcher& watcher : watchers_) {
    Look(watcher);
    watcher.stream->End(WithReason(Unavailable("the daemon is shutting down"), ErrorReason::kShuttingDown));
  }
  watchers_.clear();
}

size_t HealthService::watch_count() const {
  MutexLock lock(mutex_);
  return watchers_.size();
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context, const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  MutexLock lock(mutex_);
  const State state = StateOf(request->service());
  if (state == HealthCheckResponse::SERVICE_UNKNOWN) {
    reactor->Finish(grpc::Status(grpc::NOT_FOUND, "there is no such service"));
    return reactor;
  }
  response->set_status(state);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

// Room for one more stream of a connection. Where there is none at all, the connection with the most streams loses its oldest.
absl::Status HealthService::MakeRoom(const std::string& connection) {
  std::erase_if(watchers_, [](const Watcher& watcher) { return !watcher.stream->IsOpen(); });
  std::map<std::string, size_t> counts;
  for (const Watcher& watcher : watchers_) ++counts[watcher.connection];
  if (counts[connection] >= kHealthWatchesOfConnectionMax)
    return TooManyWatches(kHealthWatchesOfConnectionMax, " of this connection");
  if (watchers_.size() < kHealthWatchesMax) return absl::OkStatus();
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& left, const auto& right) { return left.second < right.second; });
  const auto victim = std::find_if(watchers_.begin(), watchers_.end(),
                                   [&](const Watcher& watcher) { return watcher.connection == most->first; });
  victim->stream->End(TooManyWatches(kHealthWatchesMax, ""));
  watchers_.erase(victim);
  return absl::OkStatus();
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(grpc::CallbackServerContext* context,
                                                                    const HealthCheckRequest* request) {
  auto stream = MessageStream<HealthCheckResponse>::Make();
  auto* const reactor = stream->reactor();
  MutexLock lock(mutex_);
  absl::Status room = MakeRoom(context->peer());
  if (request->service().size() > kServiceBytesMax) {
    room = InvalidArgument("the name of the service has ", request->service().size(), " bytes, the limit is ",
                           kServiceBytesMax);
  }
  if (is_shut_down_) room = WithReason(Unavailable("the daemon is shutting down"), ErrorReason::kShuttingDown);
  if (!room.ok()) {
    stream->End(room);
    return reactor;
  }
  Look(watchers_.emplace_back(Watcher{request->service(), context->peer(), std::move(stream)}));
  return reactor;
}

}  // namespace varifocal
