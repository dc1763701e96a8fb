// Goldens and other JSON files of tests.
#pragma once

#include <string>

#include "base/json.h"
#include "tests/support/process.h"

namespace varifocal {
inline namespace testing_support {

// Ends the program when the file cannot be read or is no JSON.
inline Json ReadJson(const std::string& path) { return ParseJson(ReadFile(path)).value(); }

}  // namespace testing_support
}  // namespace varifocal
