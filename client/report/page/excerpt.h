// The prompt of a sample as the browser shows it: from the stored excerpt (start, "[... N bytes ...]", evidence, .., end;
// server/jobs/excerpt.h) the first words, every piece of evidence with its surroundings, the question at the end.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/report/data/evidence_spans.h"

namespace varifocal::report {

// HTML: evidence in <span class="evidence">, gold answers that occur as words in <mark>. Without evidence the surroundings
// of the first gold answer are shown instead, or the middle.
std::string ExcerptHtml(absl::string_view excerpt, const std::vector<ByteSpan>& evidence,
                        const std::vector<std::string>& gold);

}  // namespace varifocal::report
