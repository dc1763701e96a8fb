// HTTP requests to a model server, with limits on time and size.
//
// A status of 400 and above is a reply, not an error: the caller knows which are worth another attempt. Redirects are
// not followed, so that an API key reaches the given host alone.
//
// Errors:  UNAVAILABLE (no connection), ABORTED (the reply broke off), DEADLINE_EXCEEDED (no connection, TLS connection or complete
//          reply in time), INVALID_ARGUMENT (a malformed URL, an unreadable CA file), FAILED_PRECONDITION (TLS: the
//          certificate is not accepted, or the server speaks no TLS), OUT_OF_RANGE (a reply above the limit), CANCELLED.
//          No message contains a header of the request.
// Threads: one object may send from several threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace varifocal {

struct HttpRequest {
  std::string url;
  std::string body;        // not empty: POST of JSON; empty: GET
  std::string bearer;      // not empty: sent as `Authorization: Bearer`
  std::string ca_file;     // PEM, in place of the system's authorities; empty: theirs
  int64_t timeout_ms = 0;  // of the whole exchange; above 0
  int64_t reply_bytes_max = 0;
};

struct HttpReply {
  int status = 0;
  std::string body;
  std::string server;       // header Server
  std::string retry_after;  // header Retry-After
  std::string location;     // header Location
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // Blocks. `is_cancelled` is polled about every 0.1 s.
  virtual absl::StatusOr<HttpReply> Send(const HttpRequest& request, const std::function<bool()>& is_cancelled) = 0;
};

// Over libcurl; null in a static build, which has none.
std::unique_ptr<HttpClient> MakeHttpClient();

}  // namespace varifocal
