#include "kernels/cuda/decode_choice.h"

namespace varifocal::kernels::cuda {

Result<DecodeChoice> ChooseDecode(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kernels = text.substr(0, colon), flag = colon == std::string::npos ? "" : text.substr(colon);
  if ((kernels != "auto" && kernels != "fused" && kernels != "separate") ||
      (!flag.empty() && flag != ":prefetch=off")) {
    return Error{ErrorCode::kInvalidArgument,
                 "decode kernels \"" + text + "\" are none of auto, fused, separate; each may have :prefetch=off"};
  }
  DecodeChoice choice;
  if (kernels != "auto") choice = {.fused = kernels == "fused", .prefetch = true};
  choice.prefetch = choice.prefetch && flag.empty();
  return choice;
}

}  // namespace varifocal::kernels::cuda
