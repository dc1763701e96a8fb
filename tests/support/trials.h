// The trials of a fault driver: a GoogleTest case that repeats one fault many times at random places.
//
//   for (Trials trials("kills", {.quick = 30, .full = 1000}); trials.Next();) { .. EXPECT_..; }
//
// A trial is violated when a check fails during it. The destructor prints one line, which tests/faults/fault_table.cc
// reads: "[trials] 30 kills, 0 violations, seed 1".
//
// Environment: VARIFOCAL_FAULT_SIZE   quick (unset), full, or a number of trials
//              VARIFOCAL_FAULT_SEED   any text; 1 unless set. The same seed gives the same trials
//              VARIFOCAL_FAULT_TRIAL  this trial alone, from 0; of drivers whose trials do not depend on one another
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/random.h"

namespace varifocal {
inline namespace testing_support {

// Seeds a stream of draws: the driver's name and VARIFOCAL_FAULT_SEED.
std::string SeedOf(absl::string_view name);

bool IsFullSize();  // VARIFOCAL_FAULT_SIZE=full

class Trials {
 public:
  struct Size {
    int64_t quick = 0;
    int64_t full = 0;
  };
  Trials(std::string unit, Size size);
  ~Trials();
  Trials(const Trials&) = delete;

  // Begins the next trial; false when all are done.
  bool Next();
  // For drivers that find out how many trials there are: counts one that has just ended.
  void Count();
  int64_t wanted_count() const { return wanted_count_; }
  int64_t index() const { return index_; }  // of the trial, from 0
  // The draws of this trial; independent of other trials.
  Random MakeRandom() const;

 private:
  void End();

  const std::string unit_;
  int64_t wanted_count_ = 0;
  int64_t index_ = -1;
  int64_t last_ = 0;
  int64_t count_ = 0;
  int64_t violation_count_ = 0;
  bool in_trial_ = false;
  int failure_count_ = 0;  // of the test, at the beginning of the trial
};

// Prints "[measured] WHAT: p50 .., p99 .., max .. UNIT of N", which the table repeats. Sorts the values.
void PrintQuantiles(const std::string& what, const std::string& unit, std::vector<double> values);

// Another measured value for the table.
void PrintMeasured(const std::string& text);

}  // namespace testing_support
}  // namespace varifocal
