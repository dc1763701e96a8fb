// Limits of the listener per client and in total: connections, streams, headers, memory. docs/network.md has the table.
//
// Threads: call once, while the server is built.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace grpc {
class ServerBuilder;
}

namespace varifocal {

inline constexpr int kStreamsPerConnectionMax = 1000;
inline constexpr int kHeaderBytesMax = 16 << 10;                 // all header fields of a call
inline constexpr size_t kTransportBytesMax = size_t{512} << 20;  // of gRPC's own buffers, all connections together

// After which a connection is closed, in milliseconds. Tests use smaller ones.
struct ConnectionTimeouts {
  int handshake_ms = 20'000;         // from the connection to the client's settings
  int idle_ms = 15 * 60'000;         // without a call
  int keepalive_ms = 60'000;         // without traffic, until a ping is sent ..
  int keepalive_answer_ms = 20'000;  // .. and from that to its answer
};

// Connections of the listener: each needs three descriptors, and some are left for the database, models and logs.
inline constexpr int kConnectionsMax = 4096;
int ConnectionsMax();

// RESOURCE_EXHAUSTED unless this process can have that many threads more at the moment: they are made, and end. Libraries abort
// or wait endlessly where a thread cannot be made.
absl::Status CheckThreadsAreLeft(int count);

void SetTransportLimits(grpc::ServerBuilder& builder, const ConnectionTimeouts& timeouts);

// Raises the soft limit of open descriptors to the hard one and returns it. gRPC 1.51 permanently stops accepting after
// running out of descriptors once (CVE-2023-4785).
absl::StatusOr<uint64_t> RaiseDescriptorLimit();

}  // namespace varifocal
