// Fuzz targets: the parsers of untrusted bytes, each as one function that must return for every input.
//
// Properties: an error is INVALID_ARGUMENT, NOT_FOUND or UNIMPLEMENTED with a message, never INTERNAL; accepted input can
// be used. Two programs call them: fuzz_test and client_fuzz_test, in every build, with the seeds and fixed mutations of them; and
// fuzz_NAME of the preset `fuzz`, with inputs of libFuzzer.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/check.h"

namespace varifocal {

struct FuzzTarget {
  const char* name;
  void (*run)(absl::string_view bytes);
  std::vector<std::string> seeds;  // files of the repository
};

const std::vector<FuzzTarget>& FuzzTargets();        // files of models and data
const std::vector<FuzzTarget>& ClientFuzzTargets();  // what users write and send

// What every parser answers to bytes that it does not accept.
inline void ExpectRefusal(const absl::Status& status) {
  VF_CHECK(absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsUnimplemented(status));
  VF_CHECK(!status.message().empty());
}

inline void PrintTo(const FuzzTarget& target, std::ostream* out) { *out << target.name; }  // for GoogleTest

}  // namespace varifocal
