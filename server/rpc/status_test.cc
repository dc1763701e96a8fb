// Error conversion: codes, messages, details, sizes. Method: every code, and adversarial messages and values.
#include "server/rpc/status.h"

#include <gtest/gtest.h>

#include "base/reason.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace varifocal {
namespace {

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

TEST(StatusTest, EveryCodeKeepsItsNumberAndSaysWhy) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
    const google::rpc::Status details = Details(status);
    EXPECT_EQ(details.code(), code);
    EXPECT_EQ(details.message(), "why");
    google::rpc::ErrorInfo info;
    ASSERT_EQ(details.details_size(), 1);
    ASSERT_TRUE(details.details(0).UnpackTo(&info));
    EXPECT_EQ(info.domain(), "varifocal.v1");
    EXPECT_EQ(info.reason(), absl::StatusCodeToString(static_cast<absl::StatusCode>(code)));
  }
}

TEST(StatusTest, ReasonAndFieldTravel) {
  const grpc::Status status = ToGrpcStatus(WithReason(
      absl::InvalidArgumentError("top_p 2 is not above 0 and at most 1"), ErrorReason::kBadTopP, {{"field", "top_p"}}));
  const google::rpc::Status details = Details(status);
  ASSERT_EQ(details.details_size(), 2);
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  ASSERT_TRUE(details.details(1).UnpackTo(&bad_request));
  EXPECT_EQ(info.reason(), "BAD_TOP_P");
  ASSERT_EQ(bad_request.field_violations_size(), 1);
  EXPECT_EQ(bad_request.field_violations(0).field(), "top_p");
  EXPECT_EQ(bad_request.field_violations(0).description(), "top_p 2 is not above 0 and at most 1");
}

TEST(StatusTest, HostileTextStaysSmallAndPrintable) {
  std::map<std::string, std::string> metadata;
  for (int i = 0; i < 100; ++i) metadata["k" + std::to_string(i)] = std::string(10'000, '\xff');
  const grpc::Status status =
      ToGrpcStatus(WithReason(absl::NotFoundError(std::string(100'000, '\x01')), ErrorReason::kQueueFull, metadata));
  EXPECT_LT(status.error_details().size() + status.error_message().size(), 8u * 1024);
  EXPECT_EQ(status.error_message()[0], '?');
}

}  // namespace
}  // namespace varifocal
