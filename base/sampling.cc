#include "base/sampling.h"

#include <cmath>

#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {

absl::Status CheckSampling(const Sampling& sampling) {
  const auto bad = [](ErrorReason reason, const char* field, auto value, const char* limit) {
    return WithReason(InvalidArgument(field, " is ", value, "; it must be ", limit), reason, {{"field", field}});
  };
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    return bad(ErrorReason::kBadSamplingTemperature, "sampling_temperature", sampling.temperature,
               "finite and at least 0");
  }
  if (sampling.top_k < 0) return bad(ErrorReason::kBadTopK, "top_k", sampling.top_k, "at least 0");
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return bad(ErrorReason::kBadTopP, "top_p", sampling.top_p, "above 0 and at most 1");
  }
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1)) {
    return bad(ErrorReason::kBadMinP, "min_p", sampling.min_p, "from 0 to 1");
  }
  return absl::OkStatus();
}

}  // namespace varifocal
