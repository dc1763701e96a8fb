// Addresses of workers, what they resolve to, and their channels.
//
// Errors:  INVALID_ARGUMENT naming the address that is none.
// Threads: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "wire/channel.h"

namespace varifocal {

// Of "a:1,b:2" without blanks.
absl::StatusOr<std::vector<std::string>> ParseWorkerAddresses(const std::string& text);
absl::Status CheckWorkerAddresses(const std::vector<std::string>& addresses);

// Every numeric address of a HOST:PORT, "unix:PATH" as it is; empty when the name cannot be resolved now. Blocks.
std::vector<std::string> ResolveWorker(const std::string& address);

// To the resolved `address` of the worker that was given as `name`. A token in `secrets` comes with certificates.
std::shared_ptr<grpc::Channel> MakeWorkerChannel(const std::string& address, const std::string& name,
                                                 const ChannelSecrets& secrets);

}  // namespace varifocal
