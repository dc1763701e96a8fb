// The readers that take bytes from outside, each as one function that must come back, whatever it is given.
//
// A target states what must hold: a refusal is INVALID_ARGUMENT, NOT_FOUND or UNIMPLEMENTED with a sentence, never
// INTERNAL; what was accepted can be used. Two programs call them: fuzz_replay_test, in every build, with the seeds and
// fixed mutations of them; and fuzz_NAME of the preset `fuzz`, with what libFuzzer finds.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal {

struct FuzzTarget {
  const char* name;
  void (*run)(absl::string_view bytes);
  std::vector<std::string> seeds;  // files of the repository
};

const std::vector<FuzzTarget>& FuzzTargets();

inline void PrintTo(const FuzzTarget& target, std::ostream* out) { *out << target.name; }  // for GoogleTest

}  // namespace varifocal
