// Where the evidence of a sample is in its prompt.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal::report {

struct ByteSpan {
  int64_t begin = 0, end = 0;  // bytes of the prompt
};

// The spans of a sample's evidence_json; none where it is malformed.
std::vector<ByteSpan> EvidenceSpans(absl::string_view evidence_json);

}  // namespace varifocal::report
