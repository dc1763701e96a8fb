// Reasons inside statuses: attached ones come back with their metadata, others follow from the code. Method: by hand.
#include "server/jobs/reason.h"

#include <gtest/gtest.h>

namespace varifocal {
namespace {

TEST(ReasonTest, AttachedReasonComesBack) {
  const absl::Status status = WithReason(absl::NotFoundError("no model \"x\""), "MODEL_NOT_FOUND", {{"model", "x"}});
  EXPECT_EQ(status.message(), "no model \"x\"");
  EXPECT_EQ(ReasonOf(status).name, "MODEL_NOT_FOUND");
  EXPECT_EQ(ReasonOf(status).metadata.at("model"), "x");
}

TEST(ReasonTest, LaterReasonReplacesEarlier) {
  const absl::Status status = WithReason(WithReason(absl::NotFoundError("gone"), "A", {{"k", "1"}}), "B");
  EXPECT_EQ(ReasonOf(status).name, "B");
  EXPECT_TRUE(ReasonOf(status).metadata.empty());
}

TEST(ReasonTest, CodeIsTheReasonOfLastResort) {
  EXPECT_EQ(ReasonOf(absl::InvalidArgumentError("bad")).name, "INVALID_ARGUMENT");
  EXPECT_EQ(ReasonOf(absl::DataLossError("NUMERIC_ERROR: a logit is not finite")).name, "NUMERIC_ERROR");
  EXPECT_EQ(ReasonOf(absl::DataLossError("page 3 is damaged")).name, "DATA_LOSS");
}

TEST(ReasonTest, ValuesNeedNotBeUtf8) {
  const absl::Status status = WithReason(absl::NotFoundError("gone"), "A", {{"k", "\xff"}});
  EXPECT_EQ(ReasonOf(status).metadata.at("k"), "\xEF\xBF\xBD");
}

TEST(ReasonTest, OkStaysOk) { EXPECT_TRUE(WithReason(absl::OkStatus(), "A").ok()); }

}  // namespace
}  // namespace varifocal
