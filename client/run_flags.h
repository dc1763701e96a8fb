// Flags of a whole job in one process: a suite, models and the engine. Shared by `run` and `slurm`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/embedded.h"
#include "client/flags.h"
#include "client/job_flags.h"
#include "client/model_session.h"

namespace varifocal::client {

struct RunFlags {
  SuiteFlags suite;
  JobFlags job;
  EngineFlags engine;
  std::vector<std::string> models;     // NAME=DIR
  std::vector<std::string> adapters;   // NAME=BASE:DIR
  std::vector<std::string> endpoints;  // NAME=URL,..
  std::optional<int64_t> endpoint_budget_tokens;
  std::string variants;  // --models; after Options never empty

  void AddTo(FlagSet& flags);
  // Without a database.
  absl::StatusOr<EmbeddedOptions> Options();
};

}  // namespace varifocal::client
