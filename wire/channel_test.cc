// Callbacks and the ends of their channels.
#include "wire/channel.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/generic/generic_stub.h"

namespace varifocal {
namespace {

// Without the kept threads gRPC frees the queue that its thread comes back to, and aborts when that memory is used again.
TEST(ChannelTest, ACallbackMayBeTheLastToHoldItsChannel) {
  KeepCallbackThreads();
  for (int i = 0; i < 200; ++i) {
    std::shared_ptr<grpc::Channel> channel = grpc::CreateChannel("", nullptr);
    auto context = std::make_unique<grpc::ClientContext>();  // holds the channel too
    const grpc::Slice nothing;
    grpc::ByteBuffer request(&nothing, 1), response;
    std::vector<std::string> reused;
    std::promise<void> is_alone, released;
    grpc::GenericStub(channel).UnaryCall(context.get(), "/", grpc::StubOptions(), &request, &response,
                                         [&](const grpc::Status&) {
                                           is_alone.get_future().wait();
                                           channel.reset();
                                           context.reset();
                                           for (size_t size = 16; size <= 1024; ++size) reused.emplace_back(size, '\0');
                                           released.set_value();
                                         });
    is_alone.set_value();
    released.get_future().wait();
  }
}

}  // namespace
}  // namespace varifocal
