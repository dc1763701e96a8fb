// A channel to a server of this test with a connection of its own, which is there before the first call.
//
// Channels to one address share a connection otherwise, also one whose server has ended since.
//
// gRPC 1.51 reads errno only after other calls have followed connect() (tcp_client_posix.cc), so an attempt may fail for no
// reason; a call that does not wait for a connection is then UNAVAILABLE, and the next attempt succeeds.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

namespace varifocal {
inline namespace testing_support {

// The test fails if nothing answers at `address` within a minute.
inline std::shared_ptr<grpc::Channel> ConnectedChannel(
    const std::string& address, grpc::ChannelArguments arguments = {},
    const std::shared_ptr<grpc::ChannelCredentials>& credentials = grpc::InsecureChannelCredentials()) {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(address, credentials, arguments);
  EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(1))) << address;
  return channel;
}

}  // namespace testing_support
}  // namespace varifocal
