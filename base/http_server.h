// HTTP/1.1 on 127.0.0.1, for pages that only read: GET and HEAD, one request a connection, bodies of requests are not read.
//
// A page of another site that a browser has open must not read these: a request whose Host is not this server's own
// loopback name and port is refused (DNS rebinding), no answer allows another origin, and none may be framed.
//
// One thread reads and writes all connections, so that slow clients delay no other.
//
// Errors:  FAILED_PRECONDITION when the port cannot be taken.
// Threads: the handler is called by several at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal {

struct HttpRequest {
  std::string path;                               // decoded, without the query
  std::map<std::string, std::string> parameters;  // of the query, decoded
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/html; charset=utf-8";
  std::string body;
  std::string content_security_policy;
};

using HttpHandler = std::function<HttpAnswer(const HttpRequest&)>;

// "localhost", "127.0.0.1" or "[::1]" with this port, in any case of letters.
bool IsOwnHost(absl::string_view host, int port);

// Bounds on clients that are slow or many; when one is reached, the connection that has waited longest is closed.
struct HttpLimits {
  int64_t head_us = 2'000'000;    // from the connection to the end of the request's head
  int64_t write_us = 30'000'000;  // to take the answer
  int connections_max = 256;
  int waiting_max = 64;                     // requests that wait for an answer; further ones are answered 503
  int64_t pending_bytes_max = 256ll << 20;  // of answers that their clients have not taken; the same
};

class HttpServer {
 public:
  // Serves from here on; port 0 takes a free one.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(int port, HttpHandler handler,
                                                           const HttpLimits& limits = HttpLimits());
  virtual ~HttpServer() = default;  // finishes requests in progress

  virtual int port() const = 0;
};

}  // namespace varifocal
