#include "server/front/front.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/front/connection.h"
#include "server/front/listeners.h"
#include "server/front/tls_session.h"

namespace varifocal {
namespace {

constexpr int64_t kTickUs = 100'000;
constexpr int kTurn = 4;                // streams that a waiting connection opens before the next one's turn
constexpr int kDrainRounds = 400;       // at the end, of 5 ms
constexpr int kAcceptsOfOneRound = 16;  // a handshake takes a millisecond
constexpr uint64_t kWakeId = 0, kListenerId = 1, kFirstConnectionId = 2;

std::string AddressOf(const sockaddr_storage& address, const ListenAddress& listen) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &four.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(four.sin_port));
  }
  if (address.ss_family != AF_INET6) return absl::StrCat("unix:", listen.socket_path);
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    inet_ntop(AF_INET, &six.sin6_addr.s6_addr32[3], text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(six.sin6_port));
  }
  inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof(text));
  return absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(six.sin6_port));
}

}  // namespace

class Front::Loop {
 public:
  Loop(Front* front, FrontOptions options, Listeners listeners)
      : front_(front),
        options_(std::move(options)),
        listeners_(std::move(listeners)),
        shared_(options_.limits),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    Watch(wake_, kWakeId, EPOLLIN, EPOLL_CTL_ADD);
  }
  ~Loop() {
    connections_.clear();
    CloseListeners();
    close(epoll_);
    close(wake_);
  }

  bool is_good() const { return epoll_ >= 0 && wake_ >= 0; }
  void SetServe(std::function<void(int)> serve) { serve_ = std::move(serve); }
  void Run();

  // The listeners are closed by the thread, when it is between two connections.
  void StopAccepting() {
    std::future<void> stopped;
    {
      MutexLock lock(mutex_);
      stop_accepting_.emplace_back();
      stopped = stop_accepting_.back().get_future();
    }
    Wake();
    stopped.wait();
  }
  void Pass(int fd) {
    {
      MutexLock lock(mutex_);
      passed_.push_back(fd);
    }
    Wake();
  }
  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    Wake();
  }

 private:
  struct Entry {
    Entry(int fd, Caller caller, const FrameLimits& limits, SharedRates* shared, std::shared_ptr<TlsContext> tls,
          int64_t now_us)
        : connection(fd, std::move(caller), limits, shared, std::move(tls), now_us) {}
    FrontConnection connection;
    uint32_t client_events = 0, server_events = 0;  // those that epoll has
    bool is_server_watched = false;
  };

  void Wake() const {
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof(one));
  }
  int64_t Now() const { return options_.clock->MonotonicMicros(); }
  // The low bit: gRPC's side of a connection.
  void Watch(int fd, uint64_t id, uint32_t events, int operation) const {
    epoll_event event = {};
    event.events = events;
    event.data.u64 = id;
    epoll_ctl(epoll_, operation, fd, &event);
  }
  void WatchListeners(bool are_watched) {
    for (const int fd : listeners_.fds) Watch(fd, kListenerId << 1, are_watched ? EPOLLIN : 0u, EPOLL_CTL_MOD);
  }
  void CloseListeners() {
    if (options_.address.is_unix() && !listeners_.fds.empty()) unlink(options_.address.socket_path.c_str());
    for (const int fd : listeners_.fds) close(fd);
    listeners_.fds.clear();
  }
  bool TakeRequests();
  void Accept(int listener);
  void Add(int fd, const sockaddr_storage& address);
  bool MakeRoom();
  std::shared_ptr<TlsContext> CurrentTls();
  void Handle(const epoll_event& event);
  void After(uint64_t id, const absl::Status& status);
  void Remove(uint64_t id, const absl::Status& why);
  void TakeTurns();
  void Tick();
  int Timeout() const;
  void Refused(const std::string& peer, absl::string_view why) const;

  Front* const front_;
  const FrontOptions options_;
  Listeners listeners_;
  SharedRates shared_;
  const int epoll_, wake_;
  std::function<void(int)> serve_;
  std::map<uint64_t, std::unique_ptr<Entry>> connections_;
  std::map<std::string, int> counts_;  // of connections, by address without the port
  std::deque<uint64_t> turns_;         // connections that wait
  uint64_t next_id_ = kFirstConnectionId;
  int64_t tick_us_ = 0;
  bool is_accepting_ = true;  // false for a moment without descriptors
  std::shared_ptr<const TlsMaterial> material_;
  std::shared_ptr<TlsContext> tls_;

  Mutex mutex_;
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
  std::vector<std::promise<void>> stop_accepting_ VF_GUARDED_BY(mutex_);
  std::vector<int> passed_ VF_GUARDED_BY(mutex_);
};

void Front::Loop::Refused(const std::string& peer, absl::string_view why) const {
  if (options_.refusals == nullptr) return;
  options_.refusals->Add(
      {.what = "connection", .peer = peer.substr(0, peer.rfind(':')), .token = "none", .cause = std::string(why)});
}

void Front::Loop::Run() {
  for (const int fd : listeners_.fds) Watch(fd, kListenerId << 1, EPOLLIN, EPOLL_CTL_ADD);
  tick_us_ = Now() + kTickUs;
  std::vector<epoll_event> events(256);
  while (TakeRequests()) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), Timeout());
    for (int i = 0; i < count; ++i) Handle(events[i]);
    TakeTurns();
    if (Now() >= tick_us_) Tick();
  }
  // What gRPC has sent goes to the clients before their connections are closed, as far as they read it within two seconds.
  for (int round = 0; round < kDrainRounds; ++round) {
    std::erase_if(connections_, [](const auto& entry) { return !entry.second->connection.HasMoreForClient(); });
    if (connections_.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

int Front::Loop::Timeout() const {
  int64_t us = tick_us_ - Now();
  if (!turns_.empty()) {
    const auto first = connections_.find(turns_.front());
    us = first == connections_.end() ? 0 : std::min(us, first->second->connection.due_us() - Now());
  }
  return static_cast<int>(std::max<int64_t>(us + 999, 0) / 1000);
}

bool Front::Loop::TakeRequests() {
  uint64_t count = 0;
  (void)!read(wake_, &count, sizeof(count));
  MutexLock lock(mutex_);
  if (!stop_accepting_.empty()) {
    CloseListeners();
    // Those that gRPC does not have yet.
    std::erase_if(connections_, [](const auto& entry) { return entry.second->connection.server_fd() < 0; });
    front_->connection_count_ = std::ssize(connections_);
    serve_ = nullptr;
    for (std::promise<void>& done : stop_accepting_) done.set_value();
    stop_accepting_.clear();
  }
  for (const int fd : passed_) {
    options_.callers->Set(fd, {.address = "this process", .certificate = ""});
    if (serve_ != nullptr) {
      serve_(fd);
    } else {
      close(fd);
    }
  }
  passed_.clear();
  return !stopping_;
}

void Front::Loop::Handle(const epoll_event& event) {
  const uint64_t id = event.data.u64 >> 1;
  if (id == kWakeId) return;
  if (id == kListenerId) {
    for (const int listener : std::vector<int>(listeners_.fds)) Accept(listener);
    return;
  }
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;  // an earlier event of this round ended it
  FrontConnection& connection = found->second->connection;
  const bool is_server = (event.data.u64 & 1) != 0;
  absl::Status status = connection.Write();
  if (status.ok() && (event.events & EPOLLIN) != 0) {
    status = is_server ? connection.ReadServer() : connection.ReadClient(Now());
  } else if (status.ok() && (event.events & (EPOLLHUP | EPOLLERR)) != 0) {
    if (!is_server) {
      status = Unavailable("");
    } else {
      // gRPC has closed, and what it sent waits for the client: watched again once there is room.
      epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.server_fd(), nullptr);
      found->second->is_server_watched = false;
    }
  }
  After(id, status);
}

// Serves, removes or watches a connection after something was done with it.
void Front::Loop::After(uint64_t id, const absl::Status& status) {
  const auto found = connections_.find(id);
  if (!status.ok()) return Remove(id, status);
  Entry& entry = *found->second;
  FrontConnection& connection = entry.connection;
  if (connection.WantsServer()) {
    if (serve_ == nullptr) return Remove(id, Unavailable(""));
    const absl::StatusOr<int> end = connection.OpenServer();
    if (!end.ok()) return Remove(id, end.status());
    options_.callers->Set(*end, connection.caller());
    serve_(*end);
    const absl::Status written = connection.Write();
    if (!written.ok()) return Remove(id, written);
  }
  if (connection.WaitsForTurn() && !connection.is_queued) {
    connection.is_queued = true;
    turns_.push_back(id);
  }
  const uint32_t client_events = connection.ClientEvents();
  if (client_events != entry.client_events) Watch(connection.fd(), id << 1, client_events, EPOLL_CTL_MOD);
  entry.client_events = client_events;
  if (connection.server_fd() < 0) return;
  const uint32_t server_events = connection.ServerEvents();
  if (!entry.is_server_watched) {
    if (server_events == 0) return;
    Watch(connection.server_fd(), id << 1 | 1, server_events, EPOLL_CTL_ADD);
    entry.is_server_watched = true;
  } else if (server_events != entry.server_events) {
    Watch(connection.server_fd(), id << 1 | 1, server_events, EPOLL_CTL_MOD);
  }
  entry.server_events = server_events;
}

void Front::Loop::Remove(uint64_t id, const absl::Status& why) {
  const auto found = connections_.find(id);
  const std::string& peer = found->second->connection.caller().address;
  if (!why.message().empty()) Refused(peer, why.message());
  const auto count = counts_.find(peer.substr(0, peer.rfind(':')));
  if (count != counts_.end() && --count->second == 0) counts_.erase(count);
  connections_.erase(found);
  front_->connection_count_ = std::ssize(connections_);
}

// Those that wait take turns, in the order in which they came.
void Front::Loop::TakeTurns() {
  for (size_t left = turns_.size(); left > 0; --left) {
    const uint64_t id = turns_.front();
    const auto found = connections_.find(id);
    if (found == connections_.end()) {
      turns_.pop_front();
      continue;
    }
    FrontConnection& connection = found->second->connection;
    const int64_t now_us = Now();
    if (connection.due_us() > now_us) {
      turns_.pop_front();
      turns_.push_back(id);  // its own rate may be what it waits for
      continue;
    }
    turns_.pop_front();
    connection.is_queued = false;
    After(id, connection.PassOn(now_us, kTurn));
  }
  // The next one that is due is the first.
  if (turns_.empty()) return;
  const auto due_us = [this](uint64_t id) {
    const auto found = connections_.find(id);
    return found == connections_.end() ? 0 : found->second->connection.due_us();
  };
  std::stable_sort(turns_.begin(), turns_.end(),
                   [&](uint64_t left, uint64_t right) { return due_us(left) < due_us(right); });
}

void Front::Loop::Tick() {
  const int64_t now_us = Now();
  tick_us_ = now_us + kTickUs;
  std::vector<uint64_t> ids;
  for (const auto& [id, entry] : connections_) ids.push_back(id);
  for (const uint64_t id : ids) {
    FrontConnection& connection = connections_.at(id)->connection;
    if (!connection.is_open() && now_us - connection.begin_us() > options_.handshake_us) {
      Remove(id, absl::DeadlineExceededError(
                     absl::StrCat("no HTTP/2 settings within ", options_.handshake_us / 1'000'000, " s")));
      continue;
    }
    if (connection.is_open()) After(id, connection.Tick(now_us));
  }
  if (!is_accepting_) WatchListeners(is_accepting_ = true);
  if (options_.refusals != nullptr) options_.refusals->Flush();
}

std::shared_ptr<TlsContext> Front::Loop::CurrentTls() {
  const std::shared_ptr<const TlsMaterial> now = options_.tls == nullptr ? nullptr : options_.tls();
  if (now == nullptr) return nullptr;
  if (now != material_) {
    absl::StatusOr<std::shared_ptr<TlsContext>> made = TlsContext::Make(*now);
    if (made.ok()) {
      tls_ = *std::move(made);
    } else {
      Log(LogLevel::kError, "credentials_not_reloaded", {{"error", made.status().message()}});
    }
    material_ = now;
  }
  return tls_;
}

// Room for one more connection: closes one that can be missed. False when all are needed.
bool Front::Loop::MakeRoom() {
  if (std::ssize(connections_) < options_.connections_max) return true;
  uint64_t victim = 0;
  std::pair<bool, int64_t> least = {true, INT64_MAX};
  for (const auto& [id, entry] : connections_) {
    const FrontConnection& connection = entry->connection;
    if (connection.has_call()) continue;
    const std::pair<bool, int64_t> rank = {connection.is_open(), connection.active_us()};
    if (victim == 0 || rank < least) victim = id, least = rank;
  }
  if (victim == 0) return false;
  Remove(victim, ResourceExhausted("closed for another one: ", options_.connections_max,
                                   " connections are open, which is the limit"));
  return true;
}

void Front::Loop::Accept(int listener) {
  for (int i = 0; i < kAcceptsOfOneRound; ++i) {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    const int fd = accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      Add(fd, address);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // A moment later, and with one connection less.
      Refused("all:", absl::StrCat("a connection cannot be accepted: ", std::strerror(errno)));
      if (std::ssize(connections_) >= options_.connections_max / 2) MakeRoom();
      WatchListeners(is_accepting_ = false);
    }
    return;
  }
}

void Front::Loop::Add(int fd, const sockaddr_storage& address) {
  Caller caller = {.address = AddressOf(address, options_.address), .certificate = ""};
  const std::string host = caller.address.substr(0, caller.address.rfind(':'));
  const bool is_local = host.rfind("ipv4:127.", 0) == 0 || host.rfind("ipv6:%5B::1%5D", 0) == 0 || host == "unix";
  const auto known = counts_.find(host);
  if (!is_local && known != counts_.end() && known->second >= options_.connections_max / 2) {
    Refused(caller.address, absl::StrCat(known->second, " connections of this address are open, the limit is ",
                                         options_.connections_max / 2));
    close(fd);
    return;
  }
  if (!MakeRoom()) {
    Refused(caller.address, absl::StrCat(options_.connections_max, " connections with calls are open, the limit"));
    close(fd);
    return;
  }
  const std::shared_ptr<TlsContext> tls = CurrentTls();
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  const uint64_t id = next_id_++;
  auto entry = std::make_unique<Entry>(fd, std::move(caller), options_.limits, &shared_, tls, Now());
  entry->client_events = EPOLLIN;
  Watch(fd, id << 1, EPOLLIN, EPOLL_CTL_ADD);
  connections_[id] = std::move(entry);
  ++counts_[host];
  front_->connection_count_ = std::ssize(connections_);
}

absl::StatusOr<std::unique_ptr<Front>> Front::Listen(FrontOptions options) {
  auto front = std::unique_ptr<Front>(new Front());
  if (options.tls != nullptr && options.tls() != nullptr) RETURN_IF_ERROR(TlsContext::Make(*options.tls()).status());
  ASSIGN_OR_RETURN(Listeners listeners, OpenListeners(options.address));
  front->port_ = listeners.port;
  front->loop_ = std::make_unique<Loop>(front.get(), std::move(options), std::move(listeners));
  if (!front->loop_->is_good()) return ResourceExhausted("no descriptors for the listener");
  return front;
}

void Front::Start(std::function<void(int fd)> serve) {
  loop_->SetServe(std::move(serve));
  thread_ = std::thread([this] { loop_->Run(); });
  pthread_setname_np(thread_.native_handle(), "vf-front");
}

void Front::Pass(int fd) { loop_->Pass(fd); }

void Front::StopAccepting() {
  if (thread_.joinable()) loop_->StopAccepting();
}

Front::~Front() {
  if (!thread_.joinable()) return;
  loop_->Stop();
  thread_.join();
}

}  // namespace varifocal
