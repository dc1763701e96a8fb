// The limits of sampling settings: values at them pass, values beyond are refused with the value and the limit.
#include "base/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/reason.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

TEST(SamplingTest, LimitsAreNamed) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const Sampling& good : {Sampling{}, Sampling{.temperature = 2, .top_p = 1e-9, .top_k = 1, .min_p = 1},
                               Sampling{.top_k = std::numeric_limits<int32_t>::max()}}) {
    EXPECT_TRUE(CheckSampling(good).ok());
  }
  struct Case {
    Sampling sampling;
    const char* reason;
    const char* field;
    const char* value;
  };
  const Case cases[] = {
      {{.temperature = -0.5}, "BAD_SAMPLING_TEMPERATURE", "sampling_temperature", "-0.5"},
      {{.temperature = kNaN}, "BAD_SAMPLING_TEMPERATURE", "sampling_temperature", "nan"},
      {{.top_p = 0}, "BAD_TOP_P", "top_p", "0"},
      {{.top_p = 1.5}, "BAD_TOP_P", "top_p", "1.5"},
      {{.top_k = -1}, "BAD_TOP_K", "top_k", "-1"},
      {{.min_p = -0.1}, "BAD_MIN_P", "min_p", "-0.1"},
      {{.min_p = kNaN}, "BAD_MIN_P", "min_p", "nan"},
  };
  for (const Case& c : cases) {
    const absl::Status status = CheckSampling(c.sampling);
    ASSERT_FALSE(status.ok()) << c.field;
    EXPECT_EQ(ReasonOf(status).name, c.reason);
    EXPECT_EQ(FieldOf(status), c.field);
    EXPECT_THAT(status.message(), Message(c.field, c.value));
  }
}

}  // namespace
}  // namespace varifocal
