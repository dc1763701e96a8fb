#include "base/exceptions.h"

#include <cstddef>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

TEST(ExceptionsTest, BecomeStatuses) {
  const auto of = [](auto exception) {
    return CatchExceptions("reading", [&]() -> absl::Status { throw exception; }).ToString();
  };
  EXPECT_EQ(of(std::bad_alloc()), "RESOURCE_EXHAUSTED: reading: out of memory");
  EXPECT_EQ(of(std::length_error("x")), "RESOURCE_EXHAUSTED: reading: size too large (x)");
  EXPECT_EQ(of(std::runtime_error("x")), "INTERNAL: reading: x");
  EXPECT_EQ(of(1), "INTERNAL: reading: an unknown exception");
}

TEST(ExceptionsTest, ResultsPassThrough) {
  EXPECT_EQ(*CatchExceptions("reading", [] { return absl::StatusOr<std::string>("text"); }), "text");
  EXPECT_EQ(CatchExceptions("reading", [] { return absl::NotFoundError("no"); }).message(), "no");
}

// A size that the library rejects before allocating: sanitizers abort on an allocation that large.
TEST(ExceptionsTest, AnImpossibleSizeFails) {
  volatile size_t bytes = std::numeric_limits<size_t>::max();
  const absl::StatusOr<size_t> size =
      CatchExceptions("growing", [&]() -> absl::StatusOr<size_t> { return std::vector<char>(bytes).size(); });
  EXPECT_EQ(size.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace varifocal
