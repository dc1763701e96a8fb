// Limits of calls at limit - 1, limit and limit + 1, on a running server with fake engines; server/limits_test.cc names the
// tests of other limits.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "eval_tasks/attention_inspection.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/engine/request_check.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/limits.h"
#include "server/server_limits.h"
#include "tests/fakes/server_fixture.h"
#include "tests/support/connected_channel.h"

namespace varifocal {
namespace {

class LimitsBoundaryTest : public ServerTest {
 protected:
  // Around a limit: one below, at it, one above.
  template <typename Call>
  static void ExpectLimit(int64_t limit, grpc::StatusCode above, const Call& call) {
    for (const int64_t value : {limit - 1, limit, limit + 1}) {
      const grpc::Status status = call(value);
      EXPECT_EQ(status.error_code(), value > limit ? above : grpc::OK) << value << ": " << status.error_message();
    }
  }

  grpc::Status Tokenize(const std::string& text, const std::string& filler = "") {
    v1::TokenizeRequest request;
    request.set_model("models/a");
    request.set_text(text);
    v1::TokenizeResponse response;
    grpc::ClientContext context;
    if (!filler.empty()) context.AddMetadata("x-filler", filler);
    return inference_->Tokenize(&context, request, &response);
  }
};

// The model of this test has no tokenizer, which is reported after the message was read.
TEST_F(LimitsBoundaryTest, BytesOfAMessage) {
  v1::TokenizeRequest request;
  request.set_model("models/bare");
  request.set_text(std::string(1 << 20, 'x'));
  const int64_t overhead = request.ByteSizeLong() - (1 << 20) + 1;  // the length has a byte more
  for (const int64_t bytes :
       {int64_t{kMessageBytesMax} - 1, int64_t{kMessageBytesMax}, int64_t{kMessageBytesMax} + 1}) {
    request.set_text(std::string(bytes - overhead, 'x'));
    ASSERT_EQ(static_cast<int64_t>(request.ByteSizeLong()), bytes);
    const grpc::Status status = Ask(*inference_, &v1::Inference::Stub::Tokenize, request);
    EXPECT_EQ(status.error_code(), bytes > kMessageBytesMax ? grpc::RESOURCE_EXHAUSTED : grpc::FAILED_PRECONDITION)
        << bytes << ": " << status.error_message();
  }
}

TEST_F(LimitsBoundaryTest, BytesOfATextToTokenize) {
  const int64_t limit = kTokenizeBytesMax;
  ExpectLimit(limit, grpc::INVALID_ARGUMENT, [&](int64_t bytes) { return Tokenize(std::string(bytes, ' ')); });
}

// Id 0 is special in the tokenizer of the fake models, and left out of the text.
TEST_F(LimitsBoundaryTest, IdsToDetokenize) {
  ExpectLimit(kDetokenizeIdsMax, grpc::INVALID_ARGUMENT, [&](int64_t count) {
    v1::DetokenizeRequest request;
    request.set_model("models/a");
    request.mutable_token_ids()->Resize(count, 0);
    v1::DetokenizeResponse response;
    const grpc::Status status = Ask(*inference_, &v1::Inference::Stub::Detokenize, request, &response);
    EXPECT_EQ(response.text(), "") << count;
    return status;
  });
}

// What gRPC counts for a field is its name, its value and 32 bytes (RFC 7541, 4.1), and a call has a few fields of its
// own. So the largest field that passes is searched for, and must be a little smaller than the limit.
TEST_F(LimitsBoundaryTest, BytesOfAHeader) {
  // gRPC ends the connection of a refused header: a call that is sent before the client has noticed is UNAVAILABLE.
  const auto call = [&](int64_t bytes) {
    grpc::Status status;
    do {
      status = Tokenize("x", std::string(bytes, 'y'));
    } while (status.error_code() == grpc::UNAVAILABLE);
    return status;
  };
  int64_t passes = 0, fails = 2 * kHeaderBytesMax;
  while (fails - passes > 1) {
    const int64_t bytes = (passes + fails) / 2;
    const grpc::Status status = call(bytes);
    ASSERT_TRUE(status.ok() || status.error_code() == grpc::RESOURCE_EXHAUSTED) << status.error_message();
    (status.ok() ? passes : fails) = bytes;
  }
  EXPECT_LT(passes, kHeaderBytesMax);
  EXPECT_GT(passes, kHeaderBytesMax - 1024);
  EXPECT_TRUE(call(0).ok()) << "later calls are answered";
}

// Those of one connection are refused above its limit; with all of them in use, the connection with the most loses its oldest.
TEST_F(LimitsBoundaryTest, HealthWatches) {
  using grpc::health::v1::HealthCheckRequest;
  using grpc::health::v1::HealthCheckResponse;
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
  };
  std::vector<std::unique_ptr<grpc::health::v1::Health::Stub>> stubs;
  std::vector<std::unique_ptr<Watch>> watches;
  const auto watch = [&](size_t connection) {
    while (stubs.size() <= connection)
      stubs.push_back(grpc::health::v1::Health::NewStub(ConnectedChannel(server_->address())));
    Watch& made = *watches.emplace_back(std::make_unique<Watch>());
    made.reader = stubs[connection]->Watch(&made.context, HealthCheckRequest());
    HealthCheckResponse message;
    const bool is_read = made.reader->Read(&message);
    EXPECT_TRUE(!is_read || message.status() == HealthCheckResponse::SERVING);
    return is_read;
  };
  for (size_t i = 0; i < kHealthWatchesOfConnectionMax; ++i) ASSERT_TRUE(watch(0)) << i;
  EXPECT_FALSE(watch(0));
  EXPECT_EQ(watches.back()->reader->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
  watches.pop_back();
  for (size_t i = kHealthWatchesOfConnectionMax; i < kHealthWatchesMax; ++i)
    ASSERT_TRUE(watch(1 + i / (kHealthWatchesOfConnectionMax - 1))) << i;
  ASSERT_TRUE(watch(100)) << "a newcomer";
  const grpc::Status ended = watches[0]->reader->Finish();
  EXPECT_EQ(ended.error_code(), grpc::RESOURCE_EXHAUSTED) << ended.error_message();
  // All of them receive a change.
  ASSERT_TRUE(inference_ != nullptr);
  server_->Shutdown(std::chrono::milliseconds(0));
  HealthCheckResponse message;
  ASSERT_TRUE(watches.back()->reader->Read(&message));
  EXPECT_EQ(message.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(watches.back()->reader->Finish().error_code(), grpc::UNAVAILABLE);
  for (const auto& each : watches) each->context.TryCancel();
}

TEST_F(LimitsBoundaryTest, Watches) {
  control_->Hold();
  const v1::Job submitted = Submitted(SmallJob());
  const auto request = Named<v1::WatchJobRequest>(submitted.name());
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>> reader;
  };
  // A connection each for 500: one has 1,000 streams.
  std::vector<std::unique_ptr<v1::Evaluation::Stub>> stubs;
  std::vector<std::unique_ptr<Watch>> watches;
  for (size_t i = 0; i < kWatchesMax; ++i) {
    if (i % 500 == 0) stubs.push_back(v1::Evaluation::NewStub(ConnectedChannel(server_->address())));
    Watch& watch = *watches.emplace_back(std::make_unique<Watch>());
    watch.reader = stubs.back()->WatchJob(&watch.context, request);
    v1::WatchJobResponse message;
    ASSERT_TRUE(watch.reader->Read(&message)) << i;
  }
  const auto one_more = [&] {
    grpc::ClientContext context;
    const auto reader = evaluation_->WatchJob(&context, request);
    v1::WatchJobResponse message;
    if (reader->Read(&message)) context.TryCancel();
    return reader->Finish();
  };
  const grpc::Status refused = one_more();
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(refused), "TOO_MANY_CALLS");
  watches.back()->context.TryCancel();
  EXPECT_FALSE(watches.back()->reader->Finish().ok());
  grpc::Status status;
  do {
    status = one_more();
  } while (status.error_code() == grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_code(), grpc::CANCELLED) << "a place is free again";
  for (const auto& watch : watches) watch->context.TryCancel();
  control_->Release();
}

TEST_F(LimitsBoundaryTest, BytesOfADescription) {
  ExpectLimit(kDescriptionBytesMax, grpc::INVALID_ARGUMENT, [&](int64_t bytes) {
    v1::SubmitJobRequest request = SmallJob();
    request.mutable_spec()->mutable_suite()->set_description(std::string(bytes, 'd'));
    v1::SubmitJobResponse response;
    return Submit(request, &response);
  });
}

TEST_F(LimitsBoundaryTest, BytesOfARequestId) {
  ExpectLimit(kRequestIdBytesMax, grpc::INVALID_ARGUMENT, [&](int64_t bytes) {
    v1::SubmitJobRequest request = SmallJob();
    request.set_request_id(std::string(bytes, static_cast<char>('a' + bytes % 26)));
    v1::SubmitJobResponse response;
    return Submit(request, &response);
  });
  ExpectLimit(kRequestIdBytesMax, grpc::INVALID_ARGUMENT, [&](int64_t bytes) {
    v1::SubmitJobRequest request = SmallJob();
    request.set_validate_only(true);
    request.set_request_id(std::string(bytes, 'a'));
    v1::SubmitJobResponse response;
    return Submit(request, &response);
  });
}

TEST_F(LimitsBoundaryTest, StopStrings) {
  ExpectLimit(kStopsMax, grpc::INVALID_ARGUMENT, [&](int64_t count) {
    v1::GenerateRequest request = SmallGenerate();
    for (int64_t i = 0; i < count; ++i) request.mutable_decode_settings()->add_stop(absl::StrCat("stop", i));
    return Generate(request);
  });
}

TEST_F(LimitsBoundaryTest, Continuations) {
  ExpectLimit(kContinuationsMax, grpc::INVALID_ARGUMENT, [&](int64_t count) {
    v1::ComputeLogLikelihoodsRequest request;
    request.set_model("models/a");
    request.set_prompt_text("Find the key");
    for (int64_t i = 0; i < count; ++i) request.add_continuations()->set_text(absl::StrCat(" ", i));
    return Ask(*inference_, &v1::Inference::Stub::ComputeLogLikelihoods, request);
  });
}

// The largest reply passes the limit of a message.
TEST_F(LimitsBoundaryTest, SharesOfAnInspection) {
  v1::GenerateRequest request;
  request.set_model("models/a");
  request.set_max_new_tokens(1);
  for (int i = 0; i < 4000; ++i) request.mutable_prompt_token_ids()->add_ids(2047);
  ASSERT_EQ(kInspectedMassesMax % kFakeHeadCount, 0);
  ExpectLimit(kInspectedMassesMax / kFakeHeadCount, grpc::INVALID_ARGUMENT, [&](int64_t segments) {
    request.clear_attention_inspection();
    for (int64_t i = 0; i <= segments; ++i) request.mutable_attention_inspection()->add_boundaries(i);
    return Generate(request);
  });
}

TEST_F(LimitsBoundaryTest, RowsOfAnInspection) {
  v1::GenerateRequest request;
  request.set_model("models/a");
  request.set_max_new_tokens(1);
  for (int i = 0; i < 100; ++i) request.mutable_prompt_token_ids()->add_ids(5);
  request.mutable_attention_inspection()->add_boundaries(0);
  request.mutable_attention_inspection()->add_boundaries(100);
  ExpectLimit(kInspectedRowsMax, grpc::INVALID_ARGUMENT, [&](int64_t rows) {
    request.mutable_attention_inspection()->set_row_count(rows);
    return Generate(request);
  });
}

}  // namespace
}  // namespace varifocal
