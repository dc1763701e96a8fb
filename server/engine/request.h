// A request to the engine, its callbacks and its result.
//
// A request is token ids and one kind of work: generate, score continuations, or score the text itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sampling.h"
#include "server/model/attention/setting.h"
#include "server/model/inspected_attention.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/thinking.h"

namespace varifocal {

using EngineHandle = uint64_t;  // of an active request, unique in its engine

// A model that thinks: a bound of its own for the tokens of its blocks, then max_tokens for the answer (tokenizer/thinking.h).
struct ThinkingWork {
  ThinkingRule rule;
  int64_t tokens_max = 0;         // in blocks, markers included; >= 1
  int64_t answer_tokens_max = 0;  // outside of them; >= 1
  // Not empty: where a block reaches its bound, these follow instead of what the model would generate, once, and the answer
  // is generated after them. They end the block.
  std::vector<int32_t> forced_ids = {};
};

// Generate tokens after the prompt. Randomness is keyed by (seed, position): the same request gives the same tokens.
// `scored` are continuations scored on the prompt's keys and values before the second token is generated, as
// ScoreContinuationsWork would; they change no bit of what is generated.
struct GenerateWork {
  int64_t max_new_tokens = 0;  // >= 1; with `thinking` the sum of both bounds and the forced tokens
  bool ignore_eos = false;
  Sampling sampling;
  uint64_t seed = 0;
  std::vector<std::string> stop;                  // generation ends when its text contains one of them
  std::vector<std::vector<int32_t>> scored = {};  // each 1 to max_new_tokens tokens; may be empty
  std::optional<ThinkingWork> thinking = {};      // stop strings then apply outside of its blocks; needs a tokenizer
};

// Log-likelihood of each continuation after the same prompt; the prompt is run once.
struct ScoreContinuationsWork {
  std::vector<std::vector<int32_t>> continuations;  // each at least one token
};

// Log-probability of every token of the text given those before it.
struct ScoreTextWork {};

// Who asked. While both kinds have work, each gets half of an engine's tokens (scheduler.h).
enum class EngineLane { kJob, kInteractive };
inline constexpr size_t kEngineLaneCount = 2;

struct EngineRequest {
  std::string id;       // for logs only
  std::string context;  // equal for requests that share a context; placement only, may be empty
  EngineLane lane = EngineLane::kInteractive;
  std::vector<int32_t> token_ids;          // special tokens included; at least one
  int64_t invalid_utf8_count = 0;          // of the source text; copied to the result
  AttentionOverrides attention_overrides;  // empty: the checkpoint's setting
  // Not empty: attention of the prompt's last rows, the mean over them, goes into the result, with its mass between each two
  // of these positions, which rise from 0 or above to at most the prompt's length. The last row gives the first new token.
  std::vector<int32_t> inspected_boundaries;
  // The setting of the chat template's own switch, of prompts that another server wraps; none: its default. The ids of a
  // prompt that was wrapped here are already those of the setting.
  std::optional<bool> thinking_switch = {};
  // Of such a prompt of several messages, these; `token_ids` are theirs as they are wrapped here.
  std::vector<ChatTurn> turns = {};
  int64_t inspected_row_count = 1;  // 1 to the prompt's length; these rows are computed, not reused
  bool keep_groups = false;         // the learned groups of the prompt's tokens go into the result
  std::variant<GenerateWork, ScoreContinuationsWork, ScoreTextWork> work;
};

enum class EngineFinishReason { kNone, kEos, kLength, kStop, kCancelled };

struct EngineContinuationScore {
  double log_likelihood = 0;  // sum over the continuation's tokens
  int64_t token_count = 0;
  bool is_greedy = false;               // every token is the argmax at its position
  std::vector<double> token_log_probs;  // token_count of them
};

// The learned groups of a prompt's tokens in one layer.
struct LayerGroups {
  int64_t layer = 0;
  int group_count = 0;
  uint64_t visible_pair_count = 0;
  uint64_t largest_group_count = 0;  // tokens that hold the largest group
  std::vector<uint32_t> groups;      // of each token, a bit a group
};

struct EngineResult {
  // GenerateWork
  std::vector<int32_t> new_token_ids;  // including the EOS; none from a server that sends text
  int64_t new_token_count = 0;         // the same where there are none
  // Under the model's distribution, independent of sampling; 0 of forced tokens.
  std::vector<double> new_token_log_probs;
  std::string
      text;  // decoded new tokens without special tokens, truncated before the stop string; "" without a tokenizer
  int64_t thinking_token_count = 0;  // with `thinking`: new tokens in blocks, forced ones included
  bool is_thinking_forced = false;
  std::string matched_stop;  // the stop string found, when finish_reason is kStop
  EngineFinishReason finish_reason =
      EngineFinishReason::kNone;  // kCancelled: partial result, the tokens generated so far
  // ScoreContinuationsWork, and GenerateWork::scored; in request order
  std::vector<EngineContinuationScore> continuations;
  // ScoreTextWork: one per token, the first is absent
  std::vector<std::optional<double>> token_log_probs;
  // both kinds of scoring: the sum over scored tokens
  double log_likelihood = 0;

  int64_t prompt_token_count = 0;
  int64_t cached_token_count = 0;  // of the prompt, taken from the prefix cache
  int64_t invalid_utf8_count = 0;  // from the request
  bool extrapolated = false;       // some position is beyond trained_context_length
  int attempt_count = 1;           // workers or devices that began it
  std::string worker;              // address of the daemon that gave the result; "" for the engine in this process
  std::string notes;               // one line for the report, e.g. why prefix reuse was refused; usually empty

  int64_t queue_us = 0;    // from Start to the first step
  int64_t prefill_us = 0;  // from the first step to the end of the prompt and of scoring
  int64_t decode_us = 0;   // from there to the last token

  // Learned tau only: share of (layer, row) pairs of this request's computed rows at either bound.
  std::optional<double> tau_at_min_share;
  std::optional<double> tau_at_max_share;

  // Learned groups only, of the prompt (group_shares.h).
  std::optional<double> pairs_visible_share;
  std::optional<double> largest_group_share;
  std::vector<LayerGroups> layer_groups;  // where keep_groups asked for them

  InspectedAttention inspected;  // where inspected_boundaries asked for it
};

struct EngineProgress {
  int64_t prompt_token_count = 0;
  int64_t prompt_tokens_done = 0;  // cached ones included
  int64_t new_token_count = 0;
};

struct EngineCallbacks {
  std::function<void(const EngineProgress&)> on_progress;           // optional; after each prefill chunk
  std::function<void(int32_t token_id, double log_prob)> on_token;  // optional; each new token
  std::function<void(absl::StatusOr<EngineResult>)>
      on_done;  // required; called exactly once, possibly before Start returns
};

}  // namespace varifocal
