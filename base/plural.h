// The form of a word, or of a word and its verb, that agrees with a count: Plural(1, "row was", "rows were").
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace varifocal {

constexpr absl::string_view Plural(int64_t count, absl::string_view one, absl::string_view several) {
  return count == 1 ? one : several;
}

}  // namespace varifocal
