// A generator produces answers for samples. The runner depends only on this interface, not on an engine or network.
//
// Adapters are in server/jobs: the engine in this process, and a daemon elsewhere. One Generator serves one model;
// several variants may share it.
//
// Contract: Start does not block; `done` is called exactly once, from any thread, possibly before Start returns.
//           After Cancel, `done` is still called: with CANCELLED, or with the answer if it was already available.
//           `done` must not be called while holding a lock that Start or Cancel take.
// Errors:   UNAVAILABLE and RESOURCE_EXHAUSTED are transient; every other code is this sample's result. When Fault is
//           not OK, no retry can succeed: the run ends with it, and active requests stay without a result.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sampling.h"
#include "eval_tasks/attention_inspection.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/overrides.h"
#include "eval_tasks/task.h"

namespace varifocal {

enum class FinishReason { kNone, kEos, kLength, kStop, kCancelled };
const char* FinishReasonName(FinishReason reason);  // "none", "eos", "length", "stop", "cancelled"

// Unset is not zero: the server chooses the value of an unset field.
struct DecodeSettings {
  std::optional<double> sampling_temperature;  // 0 is greedy
  std::optional<double> top_p;
  std::optional<int> top_k;
  std::optional<double> min_p;

  Sampling ToSampling() const {
    return {.temperature = sampling_temperature.value_or(0),
            .top_p = top_p.value_or(1),
            .top_k = top_k.value_or(0),
            .min_p = min_p.value_or(0)};
  }
};

struct GenerationRequest {
  std::shared_ptr<const Sample> sample;  // prompt, token ids, stop strings, continuations, sampling seed
  OverrideMap overrides;                 // of the model's attention; empty: its own
  DecodeSettings decode;
  bool chat = false;     // the sample's prompt is wrapped in the model's chat format; its token ids already are
  std::string variant;   // for logs
  bool inspect = false;  // Generation::attention; changes no answer
  std::string inspected_rows = {};  // JobSpec::inspected_rows
};

struct Generation {
  std::string text;                     // as decoded, not truncated; may contain a stop string
  std::vector<int32_t> token_ids;       // new ones, including the EOS; none from a server that sends text
  int new_token_count = 0;              // the same where there are none
  std::vector<double> token_log_probs;  // of token_ids; empty unless requested
  std::vector<ContinuationScore> continuation_scores;  // one for each Sample::continuations
  int thinking_token_count = 0;           // of the new ones: those in thinking blocks, where the sample may have some
  bool is_thinking_forced = false;        // SampleThinking::forced_ids were
  std::optional<ThinkingState> thinking;  // set by the runner, of a sample that may have blocks
  std::optional<ContinuationScore> gold_score;  // of Sample::gold_token_ids; none where the generator cannot score
  FinishReason finish_reason = FinishReason::kNone;
  int prompt_token_count = 0;
  int cached_token_count = 0;  // of the prompt, taken from the prefix cache
  int64_t queue_us = 0;
  int64_t prefill_us = 0;
  int64_t decode_us = 0;
  std::optional<double> tau_min_share;  // learned focal temperature: share of rows at either bound
  std::optional<double> tau_max_share;
  std::optional<double> pairs_visible_share;  // learned groups: of the prompt's pairs, and the largest group's share of
  std::optional<double> largest_group_share;  // its tokens
  std::vector<HeadInspection> attention;      // by layer, then by head; where the request asks for it
  bool extrapolated = false;                  // longer than trained_context_length
  int attempt_count = 1;                      // of the generator, for one request to it
  std::set<std::string> workers = {};         // addresses of the daemons that computed it, if this process did not
};

class Generator {
 public:
  using Id = uint64_t;  // identifies a request of this generator; never 0
  using Done = std::function<void(absl::StatusOr<Generation>)>;

  virtual ~Generator() = default;
  virtual Id Start(const GenerationRequest& request, Done done) = 0;
  virtual void Cancel(Id id) = 0;  // unknown or finished ids are ignored
  // Not OK after a permanent failure of the generator.
  virtual absl::Status Fault() const { return absl::OkStatus(); }
};

}  // namespace varifocal
