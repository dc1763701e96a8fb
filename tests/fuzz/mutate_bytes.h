// Fixed mutations of bytes: changed, removed, duplicated, truncated, and extreme numbers in place of digits.
//
// Threads: any; one Random per thread.
#pragma once

#include <string>

#include "base/random.h"

namespace varifocal {

std::string MutateBytes(std::string bytes, Random& random);

}  // namespace varifocal
