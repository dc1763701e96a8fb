#include "server/rpc/admission.h"

#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

absl::Status CheckLimit(int64_t value, int64_t limit, absl::string_view what) {
  if (value <= limit) return absl::OkStatus();
  return WithReason(ResourceExhausted("with this call there would be ", value, " ", what,
                                      " active in this daemon, the limit is ", limit, "; try again later"),
                    ErrorReason::kTooManyCalls, {{"limit", absl::StrCat(limit)}});
}

}  // namespace

std::string PeerAddress(absl::string_view peer) {
  if (peer.substr(0, 3) != "ipv") return std::string(peer);  // a Unix socket, or this process
  return std::string(peer.substr(0, peer.rfind(':')));
}

absl::StatusOr<Admission::Ticket> Admission::Admit(const std::string& peer, int64_t byte_count) {
  return Take(peer, {.calls = 1, .bytes = byte_count});
}

absl::StatusOr<Admission::Ticket> Admission::AdmitMore(const std::string& peer, int64_t byte_count) {
  return Take(peer, {.calls = 0, .bytes = byte_count});
}

absl::StatusOr<Admission::Ticket> Admission::Take(const std::string& peer, const Use& more) {
  {
    MutexLock lock(mutex_);
    const auto known = peers_.find(peer);
    const Use of_peer = known == peers_.end() ? Use() : known->second;
    RETURN_IF_ERROR(CheckLimit(of_peer.calls + more.calls, limits_.calls_of_peer, absl::StrCat("calls of ", peer)));
    RETURN_IF_ERROR(CheckLimit(of_peer.bytes + more.bytes, limits_.bytes_of_peer, absl::StrCat("bytes of ", peer)));
    RETURN_IF_ERROR(CheckLimit(all_.calls + more.calls, limits_.calls, "calls"));
    RETURN_IF_ERROR(CheckLimit(all_.bytes + more.bytes, limits_.bytes, "bytes of requests"));
    Use& use = peers_[peer];
    use.calls += more.calls;
    use.bytes += more.bytes;
    all_.calls += more.calls;
    all_.bytes += more.bytes;
  }
  return Ticket(nullptr, [this, peer, more](void*) { Release(peer, more); });
}

Admission::Use Admission::Active() const {
  MutexLock lock(mutex_);
  return all_;
}

void Admission::Release(const std::string& peer, const Use& less) {
  MutexLock lock(mutex_);
  all_.calls -= less.calls;
  all_.bytes -= less.bytes;
  const auto use = peers_.find(peer);
  use->second.calls -= less.calls;
  use->second.bytes -= less.bytes;
  if (use->second.calls == 0 && use->second.bytes == 0) peers_.erase(use);
}

}  // namespace varifocal
