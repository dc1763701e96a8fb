// Flags shared by `submit`, `run` and `samples`: a suite, a selection from it, and the models.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/flags.h"
#include "eval_tasks/job_spec.h"
#include "varifocal/v1/config.pb.h"

namespace varifocal::client {

// SUITE, --lengths, --tasks, --limit, --seed.
struct SuiteFlags {
  std::string suite;
  std::optional<std::string> lengths, tasks;
  int64_t limit = 0;  // 0: none
  std::optional<int64_t> seed;

  void AddTo(FlagSet& flags, bool is_required = true);
  // The suite after the selection, complete and valid.
  absl::StatusOr<SuiteSpec> Read() const;
};

// --focal-temperatures, --keep-prompts, --score-gold, --inspect, --in-flight, --sampling-temperature, --top-p.
struct JobFlags {
  std::optional<std::string> focal_temperatures;
  bool keep_prompts = false, score_gold = false, inspect = false;
  std::optional<int64_t> in_flight;
  std::optional<double> sampling_temperature, top_p;

  void AddTo(FlagSet& flags);
};

// `models` as ParseVariantList reads them.
absl::StatusOr<v1::JobSpec> MakeJobSpec(const SuiteFlags& suite, const JobFlags& job, absl::string_view models);

}  // namespace varifocal::client
