// Fuzz targets: the parsers of untrusted bytes, each as one function that must return for every input.
//
// Properties: an error is INVALID_ARGUMENT, NOT_FOUND or UNIMPLEMENTED with a message, never INTERNAL; accepted input can
// be used. Two programs call them: fuzz_test and client_fuzz_test, in every build, with the seeds and fixed mutations of them; and
// fuzz_NAME of the preset `fuzz`, with inputs of libFuzzer.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"

namespace varifocal {

struct FuzzTarget {
  const char* name;
  void (*run)(absl::string_view bytes);
  std::vector<std::string> seeds;  // files of the repository
};

const std::vector<FuzzTarget>& FuzzTargets();        // files of models and data
const std::vector<FuzzTarget>& ClientFuzzTargets();  // what users write and send

// Success, or what every parser answers to bytes that it does not accept.
inline void ExpectOkOrRefusal(const absl::Status& status) {
  if (status.ok()) return;
  VF_CHECK(absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsUnimplemented(status));
  VF_CHECK(!status.message().empty());
}

inline void PrintTo(const FuzzTarget& target, std::ostream* out) { *out << target.name; }  // for GoogleTest

}  // namespace varifocal

// ASSIGN_OR_REFUSE(const auto value, Parse(bytes)): ASSIGN_OR_RETURN of a target, which ends at a refusal.
#define ASSIGN_OR_REFUSE(left, expression) VF_ASSIGN_OR_REFUSE_(VF_CONCAT_(vf_status_or_, __LINE__), left, expression)
#define VF_ASSIGN_OR_REFUSE_(temporary, left, expression)            \
  auto temporary = (expression);                                     \
  if (!temporary.ok()) return ExpectOkOrRefusal(temporary.status()); \
  left = std::move(temporary).value()
