// For programs that are linked statically: Debian has cpp-httplib as a shared library alone.
#include "client/dashboard/http_server.h"

namespace varifocal::client {

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(int, HttpHandler) {
  return absl::UnimplementedError(
      "this program is linked statically and has no HTTP server; varifocal report writes pages");
}

}  // namespace varifocal::client
