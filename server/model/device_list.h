// The devices that a model is placed on, one copy on each: what --device=cuda:0,1 and DIR@cuda:0,1 name.
//
// Errors:  INVALID_ARGUMENT (BAD_DEVICE) with the text and what it must be. Whether this machine has the devices is asked when
//          they are opened.
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// "cuda:0,2" is {"cuda:0", "cuda:2"}, "cuda" is {"cuda:0"}, "" is {"auto"}; any other name is one device, which the backends know
// or refuse. At least one, each once.
absl::StatusOr<std::vector<std::string>> ParseDevices(absl::string_view text);

}  // namespace varifocal
