// Who is at the other end of a call: address and certificate of its connection.
//
// gRPC gets its connections as one end of a socket pair and calls the peer "fd:N". Its descriptor is open until the last call
// of the connection is destroyed, so the number is not reused while a call can ask for it.
//
// Threads: any.
#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace varifocal {

struct Caller {
  std::string address;      // "ipv4:10.0.0.7:40312", "ipv6:%5B::1%5D:40312", "unix:PATH"
  std::string certificate;  // common name; empty without one
};

class Callers {
 public:
  void Set(int fd, Caller caller);
  // Of a gRPC peer; one that is no "fd:N" is its own address.
  Caller Of(absl::string_view peer) const;

 private:
  mutable Mutex mutex_;
  std::map<int, Caller> callers_ VF_GUARDED_BY(mutex_);
};

}  // namespace varifocal
