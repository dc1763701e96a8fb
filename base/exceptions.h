// Converts exceptions to statuses at the body of a call, a load, a step or a job.
//
//   return CatchExceptions("loading the model", [&] { return factory(name); });  // Status or StatusOr
//
// The code of this repository does not throw, but the standard library does when an allocation fails, and an exception
// that escapes a thread terminates the process.
//
// Errors: RESOURCE_EXHAUSTED for std::bad_alloc and std::length_error, INTERNAL for any other, with the action's name.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// Of the exception being handled; call only from a handler.
// The message is empty if it cannot be allocated.
absl::Status StatusOfException(absl::string_view action) noexcept;

template <typename Body>
auto CatchExceptions(absl::string_view action, Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return StatusOfException(action);
  }
}

}  // namespace varifocal
