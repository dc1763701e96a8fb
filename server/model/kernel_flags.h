// The flags that choose a GPU's kernels, a row each: varifocald's, and those of the client's verbs that serve a model in their own
// process.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "server/model/model.h"

namespace varifocal {

struct KernelFlag {
  const char* name;  // without dashes
  const char* help;
  std::string ModelOptions::*value;  // empty: the default
};

absl::Span<const KernelFlag> KernelFlags();

}  // namespace varifocal
