// Runs one model for many callers: admission, a queue, prefill in chunks, a continuous decode batch, scoring.
//
// A request is token ids and one thing to do with them: generate, score continuations, or score the text itself. One
// thread owns every sequence, page and cache; callers hand requests in and get callbacks. A result depends on its own
// request alone: not on batch, neighbours, arrival order, chunk size, threads, prefix-cache state or restart.
//
//   auto handle = engine->Start({.token_ids = ids, .work = GenerateWork{.max_new_tokens = 8}}, {.on_done = ...});
//   engine->Cancel(*handle);
//
// Errors:  from Start: INVALID_ARGUMENT (empty prompt, id outside the vocabulary, prompt too long: both counts; a bad
//          focal or sampling setting), FAILED_PRECONDITION (stop strings without a tokenizer), RESOURCE_EXHAUSTED (can
//          never fit in the cache, or the queue is full: both numbers), UNAVAILABLE (shutting down).
//          from on_done: DATA_LOSS (a value that is not finite: message starts with ErrorReason::kNumericError), CANCELLED
//          (scoring that was cancelled), UNAVAILABLE (shut down before done; the device failed for good),
//          RESOURCE_EXHAUSTED, INTERNAL.
// Threads: every method may be called from any thread. Callbacks run on the engine's thread: keep them short and never
//          wait there for the engine; calling Start, Cancel, Describe from them is fine. Destruction waits for
//          callbacks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/reason.h"
#include "server/model/model.h"

namespace varifocal {

// Generate tokens after the prompt. Randomness is keyed by (seed, position): the same request gives the same tokens.
struct GenerateWork {
  int64_t max_new_tokens = 0;  // >= 1
  bool ignore_eos = false;
  double sampling_temperature = 0;  // 0 is greedy; ties go to the lowest id
  double top_p = 1;                 // in (0, 1]; looked at when sampling_temperature > 0
  uint64_t seed = 0;
  std::vector<std::string> stop;  // generation ends when its text contains one of them
};

// Log-likelihood of each continuation after the same prompt; the prompt is run once.
struct ScoreContinuationsWork {
  std::vector<std::vector<int32_t>> continuations;  // each at least one token
};

// Log-probability of every token of the text given those before it.
struct ScoreTextWork {};

struct EngineRequest {
  std::string id;                          // for logs only
  std::vector<int32_t> token_ids;          // special tokens included; at least one
  int64_t invalid_utf8_count = 0;          // of the text behind the ids; travels to the result
  AttentionOverrides attention_overrides;  // empty: the checkpoint's setting
  std::variant<GenerateWork, ScoreContinuationsWork, ScoreTextWork> work;
};

enum class EngineFinishReason { kNone, kEos, kLength, kStop, kCancelled };
absl::string_view EngineFinishReasonName(
    EngineFinishReason reason);  // "eos", "length", "stop", "cancelled"; "" for kNone

struct EngineContinuationScore {
  double log_likelihood = 0;  // sum over the continuation's tokens
  int64_t token_count = 0;
  bool is_greedy = false;               // every token is the argmax where it stands
  std::vector<double> token_log_probs;  // token_count of them
};

struct EngineResult {
  // GenerateWork
  std::vector<int32_t> new_token_ids;       // the EOS that stopped it included
  std::vector<double> new_token_log_probs;  // under the model's own distribution, whatever the sampler did
  std::string text;  // new tokens decoded, specials left out, cut before the stop string; "" without a tokenizer
  std::string matched_stop;  // the stop string found, when finish_reason is kStop
  EngineFinishReason finish_reason =
      EngineFinishReason::kNone;  // kCancelled carries what was generated so far: not an answer
  // ScoreContinuationsWork, in the order asked
  std::vector<EngineContinuationScore> continuations;
  // ScoreTextWork: one per token, the first is absent
  std::vector<std::optional<double>> token_log_probs;
  // both scoring works: the sum of what was scored
  double log_likelihood = 0;

  int64_t prompt_token_count = 0;
  int64_t cached_token_count = 0;  // of the prompt, taken from the prefix cache
  int64_t invalid_utf8_count = 0;  // as the request said
  bool extrapolated = false;       // some position lies beyond trained_context_length
  std::string notes;               // one line for the report, e.g. why prefix reuse was refused; usually empty

  int64_t queue_us = 0;    // from Start to the first step
  int64_t prefill_us = 0;  // from the first step to the end of the prompt (scoring included)
  int64_t decode_us = 0;   // from there to the last token

  // Learned tau only: share of (layer, row) pairs of this request's computed rows that sat at either bound.
  std::optional<double> tau_at_min_share;
  std::optional<double> tau_at_max_share;
};

struct EngineProgress {
  int64_t prompt_token_count = 0;
  int64_t prompt_tokens_done = 0;  // cached ones included
  int64_t new_token_count = 0;
};

struct EngineCallbacks {
  std::function<void(const EngineProgress&)> on_progress;           // optional; after each prefill chunk
  std::function<void(int32_t token_id, double log_prob)> on_token;  // optional; each new token
  std::function<void(absl::StatusOr<EngineResult>)> on_done;  // required; exactly once, maybe before Start returns
};

// Breaks promises on purpose, so that the tests of the promises can be seen to fail. Never set outside tests.
enum class EngineSabotage {
  kNone,
  kPhaseByRowCount,  // a single row takes the decode kernels even when it is prompt, several the prefill kernels
  kReplayByPrefill,  // a preempted sequence runs what it had generated through prefill
};

struct EngineOptions {
  std::string name;                    // in what is said about memory; empty: the model's directory
  int64_t prefill_chunk_tokens = 512;  // >= 1; a memory and latency setting, never a result setting
  int64_t batch_size_max = 16;         // sequences that decode together
  // 0 takes what four full contexts need, but at most a quarter of the memory that is free and not promised to others.
  int64_t kv_cache_bytes = 0;
  int64_t queue_length_max = 4096;
  bool prefix_cache = true;
  EngineSabotage sabotage = EngineSabotage::kNone;
};

struct EngineDescription {
  ModelProvenance model;
  int64_t prefill_chunk_tokens = 0;
  int64_t batch_size_max = 0;
  int64_t kv_cache_bytes = 0;       // limit, whole pages of every page group
  int64_t page_count = 0;           // over all page groups
  int64_t context_tokens_max = 0;   // of one sequence: what the model takes and the pages hold
  int64_t buffer_bytes = 0;         // of a step
  int64_t shared_weight_bytes = 0;  // of its weights, what other models hold too
  int64_t memory_total_bytes = 0;   // of the device
  int64_t memory_free_bytes = 0;    // of it, what is left when every engine of this process has all it was promised
  bool prefix_cache = false;
};

struct EngineStatus {
  int64_t queued_count = 0;
  int64_t running_count = 0;
  int64_t pages_used = 0;          // by running sequences
  int64_t pages_cached = 0;        // held by the prefix cache alone
  int64_t cache_bytes_in_use = 0;  // of both
  int64_t cache_bytes_peak = 0;    // the most of every page group so far
  int64_t requests_done = 0;
  int64_t prompt_tokens_done = 0;  // computed or cached
  int64_t cached_tokens = 0;
  int64_t new_tokens = 0;
  int64_t preemption_count = 0;
  int64_t step_count = 0;  // those that timed an estimate left out
};

// What one request would cost on this engine alone.
struct EngineEstimate {
  int64_t cache_bytes = 0;
  int64_t cache_bytes_limit = 0;
  bool fits = true;
  double seconds = 0;  // from a short timed prefill on this machine, scaled by the operation count
};

class Engine {
 public:
  using Handle = uint64_t;

  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::shared_ptr<const LoadedModel> model,
                                                        const EngineOptions& options);
  virtual ~Engine() = default;  // cancels what is queued or running (UNAVAILABLE), then waits

  virtual absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) = 0;
  // Asks the request to stop; its on_done follows. A handle that is done or unknown is ignored.
  virtual void Cancel(Handle handle) = 0;
  // Start and wait: for tests and one-shot callers; never from a callback.
  absl::StatusOr<EngineResult> Run(EngineRequest request);

  virtual const LoadedModel& model() const = 0;
  virtual EngineDescription Describe() const = 0;
  virtual EngineStatus Status() const = 0;
  // INVALID_ARGUMENT when the lengths do not fit the model. Of the prompt, cached_token_count are taken as known. The
  // first call times a short prefill, in steps of its own, so that other work does not change what is measured.
  virtual absl::StatusOr<EngineEstimate> Estimate(int64_t prompt_token_count, int64_t new_token_count,
                                                  int64_t cached_token_count = 0) = 0;
  // Forgets cached prefixes that no sequence is using.
  virtual void DropPrefixCache() = 0;
  // Not OK once the device has failed for good: UNAVAILABLE (DEVICE_FAULTED) with the cause. What was under way ended
  // with it, and so does every request from then on: none of them was at fault.
  virtual absl::Status Fault() const = 0;

 protected:
  static absl::StatusOr<EngineResult> WaitFor(absl::FunctionRef<absl::StatusOr<Handle>(EngineCallbacks)> start);
};

}  // namespace varifocal
