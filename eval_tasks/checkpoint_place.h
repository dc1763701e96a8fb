// Where a model's weights are: DIR, DIR@adapter=DIR2 (an adapter that is merged into them), DIR@f32 or DIR@bf16 (in that
// number format), and DIR@cuda:1 or DIR@cuda:0,1 (on these devices); all: DIR@adapter=DIR2@bf16@cuda:1. It is the model's
// directory wherever one is named.
//
// Errors:  INVALID_ARGUMENT with the text and what it must be.
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal {

struct CheckpointPlace {
  std::string directory;
  std::string adapter;  // a directory; "": none
  std::string dtype;    // "f32", "bf16"; "": that of the options
  std::string devices;  // "cuda:1", "cuda:0,1"; "": those of the options

  std::string ToString() const;
};

CheckpointPlace CheckpointOf(absl::string_view place);

struct NamedPlace {
  std::string name;
  std::string place;
};

// The value of --adapter: NAME=BASE:DIR, the model BASE with the adapter in DIR as the model NAME; NAME=DIR where there is
// one model.
absl::StatusOr<NamedPlace> ReadAdapterFlag(absl::string_view text, const std::vector<NamedPlace>& models);

}  // namespace varifocal
