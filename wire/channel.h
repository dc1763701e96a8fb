// Channels to daemons, as the client and a coordinator open them.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace varifocal {

// Addresses are "HOST:PORT" or "unix:PATH". INVALID_ARGUMENT for any other, without its name: "must be HOST:PORT with ..".
absl::Status CheckAddress(const std::string& address);
bool IsUnixAddress(const std::string& address);
// Whether what is sent to it stays on this machine.
bool IsLocalAddress(const std::string& address);

// Contents of PEM files and a token. Without `root_certificates` the connection is plain, and a token is sent to a local
// address only.
struct ChannelSecrets {
  std::string root_certificates;
  std::string certificate, key;  // of the client
  std::string token;             // sent with every call
};

// INVALID_ARGUMENT for a token that would leave this machine without TLS.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const std::string& address,
                                                                                 const ChannelSecrets& secrets);

// Message sizes of the protocol; proxy settings of the environment are ignored, as a daemon is usually near.
grpc::ChannelArguments MakeChannelArguments(int message_bytes_max);

// Before the first call with a callback. gRPC 1.51 ends its threads of callbacks with the last channel that made such a call, and aborts
// when that channel is let go by one of them; this keeps them until the process ends.
void KeepCallbackThreads();

}  // namespace varifocal
