// Keys of config.json that no forward pass reads.
#pragma once

#include "absl/types/span.h"

namespace varifocal {

absl::Span<const char* const> HarmlessKeys();

}  // namespace varifocal
