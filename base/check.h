// CHECK macros for programming errors: they print the condition, the place and a message, then abort.
//
// A check is for bugs. It must not be reachable by user input: that is what absl::Status is for.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace varifocal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, condition, message[0] ? ": " : "", message);
  std::abort();
}

}  // namespace varifocal

// VF_CHECK(condition) or VF_CHECK(condition, "why it must hold"); active in every build.
#define VF_CHECK(condition, ...)                                                \
  do {                                                                          \
    if (!(condition)) [[unlikely]] {                                            \
      ::varifocal::CheckFailed(__FILE__, __LINE__, #condition, "" __VA_ARGS__); \
    }                                                                           \
  } while (false)
