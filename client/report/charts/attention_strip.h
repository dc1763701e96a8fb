// An attention strip: a row for each layer and head, equal parts of the prompt from left to right, darker for more of the
// head's weight (on a logarithmic scale), the evidence marked above.
#pragma once

#include <string>
#include <vector>

#include "client/report/data/attention_heads.h"

namespace varifocal::report {

// SVG. `is_alone`: a file of its own, with its style; else the page's classes.
std::string DrawStrip(const std::string& title, const StripPlace& place, const std::vector<StripRow>& rows,
                      bool is_alone);

}  // namespace varifocal::report
