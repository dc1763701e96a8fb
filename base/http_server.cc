#include "base/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr char kHttpHost[] = "127.0.0.1";
constexpr int kHandlers = 4;
constexpr size_t kHeadBytesMax = 16 << 10;
constexpr int64_t kLingerUs = 1'000'000;  // for the body of a request that is not read
constexpr int kPollMs = 100;

HttpAnswer PlainAnswer(int status, std::string sentence) {
  return {status, "text/plain; charset=utf-8", absl::StrCat(sentence, "\n"), "default-src 'none'"};
}

const char* StatusPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

std::string Serialize(const HttpAnswer& answer, bool with_body) {
  return absl::StrCat(
      "HTTP/1.1 ", answer.status, " ", StatusPhrase(answer.status), "\r\nContent-Type: ", answer.content_type,
      "\r\nContent-Length: ", answer.body.size(),
      "\r\nConnection: close\r\nCache-Control: no-store\r\nContent-Security-Policy: ", answer.content_security_policy,
      "\r\nCross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n"
      "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n",
      answer.status == 405 ? "Allow: GET, HEAD\r\n" : "", "\r\n", with_body ? answer.body : "");
}

// "%41" is A and "+" in a query a blank; what is no such sequence stays.
std::string PercentDecoded(absl::string_view text, bool is_query) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    if (text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
        absl::ascii_isxdigit(text[i + 2]) && absl::SimpleHexAtoi(text.substr(i + 1, 2), &code)) {
      decoded.push_back(static_cast<char>(code));
      i += 2;
    } else {
      decoded.push_back(is_query && text[i] == '+' ? ' ' : text[i]);
    }
  }
  return decoded;
}

struct ParsedRequest {
  std::string method;
  HttpRequest request;
};

// The head of a request, without the blank line; else the answer.
std::optional<HttpAnswer> ParseHead(absl::string_view head, int port, ParsedRequest* parsed) {
  const std::vector<absl::string_view> lines = absl::StrSplit(head, "\r\n");
  const std::vector<absl::string_view> words = absl::StrSplit(lines[0], ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.") || words[1].empty() || words[1][0] != '/') {
    return PlainAnswer(400, "This is not a request of HTTP/1.1.");
  }
  int host_count = 0;
  bool is_own = false;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    if (colon == absl::string_view::npos || !absl::EqualsIgnoreCase(lines[i].substr(0, colon), "Host")) continue;
    ++host_count;
    is_own = IsOwnHost(absl::StripAsciiWhitespace(lines[i].substr(colon + 1)), port);
  }
  if (host_count != 1 || !is_own) {
    return PlainAnswer(403, absl::StrCat("This server answers to localhost:", port, " alone."));
  }
  parsed->method = std::string(words[0]);
  if (parsed->method != "GET" && parsed->method != "HEAD") {
    return PlainAnswer(405, "Pages are read with GET or HEAD; nothing can be changed here.");
  }
  absl::string_view target = words[1].substr(0, words[1].find('#'));
  const size_t question = target.find('?');
  parsed->request.path = PercentDecoded(target.substr(0, question), /*is_query=*/false);
  if (question == absl::string_view::npos) return std::nullopt;
  for (const absl::string_view pair : absl::StrSplit(target.substr(question + 1), '&', absl::SkipEmpty())) {
    const size_t equals = pair.find('=');
    const absl::string_view value = equals == absl::string_view::npos ? "" : pair.substr(equals + 1);
    parsed->request.parameters.emplace(PercentDecoded(pair.substr(0, equals), /*is_query=*/true),
                                       PercentDecoded(value, /*is_query=*/true));
  }
  return std::nullopt;
}

// One thread reads and writes all connections, others compute answers: a client that is slow occupies none of them.
class PollingServer : public HttpServer {
 public:
  PollingServer(HttpHandler handler, const HttpLimits& limits) : handler_(std::move(handler)), limits_(limits) {}

  ~PollingServer() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    has_work_.NotifyAll();
    for (std::thread& thread : handlers_) thread.join();
    Wake();
    if (thread_.joinable()) thread_.join();
    for (const auto& connection : connections_) close(connection->fd);
    if (listener_ >= 0) close(listener_);
    if (wake_ >= 0) close(wake_);
  }

  absl::Status Listen(int port) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int yes = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, kHttpHost, &address.sin_addr);
    socklen_t size = sizeof(address);
    if (listener_ < 0 || wake_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listener_, 128) != 0 || getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      return FailedPrecondition("the port ", port, " of ", kHttpHost, " cannot be taken; port 0 takes a free one");
    }
    port_ = ntohs(address.sin_port);
    for (int i = 0; i < kHandlers; ++i) handlers_.emplace_back([this] { Handle(); });
    thread_ = std::thread([this] { Loop(); });
    pthread_setname_np(thread_.native_handle(), "vf-http");
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  enum class Step { kHead, kAnswer, kWrite, kLinger };
  struct Connection {
    int fd = -1;
    Step step = Step::kHead;
    int64_t due_us = 0;  // of its step
    std::string head;
    ParsedRequest parsed;
    std::string out;  // not yet written; by the thread of the loop, from kWrite on
    size_t written = 0;
  };

  static int64_t Now() { return Clock::Real().MonotonicMicros(); }
  void Wake() const {
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof(one));
  }

  void Handle() {
    MutexLock lock(mutex_);
    while (true) {
      has_work_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return stopping_ || !work_.empty(); });
      if (stopping_) return;
      const std::shared_ptr<Connection> connection = work_.front();
      work_.pop_front();
      lock.Unlock();
      std::string out = Serialize(handler_(connection->parsed.request), connection->parsed.method == "GET");
      lock.Lock();
      connection->out = std::move(out);
      answered_.push_back(connection);
      Wake();
    }
  }

  void BeginWrite(Connection& connection, const HttpAnswer& answer) {
    connection.out = Serialize(answer, /*with_body=*/true);
    connection.step = Step::kWrite;
    connection.due_us = Now() + limits_.write_us;
  }

  // False when the connection is to be closed.
  bool Read(const std::shared_ptr<Connection>& connection) {
    char bytes[4096];
    const ssize_t count = recv(connection->fd, bytes, sizeof(bytes), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (count <= 0) return false;
    if (connection->step != Step::kHead) return true;  // a body, or what follows: not read
    connection->head.append(bytes, count);
    const size_t end = connection->head.find("\r\n\r\n");
    if (end == std::string::npos) {
      if (connection->head.size() > kHeadBytesMax)
        BeginWrite(*connection, PlainAnswer(431, "The request is too long."));
      return true;
    }
    const std::optional<HttpAnswer> refused =
        ParseHead(absl::string_view(connection->head).substr(0, end), port_, &connection->parsed);
    if (refused.has_value()) {
      BeginWrite(*connection, *refused);
      return true;
    }
    MutexLock lock(mutex_);
    if (std::ssize(work_) >= limits_.waiting_max || pending_bytes_ > limits_.pending_bytes_max) {
      BeginWrite(*connection, PlainAnswer(503, "Too many requests at a time; try again later."));
      return true;
    }
    connection->step = Step::kAnswer;
    connection->due_us = INT64_MAX;
    work_.push_back(connection);
    has_work_.NotifyOne();
    return true;
  }

  bool Write(Connection& connection) const {
    while (connection.written < connection.out.size()) {
      const ssize_t count = send(connection.fd, connection.out.data() + connection.written,
                                 connection.out.size() - connection.written, MSG_NOSIGNAL);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (count <= 0) return false;
      connection.written += count;
    }
    std::string().swap(connection.out);
    connection.written = 0;
    connection.step = Step::kLinger;
    connection.due_us = Now() + kLingerUs;
    return shutdown(connection.fd, SHUT_WR) == 0;
  }

  void Accept() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) {
        // Without descriptors: those that wait here are given up, then it is tried again.
        if (errno == EMFILE || errno == ENFILE) CloseOldest();
        return;
      }
      if (std::ssize(connections_) >= limits_.connections_max) CloseOldest();
      auto connection = std::make_shared<Connection>();
      connection->fd = fd;
      connection->due_us = Now() + limits_.head_us;
      connections_.push_back(std::move(connection));
    }
  }

  // That is not being answered.
  void CloseOldest() {
    const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                     [](const auto& connection) { return connection->step != Step::kAnswer; });
    if (oldest == connections_.end()) return;
    close((*oldest)->fd);
    connections_.erase(oldest);
  }

  void Loop() {
    std::vector<pollfd> polled;
    std::vector<std::shared_ptr<Connection>> order;
    while (true) {
      uint64_t count = 0;
      (void)!read(wake_, &count, sizeof(count));
      {
        MutexLock lock(mutex_);
        if (stopping_) return;
        for (const auto& connection : answered_) {
          connection->step = Step::kWrite;
          connection->due_us = Now() + limits_.write_us;
        }
        answered_.clear();
        pending_bytes_ = 0;
        for (const auto& connection : connections_) {
          if (connection->step == Step::kWrite) pending_bytes_ += std::ssize(connection->out) - connection->written;
        }
      }
      polled = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
      order.assign(connections_.begin(), connections_.end());
      for (const auto& connection : order) {
        const short events = connection->step == Step::kAnswer  ? 0
                             : connection->step == Step::kWrite ? POLLOUT
                                                                : POLLIN;
        polled.push_back({connection->fd, events, 0});
      }
      poll(polled.data(), polled.size(), kPollMs);
      const int64_t now_us = Now();
      for (size_t i = 0; i < order.size(); ++i) {
        const std::shared_ptr<Connection>& connection = order[i];
        bool stays = true;
        if (connection->step == Step::kAnswer) continue;
        if ((polled[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && connection->step != Step::kWrite) {
          stays = Read(connection);
        }
        if (stays && connection->step == Step::kWrite) stays = Write(*connection);
        if (stays && now_us < connection->due_us) continue;
        close(connection->fd);
        connections_.remove(connection);
      }
      if (polled[0].revents != 0) Accept();
    }
  }

  const HttpHandler handler_;
  const HttpLimits limits_;
  int listener_ = -1, wake_ = -1, port_ = 0;
  std::list<std::shared_ptr<Connection>> connections_;  // of the loop; oldest first
  int64_t pending_bytes_ = 0;
  Mutex mutex_;
  CondVar has_work_;
  std::deque<std::shared_ptr<Connection>> work_ VF_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Connection>> answered_ VF_GUARDED_BY(mutex_);
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> handlers_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(int port, HttpHandler handler, const HttpLimits& limits) {
  auto server = std::make_unique<PollingServer>(std::move(handler), limits);
  const absl::Status listening = server->Listen(port);
  if (!listening.ok()) return listening;
  return server;
}

}  // namespace varifocal
