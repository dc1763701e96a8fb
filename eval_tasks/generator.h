// A generator answers samples. The runner depends on no engine and no network, only on this interface.
//
// Adapters are in server/jobs: the engine in this process, and a daemon elsewhere. One Generator serves one model;
// several variants may share it.
//
// Contract: Start returns at once; `done` is called exactly once, from any thread, possibly before Start returns.
//           After Cancel, `done` still comes: with CANCELLED, or with the answer when it was already there.
//           `done` must not be called while holding a lock that Start or Cancel take.
// Errors:   UNAVAILABLE and RESOURCE_EXHAUSTED mean "again, later"; every other code is this sample's result. When Fault
//           is not OK, "later" will not come: the run ends with it, and what was under way stays unanswered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/task.h"

namespace varifocal {

enum class FinishReason { kNone, kEos, kLength, kStop, kCancelled };
const char* FinishReasonName(FinishReason reason);  // "none", "eos", "length", "stop", "cancelled"

// Unset is not zero: an unset field leaves the choice to the server.
struct DecodeSettings {
  std::optional<double> sampling_temperature;  // 0 is greedy
  std::optional<double> top_p;
};

struct GenerationRequest {
  std::shared_ptr<const Sample> sample;    // prompt, token ids, stop strings, continuations, sampling seed
  std::vector<double> focal_temperatures;  // empty: as the model is; one for all layers, or one a layer
  DecodeSettings decode;
  bool chat = false;    // the sample's prompt goes into the model's chat format; its token ids already are in it
  std::string variant;  // for logs
  std::map<std::string, double> attention_overrides = {};  // further run-time settings, by name
};

struct Generation {
  std::string text;                                    // as decoded, before any cutting; a stop string may be in it
  std::vector<int32_t> token_ids;                      // new ones, the EOS that stopped it included
  std::vector<double> token_log_probs;                 // of token_ids; empty when not asked for
  std::vector<ContinuationScore> continuation_scores;  // one for each Sample::continuations
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
  bool extrapolated = false;                  // longer than trained_context_length
};

class Generator {
 public:
  using Id = uint64_t;  // names a request of this generator; never 0
  using Done = std::function<void(absl::StatusOr<Generation>)>;

  virtual ~Generator() = default;
  virtual Id Start(const GenerationRequest& request, Done done) = 0;
  virtual void Cancel(Id id) = 0;  // unknown or finished ids are ignored
  // Why it will never answer again, where that is so.
  virtual absl::Status Fault() const { return absl::OkStatus(); }
};

}  // namespace varifocal
