// Reasons in statuses: attached ones are returned with their metadata, others are derived from the status code.
#include "base/reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status_macros.h"

namespace varifocal {
namespace {

TEST(ReasonTest, AttachedReasonIsReturned) {
  const absl::Status status =
      WithReason(absl::NotFoundError("no model \"x\""), ErrorReason::kModelNotFound, {{"model", "x"}});
  EXPECT_EQ(status.message(), "no model \"x\"");
  EXPECT_EQ(ReasonOf(status).name, "MODEL_NOT_FOUND");
  EXPECT_EQ(ReasonOf(status).metadata.at("model"), "x");
}

TEST(ReasonTest, LaterReasonReplacesEarlier) {
  const absl::Status status =
      WithReason(WithReason(absl::NotFoundError("gone"), ErrorReason::kQueueFull, {{"k", "1"}}), ErrorReason::kBadTopP);
  EXPECT_EQ(ReasonOf(status).name, "BAD_TOP_P");
  EXPECT_TRUE(ReasonOf(status).metadata.empty());
}

TEST(ReasonTest, CodeIsTheFallbackReason) {
  EXPECT_EQ(ReasonOf(absl::InvalidArgumentError("bad")).name, "INVALID_ARGUMENT");
  EXPECT_EQ(ReasonOf(absl::DataLossError("page 3 is damaged")).name, "DATA_LOSS");
}

TEST(ReasonTest, ValuesNeedNotBeUtf8) {
  const absl::Status status = WithReason(absl::NotFoundError("gone"), ErrorReason::kQueueFull, {{"k", "\xff"}});
  EXPECT_EQ(ReasonOf(status).metadata.at("k"), "\xEF\xBF\xBD");
}

TEST(ReasonTest, OkStaysOk) {
  EXPECT_TRUE(WithReason(absl::OkStatus(), ErrorReason::kQueueFull).ok());
  EXPECT_TRUE(WithField(absl::OkStatus(), "top_p").ok());
  EXPECT_FALSE(HasReason(absl::OkStatus(), ErrorReason::kQueueFull));
}

TEST(ReasonTest, AnAnnotationKeepsIt) {
  const absl::Status status = Annotate(
      WithReason(absl::InvalidArgumentError("top_p is 2"), ErrorReason::kBadTopP, {{"field", "top_p"}}), "line 3");
  EXPECT_EQ(status.message(), "line 3: top_p is 2");
  EXPECT_TRUE(HasReason(status, ErrorReason::kBadTopP)) << status;
  EXPECT_EQ(ReasonOf(status).metadata["field"], "top_p");
}

TEST(ReasonTest, AnotherField) {
  const absl::Status status = WithField(
      WithReason(absl::InvalidArgumentError("top_p is 2"), ErrorReason::kBadTopP, {{"field", "top_p"}, {"k", "1"}}),
      "decode_settings.top_p");
  EXPECT_TRUE(HasReason(status, ErrorReason::kBadTopP));
  EXPECT_FALSE(HasReason(status, ErrorReason::kBadStop));
  EXPECT_EQ(ReasonOf(status).metadata.at("field"), "decode_settings.top_p");
  EXPECT_EQ(ReasonOf(status).metadata.at("k"), "1");
  EXPECT_EQ(status.message(), "top_p is 2");
}

// The list is sorted, so that duplicates are adjacent, and names fit google.rpc.ErrorInfo.
TEST(ReasonTest, TheListIsSortedAndWellFormed) {
  std::string previous;
#define VF_CHECK_NAME(name, text)                                                   \
  EXPECT_LT(previous, std::string(text));                                           \
  EXPECT_THAT(std::string(text), testing::MatchesRegex("[A-Z][A-Z0-9_]+[A-Z0-9]")); \
  EXPECT_LE(std::string(text).size(), 63u);                                         \
  EXPECT_EQ(ErrorReasonName(ErrorReason::name), text);                              \
  previous = text;
  VF_ERROR_REASONS(VF_CHECK_NAME)
#undef VF_CHECK_NAME
}

}  // namespace
}  // namespace varifocal
