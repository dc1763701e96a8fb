// Where an exception ends: at the body of a call, a load, a step or a job, as a status.
//
//   return CatchExceptions("loading the model", [&] { return factory(name); });  // Status or StatusOr
//
// The code of this repository throws nothing, but the standard library does when memory cannot be had, and an exception
// that leaves a thread ends the process.
//
// Errors: RESOURCE_EXHAUSTED for std::bad_alloc and std::length_error, INTERNAL for any other, with what was being done.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// Of the exception being handled; to be called in a handler only. Memory may be short: the message is left out when
// there is none for it.
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
