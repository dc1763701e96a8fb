// What comparisons over training seeds say, in sentences.
#pragma once

#include <string>
#include <vector>

#include "client/report/data/arm_report.h"

namespace varifocal::report {

struct ArmVerdict {
  std::string candidate, tone;
  std::string brief;  // for the first screen
  std::string headline;
  std::vector<std::string> details;
};
std::vector<ArmVerdict> ArmVerdicts(const ArmReport& arms);  // one for each candidate over seeds

}  // namespace varifocal::report
