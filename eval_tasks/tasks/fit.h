// Fitting: the maximum number of units for a context length, measured with the model's tokenizer.
//
// Probes are measured chunk by chunk (chunk_counter.h), so that a probe costs only its new parts and not the whole
// prompt; effects across chunks are corrected by encodings of whole prompts, and the result is an exact encoding. When
// no further unit fits, filler units are exchanged for longer ones until the gap is small, and if it is not, a part of
// the following text is appended.
//
// Errors:  INVALID_ARGUMENT when the length is below the smallest context, or needs more units than there are.
// Cost:    each byte of the context is encoded about twice (once in chunks, once whole), independent of the number of
//          probes and questions, and once more to locate evidence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/sha256.h"
#include "eval_tasks/task.h"
#include "eval_tasks/tasks/context_plan.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {

inline constexpr int kShortfallMax = 16;  // of the longest question of a group, and of others where possible

struct FitRequest {
  absl::string_view task;  // for messages
  int context_length = 0;
  int max_new_tokens = 0;
  Sha256Digest filler_seed{};
};

struct FittedContext {
  std::vector<Unit> units;
  std::vector<size_t> unit_begin;               // byte of each unit in `shared`
  std::string shared;                           // everything before the question lines
  std::vector<std::vector<int32_t>> token_ids;  // of shared + question line, for each question
};

absl::StatusOr<FittedContext> FitContext(const ContextPlan& plan, const FitRequest& request,
                                         const TokenCounter& tokenizer);

// Fills token_begin and token_end of spans whose bytes are known, in one pass over the prompt.
absl::Status LocateTokens(absl::string_view prompt, absl::Span<const int32_t> token_ids, const TokenCounter& tokenizer,
                          absl::Span<PromptSpan* const> spans);
absl::Status LocateTokens(absl::string_view prompt, absl::Span<const int32_t> token_ids, const TokenCounter& tokenizer,
                          std::vector<PromptSpan>& spans);

}  // namespace varifocal
