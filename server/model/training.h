// How a checkpoint was trained, as its config.json states it; reports group replicates by it. It has no effect on results.
//
//   "training": {"arm": "focal", "seed": 3, "tokens": 4194304, "context_length": 2048}
//
// Every key may be absent. The number of parameters is counted from the tensors and is no key.
//
// Errors: INVALID_ARGUMENT with key, value and limit; UNIMPLEMENTED for an unknown key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/model/config_reader.h"

namespace varifocal {

struct Training {
  std::string arm;              // what was varied on purpose: runs of one arm differ in their seed; "" when not stated
  std::optional<int64_t> seed;  // of the initial weights and the order of the data
  std::optional<int64_t> tokens;
  std::optional<int64_t> context_length;  // the longest, in tokens; ModelConfig::trained_context_length is never longer
};

inline constexpr size_t kArmBytesMax = 64;

// Reads the key "training" of `config`; all fields are empty without it.
absl::StatusOr<Training> ReadTraining(ConfigReader& config);

}  // namespace varifocal
