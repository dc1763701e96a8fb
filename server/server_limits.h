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
inline constexpr int kHeaderBytesMax = 16 << 10;  // all header fields of a call
inline constexpr int kHandshakeSeconds = 20;      // from the connection to the client's settings
inline constexpr int kIdleSeconds = 15 * 60;      // a connection without a call is closed
inline constexpr int kKeepaliveSeconds = 60;      // a connection that does not answer a ping for 20 more is closed
inline constexpr int kKeepaliveTimeoutSeconds = 20;
inline constexpr size_t kTransportBytesMax = size_t{512} << 20;  // of gRPC's own buffers, all connections together

void SetTransportLimits(grpc::ServerBuilder& builder);

// Raises the soft limit of open descriptors to the hard one and returns it. gRPC 1.51 permanently stops accepting after
// running out of descriptors once (CVE-2023-4785).
absl::StatusOr<uint64_t> RaiseDescriptorLimit();

}  // namespace varifocal
