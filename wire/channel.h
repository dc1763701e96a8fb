// Channels to daemons, as the client and a coordinator open them.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"

namespace varifocal {

// Contents of PEM files and a token; all empty: a plain connection. A token needs `root_certificates`: it is sent over TLS
// only.
struct ChannelSecrets {
  std::string root_certificates;
  std::string certificate, key;  // of the client
  std::string token;             // sent with every call
};

std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const ChannelSecrets& secrets);

// Message sizes of the protocol; proxy settings of the environment are ignored, as a daemon is usually near.
grpc::ChannelArguments MakeChannelArguments(int message_bytes_max);

}  // namespace varifocal
