// Runs one model for many callers: admission, a queue, prefill in chunks, a continuous decode batch, scoring.
//
// A request is token ids and one kind of work: generate, score continuations, or score the text itself. One thread owns
// every sequence, page and cache; callers submit requests and get callbacks. A result depends on its own request only:
// not on batch composition, arrival order, chunk size, threads, prefix-cache state or restart.
//
//   auto handle = engine->Start({.token_ids = ids, .work = GenerateWork{.max_new_tokens = 8}}, {.on_done = ...});
//   engine->Cancel(*handle);
//
// Errors:  from Start: INVALID_ARGUMENT (empty prompt, id outside the vocabulary, prompt too long: both counts; a bad
//          focal or sampling setting), FAILED_PRECONDITION (stop strings without a tokenizer), RESOURCE_EXHAUSTED (can
//          never fit in the cache, or the queue is full: both numbers), UNAVAILABLE (shutting down).
//          from on_done: DATA_LOSS (a value that is not finite: message starts with ErrorReason::kNumericError), CANCELLED
//          (scoring that was cancelled), UNAVAILABLE (shut down before done; fatal device failure),
//          RESOURCE_EXHAUSTED, INTERNAL.
// Threads: every method may be called from any thread. Callbacks run on the engine's thread: keep them short and never
//          wait there for the engine; calling Start, Cancel, Describe from them is fine. Destruction waits for
//          callbacks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/engine/options.h"
#include "server/engine/request.h"
#include "server/model/model.h"

namespace varifocal {

class Engine;

// One of a model's engines, on a device of its own.
struct EngineCopy {
  std::string device;  // "cuda:1"; "" of a model that has one engine
  const Engine* engine = nullptr;
};

class Engine {
 public:
  using Handle = EngineHandle;

  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::shared_ptr<const LoadedModel> model,
                                                        const EngineOptions& options);
  virtual ~Engine() = default;  // cancels what is queued or running (UNAVAILABLE), then waits

  virtual absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) = 0;
  // Asks the request to stop; its on_done follows. A handle that is done or unknown is ignored.
  virtual void Cancel(Handle handle) = 0;
  // Start and wait, for tests and one-shot callers; not from a callback.
  absl::StatusOr<EngineResult> Run(EngineRequest request);

  virtual const LoadedModel& model() const = 0;
  virtual EngineDescription Describe() const = 0;
  virtual EngineStatus Status() const = 0;
  // INVALID_ARGUMENT when the lengths do not fit the model. cached_token_count tokens of the prompt are assumed cached. The
  // first call times a short prefill, in separate steps, so that other work does not affect the measurement.
  virtual absl::StatusOr<EngineEstimate> Estimate(int64_t prompt_token_count, int64_t new_token_count,
                                                  int64_t cached_token_count = 0) = 0;
  // Drops cached prefixes that no sequence is using.
  virtual void DropPrefixCache() = 0;
  // Not OK after a fatal device failure: UNAVAILABLE (DEVICE_FAULTED) with the cause. Active and later requests end with
  // this status.
  virtual absl::Status Fault() const = 0;
  // The engines that share the requests of this one (replicated_engine.h), those that have failed included; else itself.
  virtual std::vector<EngineCopy> Copies() const { return {{"", this}}; }
  int ServingCopyCount() const;  // those without a fault; at least 1

 protected:
  static absl::StatusOr<EngineResult> WaitFor(absl::FunctionRef<absl::StatusOr<Handle>(EngineCallbacks)> start);
};

}  // namespace varifocal
