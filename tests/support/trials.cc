#include "tests/support/trials.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "gtest/gtest.h"

namespace varifocal {
inline namespace testing_support {
namespace {

std::string Environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

int FailureCount() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  VF_CHECK(test != nullptr, "trials belong to a test");
  int count = 0;
  for (int i = 0; i < test->result()->total_part_count(); ++i) count += test->result()->GetTestPartResult(i).failed();
  return count;
}

}  // namespace

std::string SeedOf(absl::string_view name) {
  return absl::StrCat(name, ", seed ", Environment("VARIFOCAL_FAULT_SEED", "1"));
}

bool IsFullSize() { return Environment("VARIFOCAL_FAULT_SIZE", "quick") == "full"; }

Trials::Trials(std::string unit, Size size) : unit_(std::move(unit)), failure_count_(FailureCount()) {
  const std::string wanted = Environment("VARIFOCAL_FAULT_SIZE", "quick");
  if (wanted == "quick" || wanted == "full") {
    wanted_count_ = wanted == "quick" ? size.quick : size.full;
  } else {
    VF_CHECK(absl::SimpleAtoi(wanted, &wanted_count_) && wanted_count_ > 0,
             "VARIFOCAL_FAULT_SIZE is quick, full, or a number");
  }
  last_ = wanted_count_ - 1;
  const std::string one = Environment("VARIFOCAL_FAULT_TRIAL", "");
  if (one.empty()) return;
  VF_CHECK(absl::SimpleAtoi(one, &last_) && last_ >= 0, "VARIFOCAL_FAULT_TRIAL is the index of a trial");
  index_ = last_ - 1;
}

Trials::~Trials() {
  if (in_trial_) End();  // a fatal failure left the loop
  absl::PrintF("[trials] %d %s, %d violations, seed %s\n", count_, unit_, violation_count_,
               Environment("VARIFOCAL_FAULT_SEED", "1"));
  std::fflush(stdout);
}

void Trials::End() {
  ++count_;
  const int failure_count = FailureCount();
  if (failure_count == failure_count_) return;
  failure_count_ = failure_count;
  if (++violation_count_ <= 10) absl::PrintF("[violation] trial %d of the %s\n", std::max<int64_t>(0, index_), unit_);
}

bool Trials::Next() {
  if (in_trial_) End();
  in_trial_ = index_ < last_;
  index_ += in_trial_;
  return in_trial_;
}

void Trials::Count() {
  ++index_;
  End();
}

Random Trials::MakeRandom() const { return Random(SeedOf(absl::StrCat(unit_, ", trial ", index_))); }

void PrintQuantiles(const std::string& what, const std::string& unit, std::vector<double> values) {
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) { return values[static_cast<size_t>(share * (values.size() - 1))]; };
  PrintMeasured(absl::StrFormat("%s: p50 %.1f, p99 %.1f, max %.1f %s of %d", what, at(0.5), at(0.99), values.back(),
                                unit, values.size()));
}

void PrintMeasured(const std::string& text) {
  absl::PrintF("[measured] %s\n", text);
  std::fflush(stdout);
}

}  // namespace testing_support
}  // namespace varifocal
