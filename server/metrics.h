// The state of a daemon as Prometheus metrics: queues, models, jobs, calls, process. docs/metrics.md lists them.
//
// Everything is read when it is asked for, from counters that the parts keep anyway, so a daemon that is not scraped does
// no work for it, and a step of an engine costs the same. The number of time series is bounded: labels are methods, status
// codes, reasons, states, pools, and the first 32 names of models (server/hosting/model_labels.h).
//
// Errors:  UNIMPLEMENTED in a statically linked program.
// Threads: any.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/current_credentials.h"
#include "server/hosting/model_host.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/admission.h"
#include "server/rpc/call_counts.h"
#include "server/rpc/engine_gate.h"
#include "server/rpc/rpc_pools.h"

namespace varifocal {

// The parts of a server; they outlive every call. `jobs` is null and `database_path` empty without a database.
struct MetricsSources {
  ModelHost* host = nullptr;
  JobManager* jobs = nullptr;
  const RpcPools* pools = nullptr;
  const Admission* admission = nullptr;
  const EngineGate* gate = nullptr;
  const CallCounts* calls = nullptr;
  const CurrentCredentials* credentials = nullptr;
  std::string database_path;
  std::function<int64_t()> count_connections;
  const Clock* clock = &Clock::Real();
};

// In the text format 0.0.4.
absl::StatusOr<std::string> MetricsText(const MetricsSources& sources);

}  // namespace varifocal
