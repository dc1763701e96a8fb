#include "server/model/packed_weights/mxfp4.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "server/model/config_reader.h"

namespace varifocal {
namespace {

constexpr float kValues[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                               -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
constexpr int kBias = 127;
// 6 * 2^126 is beyond the largest bf16.
constexpr int kScaleMax = kBias + 125;

}  // namespace

absl::Status UnpackMxfp4(absl::string_view blocks, absl::string_view scales, uint16_t* out) {
  VF_CHECK(blocks.size() == scales.size() * kMxfp4GroupBytes, "a group has a scale");
  for (size_t group = 0; group < scales.size(); ++group) {
    const int scale = static_cast<unsigned char>(scales[group]);
    if (scale > kScaleMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("scale ", group, " is ", scale, "; the largest of finite values is ", kScaleMax));
    }
    uint16_t values[16];
    for (int i = 0; i < 16; ++i) {
      values[i] = std::bit_cast<uint32_t>(std::ldexp(kValues[i], scale - kBias)) >> 16;
    }
    for (const char byte : blocks.substr(group * kMxfp4GroupBytes, kMxfp4GroupBytes)) {
      *out++ = values[byte & 15];
      *out++ = values[static_cast<unsigned char>(byte) >> 4];
    }
  }
  return absl::OkStatus();
}

bool IsMxfp4(const Json& quantization) {
  const auto method = quantization.is_object() ? quantization.find("quant_method") : quantization.end();
  return method != quantization.end() && *method == "mxfp4";
}

absl::Status CheckMxfp4(const Json& quantization) {
  ConfigReader reader(quantization, "quantization_config");
  reader.Ignore({"quant_method"});
  RETURN_IF_ERROR(reader.RequireValue("dequantize", false));
  // Only experts have the format; the list names everything else.
  const Json* kept = reader.Take("modules_to_not_convert");
  if (kept != nullptr) {
    const auto names_experts = [](const Json& name) {
      return !name.is_string() || absl::StrContains(name.get<std::string>(), "experts");
    };
    if (!kept->is_array() || std::any_of(kept->begin(), kept->end(), names_experts)) {
      return absl::UnimplementedError(absl::StrCat(reader.Name("modules_to_not_convert"), " is ", ShownValue(*kept),
                                                   "; it must be a list of modules other than experts"));
    }
  }
  return reader.RefuseUnread();
}

}  // namespace varifocal
