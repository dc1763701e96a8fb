// The loop of a job: builds each sample that the sink needs, sends it to the generator, scores and records the answer.
//
// The runner builds samples context by context (once per tokenizer, shared by the variants), keeps at most `in_flight`
// requests active, and scores and records answers as they arrive. Records do not depend on the order in which answers
// arrive.
//
// Errors:  a sample's failure is a record, not an error of the run. UNAVAILABLE and, while others are active,
//          RESOURCE_EXHAUSTED requeue the sample a bounded number of times. A sink's error stops the run,
//          and so does a generator's fault: samples without a record are missing for the next run.
// Threads: Run blocks its caller, on whose thread samples are built, scored and recorded and hooks are called. Cancel may
//          be called from any thread, before or during Run, once or more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "eval_tasks/generator.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/sample_sink.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {

// The generator and tokenizers of one variant.
struct RunVariant {
  Generator* generator = nullptr;                      // outlives the run
  std::shared_ptr<const TokenCounter> tokenizer;       // of its model
  std::shared_ptr<const TokenCounter> chat_tokenizer;  // the same with the model's chat format; for chat tasks
};

struct CellProgress {
  CellKey cell;
  int planned_count = 0;
  int done_count = 0;    // recorded or found already recorded, failed ones included
  int failed_count = 0;  // of done_count, in this run
};

struct RunProgress {
  int64_t planned_count = 0;
  int64_t done_count = 0;
  int64_t failed_count = 0;
  int64_t skipped_count = 0;  // of done_count: already recorded when the run began
  int64_t in_flight_count = 0;
  int64_t prompt_token_count = 0;  // of answers received in this run
  int64_t cached_token_count = 0;
  int64_t new_token_count = 0;
  std::vector<CellProgress> cells;  // in Grid::cells order
};

struct RunnerHooks {
  // Called after the grid is built, and after every record. Must not block.
  std::function<void(const RunProgress&)> on_progress;
  // Called about once a second while the run waits for answers, so that a waiting run can be distinguished from a hanging one.
  std::function<void()> on_wait;
  // Backoff: called before a retry when no other request is active; may sleep.
  std::function<void(int attempt_count)> wait_before_retry;
};

struct RunnerOptions {
  int attempts_max = 5;  // attempts per sample before UNAVAILABLE becomes its result
  const Clock* clock = &Clock::Real();
};

enum class RunOutcome { kFinished, kCancelled };

class Runner {
 public:
  // `variants` in spec.variants order; `spec` has passed ValidateJobSpec.
  Runner(JobSpec spec, std::vector<RunVariant> variants, SampleSink* sink, RunnerHooks hooks = {},
         RunnerOptions options = {});
  ~Runner();

  // Call once. kCancelled: active requests were cancelled and not recorded, so that they are missing for the next run;
  // answers that had arrived are recorded.
  absl::StatusOr<RunOutcome> Run();
  void Cancel();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace varifocal
