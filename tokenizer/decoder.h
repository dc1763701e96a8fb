// One step of decoding: maps the list of token texts, which are joined after the last step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace varifocal {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual absl::Status Apply(std::vector<std::string>& tokens) const = 0;
};

using MadeDecoder = absl::StatusOr<std::unique_ptr<const Decoder>>;

}  // namespace varifocal
