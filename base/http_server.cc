#include "base/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace varifocal {
namespace {

constexpr char kAddress[] = "127.0.0.1";
constexpr size_t kThreadCount = 4;

HttpAnswer PlainAnswer(int status, std::string sentence) {
  return {status, "text/plain; charset=utf-8", absl::StrCat(sentence, "\n"), "default-src 'none'"};
}

void Send(HttpAnswer answer, httplib::Response& response) {
  response.status = answer.status;
  response.set_header("Content-Security-Policy", answer.content_security_policy);
  response.set_header("Cache-Control", "no-store");
  response.set_header("Cross-Origin-Resource-Policy", "same-origin");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("X-Frame-Options", "DENY");
  response.set_content(std::move(answer.body), answer.content_type);
}

class CppHttplibServer : public HttpServer {
 public:
  explicit CppHttplibServer(HttpHandler handler) : handler_(std::move(handler)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreadCount); };
    // A second request on a connection would follow the unread body of the first.
    server_.set_keep_alive_max_count(1);
    // The library's own options let a second process share the port.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      Send(Answer(request, response), response);
      return httplib::Server::HandlerResponse::Handled;
    });
  }

  ~CppHttplibServer() override {
    if (!thread_.joinable()) return;
    server_.stop();
    thread_.join();
  }

  absl::Status Listen(int port) {
    const bool is_bound =
        port == 0 ? (port_ = server_.bind_to_any_port(kAddress)) > 0 : server_.bind_to_port(kAddress, port_ = port);
    if (!is_bound) {
      return absl::FailedPreconditionError(
          absl::StrCat("the port ", port, " of ", kAddress, " cannot be taken; port 0 takes a free one"));
    }
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  HttpAnswer Answer(const httplib::Request& request, httplib::Response& response) {
    const std::string host = request.get_header_value("Host");
    if (request.get_header_value_count("Host") != 1 || !IsOwnHost(host, port_)) {
      return PlainAnswer(403, absl::StrCat("This server answers to localhost:", port_, " alone."));
    }
    if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Allow", "GET, HEAD");
      return PlainAnswer(405, "Pages are read with GET or HEAD; nothing can be changed here.");
    }
    HttpRequest converted{.path = request.path, .parameters = {}};
    for (const auto& [name, value] : request.params) converted.parameters.emplace(name, value);
    return handler_(converted);
  }

  HttpHandler handler_;
  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(int port, HttpHandler handler) {
  auto server = std::make_unique<CppHttplibServer>(std::move(handler));
  const absl::Status listening = server->Listen(port);
  if (!listening.ok()) return listening;
  return server;
}

}  // namespace varifocal
