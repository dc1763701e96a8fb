// Flags shared by `submit`, `run` and `samples`: a suite, a selection from it, and the models.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/console.h"
#include "client/daemon.h"
#include "client/flags.h"
#include "client/sampling_flags.h"
#include "eval_tasks/job_spec.h"
#include "varifocal/v1/config.pb.h"

namespace varifocal::client {

// SUITE, --lengths, --tasks, --limit, --seed, --seeds, --epochs, --form, --answer-tokens, --thinking-..,
// --force-thinking-end.
struct SuiteFlags {
  std::string suite;
  std::optional<std::string> lengths, tasks;
  int64_t limit = 0;  // 0: none
  std::optional<int64_t> seed, seeds, epochs, answer_tokens, thinking_tokens;
  std::optional<std::string> form, thinking_markers;
  bool force_thinking_end = false;

  void AddTo(FlagSet& flags, bool is_required = true);
  // The suite after the selection, complete and valid.
  absl::StatusOr<SuiteSpec> Read() const;

 private:
  absl::Status SetAnswers(SuiteSpec& spec) const;
};

// --focal-temperatures, --focal-layers, --sweep, --keep-prompts, --score-gold, --inspect, --inspected-rows, --in-flight,
// --thinking, and those of sampling.
struct JobFlags {
  std::optional<std::string> focal_temperatures, focal_layers;
  std::vector<std::string> sweeps;
  bool keep_prompts = false, score_gold = false, inspect = false;
  std::optional<std::string> inspected_rows;
  std::optional<int64_t> in_flight;
  SamplingFlags sampling;
  std::optional<std::string> thinking;  // "on", "off" or "on,off"

  void AddTo(FlagSet& flags);
};

// `models` as ParseVariantList reads them.
absl::StatusOr<v1::JobSpec> MakeJobSpec(const SuiteFlags& suite, const JobFlags& job, absl::string_view models);

// Removes variants that --focal-temperatures added and that compute the same as their model without them, because t is the
// temperature that it was trained with: the same answers need not be asked twice. Says so. A variant that `models` names
// remains.
absl::Status DropSameAsTrained(Daemon& daemon, absl::string_view models, v1::JobSpec& spec, Console& console);

}  // namespace varifocal::client
