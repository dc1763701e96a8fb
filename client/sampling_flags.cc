#include "client/sampling_flags.h"

#include <limits>
#include <utility>

#include "client/usage.h"

namespace varifocal::client {

void SamplingFlags::AddTo(FlagSet& flags) {
  flags.Add("sampling-temperature", &temperature_, "X", "sampling temperature; default: greedy").AtLeast(0);
  flags.Add("top-k", &top_k_, "N", "draw from the N most likely tokens; 0: all")
      .AtLeast(0)
      .AtMost(std::numeric_limits<int32_t>::max());
  flags.Add("top-p", &top_p_, "P", "nucleus sampling of what --top-k leaves, above 0").AtLeast(0).AtMost(1);
  flags
      .Add("min-p", &min_p_, "P",
           "then draw only from tokens at least this part as likely as the most likely one; 0: all")
      .AtLeast(0)
      .AtMost(1);
}

absl::StatusOr<DecodeSettings> SamplingFlags::Read() const {
  if (top_p_.has_value() && *top_p_ <= 0) return UsageError("--top-p=0: must be above 0.");
  if (temperature_.value_or(0) == 0) {
    for (const auto& [name, is_given] : {std::pair("top-k", top_k_.has_value()), std::pair("top-p", top_p_.has_value()),
                                         std::pair("min-p", min_p_.has_value())}) {
      if (is_given) return UsageError("--", name, " needs a --sampling-temperature above 0.");
    }
  }
  DecodeSettings decode{.sampling_temperature = temperature_, .top_p = top_p_, .min_p = min_p_};
  if (top_k_.has_value()) decode.top_k = static_cast<int>(*top_k_);
  return decode;
}

}  // namespace varifocal::client
