#include "server/model/learned_terms.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "server/model/config_reader.h"

namespace varifocal {
namespace {

constexpr float kActivationEpsilonMax = 1e-5f;

}  // namespace

// softplus(x) = ln(1 + e^x)
absl::StatusOr<kernels::ActivationTerms> LearnedTerms(TensorPacker& packer,
                                                      const std::vector<const TensorView*>& tensors) {
  std::vector<double> values;
  for (const TensorView* tensor : tensors) {
    ASSIGN_OR_RETURN(const float value, packer.Number(*tensor));
    values.push_back(value);
  }
  const auto softplus = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  if (!(std::abs(values[3]) <= kActivationEpsilonMax)) {
    return Unimplemented("tensor ", tensors[3]->name, " is ", ShortNumber(values[3]), "; its size may be at most ",
                         ShortNumber(kActivationEpsilonMax));
  }
  return kernels::ActivationTerms{.a = static_cast<float>(softplus(values[0])),
                                  .b = static_cast<float>(values[2] + softplus(values[1])),
                                  .c = static_cast<float>(values[2])};
}

}  // namespace varifocal
