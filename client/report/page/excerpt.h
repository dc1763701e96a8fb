// The prompt of a sample as the browser shows it: from the stored excerpt (start, "[... N bytes ...]", evidence, .., end;
// server/jobs/excerpt.h) the first words, every piece of evidence with its surroundings, the question at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal::report {

struct ByteSpan {
  int64_t begin = 0, end = 0;  // bytes of the prompt
};

// The spans of a sample's evidence_json; none where it is malformed.
std::vector<ByteSpan> EvidenceSpans(absl::string_view evidence_json);

// HTML: evidence in <span class="evidence">, gold answers that occur as words in <mark>. Without evidence the surroundings
// of the first gold answer are shown instead, or the middle.
std::string ExcerptHtml(absl::string_view excerpt, const std::vector<ByteSpan>& evidence,
                        const std::vector<std::string>& gold);

}  // namespace varifocal::report
