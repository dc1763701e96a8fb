// The listening sockets of an address.
//
// A wildcard address of either family means both, as in gRPC; a name means all its addresses, which get the same
// port.
//
// Errors:  FAILED_PRECONDITION (ADDRESS_IN_USE, CANNOT_LISTEN), INVALID_ARGUMENT (BAD_LISTEN_ADDRESS).
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "server/front/listen_address.h"

namespace varifocal {

struct Listeners {
  std::vector<int> fds;  // non-blocking; the caller closes them
  int port = 0;          // that was bound; 0 of a Unix socket
};

absl::StatusOr<Listeners> OpenListeners(const ListenAddress& address);

}  // namespace varifocal
