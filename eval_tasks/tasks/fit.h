// Fitting: as many units as a context length holds, measured by the tokenizer that will be used.
//
// Probes are measured chunk by chunk (chunk_counter.h), so that a probe costs what is new in it and not the whole
// prompt again; what a tokenizer does across chunks is learnt from encodings of whole prompts, and what is handed out
// is an exact encoding. When no further unit fits, filler units are exchanged for longer ones until the gap is small,
// and where it still is not, a part of what would come next is put behind them.
//
// Errors:  INVALID_ARGUMENT when the length cannot hold the smallest context, or needs more units than there are.
// Cost:    each byte of the context is encoded about twice (once in chunks, once whole), whatever the number of probes
//          and of questions, and once more to locate evidence.
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

inline constexpr int kShortfallMax = 16;  // of the longest question of a group, and of all whose lines allow it

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

// Fills token_begin and token_end of spans whose bytes are known. Ascending spans take one pass over the prompt.
absl::Status LocateTokens(absl::string_view prompt, absl::Span<const int32_t> token_ids, const TokenCounter& tokenizer,
                          absl::Span<EvidenceSpan* const> spans);
absl::Status LocateTokens(absl::string_view prompt, absl::Span<const int32_t> token_ids, const TokenCounter& tokenizer,
                          std::vector<EvidenceSpan>& spans);

}  // namespace varifocal
