// Flags of how tokens are drawn, shared by the verbs that generate and by `samples`:
// --sampling-temperature, --top-k, --top-p, --min-p.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "client/flags.h"
#include "eval_tasks/generator.h"

namespace varifocal::client {

struct SamplingFlags {
  void AddTo(FlagSet& flags);
  absl::StatusOr<DecodeSettings> Read() const;

 private:
  std::optional<double> temperature_, top_p_, min_p_;
  std::optional<int64_t> top_k_;
};

}  // namespace varifocal::client
