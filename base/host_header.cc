#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/http_server.h"

namespace varifocal {

bool IsOwnHost(absl::string_view host, int port) {
  for (const char* name : {"localhost", "127.0.0.1", "[::1]"}) {
    if (absl::EqualsIgnoreCase(host, absl::StrCat(name, ":", port))) return true;
    if (port == 80 && absl::EqualsIgnoreCase(host, name)) return true;  // clients leave out the default port
  }
  return false;
}

}  // namespace varifocal
