// The table of faults: what may go wrong, what must hold then, and the GoogleTest cases that try it.
//
// A row is run by the program fault_table, which prints it with its trials, violations and bound. A new fault is a test
// and a row; a test that repeats a fault at random places counts its trials (tests/support/trials.h), of any other test
// each case is one trial.
//
//   I1  PRAGMA integrity_check and the foreign keys are clean
//   I2  no acknowledged sample is lost
//   I3  no sample is stored twice
//   I4  the results of a resumed job equal those of an uninterrupted one, bit for bit
//   I5  the server answers health and a known prompt
//   I6  the error has the code and the reason of its class
//   I7  no sanitizer reports anything (deploy/checks.sh asan tsan, over the same tests)
//
// Threads: constant data.
#pragma once

#include <vector>

namespace varifocal {

struct FaultTests {
  const char* program;       // in the directory of the built programs
  const char* filter;        // GoogleTest's, without ':': one pattern
  bool other_build = false;  // of the preset `cuda`, so not run here
};

struct FaultRow {
  int number;  // 1, 2, 3, ..
  const char* fault;
  const char* invariants;
  std::vector<FaultTests> tests;
  const char* how;
};

const std::vector<FaultRow>& FaultRows();

}  // namespace varifocal
