// For programs that are linked statically: Debian has cpp-httplib as a shared library alone.
#include "base/http_server.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(int, HttpHandler) {
  return absl::UnimplementedError("this program is linked statically and has no HTTP server");
}

}  // namespace varifocal
