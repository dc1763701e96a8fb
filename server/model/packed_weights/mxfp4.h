// MXFP4, the microscaling format of GPT-OSS's experts: 4-bit floats in blocks of 32 that share a power of two.
//
// Every value is exact in bf16, so that nothing is rounded when weights are read.
//
// Shapes:  blocks u8 [rows, groups, 16]: byte b has input 2b of its group in the low half, input 2b + 1 in the high one;
//          scales u8 [rows, groups]: 2^(scale - 127).
// Errors:  INVALID_ARGUMENT with the place of a scale that stands for no finite number; UNIMPLEMENTED naming the key.
// Source:  OCP Microscaling Formats 1.0, E2M1 and E8M0; convert_moe_packed_tensors in transformers 5.24.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal {

inline constexpr int64_t kMxfp4GroupInputs = 32;
inline constexpr int64_t kMxfp4GroupBytes = 16;

// Writes two bf16 for each byte of `blocks`.
absl::Status UnpackMxfp4(absl::string_view blocks, absl::string_view scales, uint16_t* out);

// Whether a `quantization_config` is MXFP4. It is then checked to be one of experts alone.
bool IsMxfp4(const Json& quantization);
absl::Status CheckMxfp4(const Json& quantization);

}  // namespace varifocal
