// Admission control: bounds the active calls and the bytes of their requests, per peer and in total.
//
// A ticket is held from the arrival of a call to its end. The limits are those of server/rpc/limits.h, except in tests.
//
// Errors:  RESOURCE_EXHAUSTED (TOO_MANY_CALLS) with the value and the limit.
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/rpc/limits.h"

namespace varifocal {

// "ipv4:127.0.0.1:40312" -> "ipv4:127.0.0.1": connections of one address are one peer.
std::string PeerAddress(absl::string_view peer);

class Admission {
 public:
  struct Limits {
    int64_t calls = kAdmittedCallsMax;
    int64_t bytes = kAdmittedBytesMax;
    int64_t calls_of_peer = kAdmittedCallsOfPeerMax;
    int64_t bytes_of_peer = kAdmittedBytesOfPeerMax;
  };
  using Ticket = std::shared_ptr<void>;  // the last copy releases its share; must not outlive the Admission

  Admission() : Admission(Limits()) {}
  explicit Admission(const Limits& limits) : limits_(limits) {}

  absl::StatusOr<Ticket> Admit(const std::string& peer, int64_t byte_count);
  // More bytes for a call that has a ticket: those of a response whose size the caller chooses.
  absl::StatusOr<Ticket> AdmitMore(const std::string& peer, int64_t byte_count);

  struct Use {
    int64_t calls = 0;
    int64_t bytes = 0;
  };
  Use Active() const;  // of all peers

 private:
  absl::StatusOr<Ticket> Take(const std::string& peer, const Use& more);
  void Release(const std::string& peer, const Use& use);

  const Limits limits_;
  mutable Mutex mutex_;
  Use all_ VF_GUARDED_BY(mutex_);
  std::map<std::string, Use> peers_ VF_GUARDED_BY(mutex_);  // peers with active calls
};

}  // namespace varifocal
