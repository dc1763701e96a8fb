// One request in the engine: its work, pages and progress.
#pragma once

#include <cstdint>
#include <set>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "base/sha256.h"
#include "server/engine/page_store.h"
#include "server/engine/request.h"

namespace varifocal {

// How far a generation's thinking blocks are; kept over preemption, as the tokens are.
struct ThinkingProgress {
  bool keeps_special_tokens = false;  // the markers have special tokens, which are left out of other texts
  bool is_inside = false;
  int block_count = 0;
};

struct Sequence {
  EngineHandle handle = 0;
  EngineRequest request;
  EngineCallbacks callbacks;
  AttentionSetting attention;             // sequences with equal json() may share a step
  std::vector<Sha256Digest> page_hashes;  // whole pages of the prompt; empty when prefixes are not shared
  int64_t reusable_page_count = 0;        // of page_hashes, those that may be reused from the cache
  bool timing_only = false;               // internal timing request: not in the prefix cache
  SequenceExtent extent;
  std::vector<RopeConfig> ropes;
  int64_t position_max = 0;  // of the setting
  int64_t rope_length = 0;   // RopeLength of prompt and all tokens that may follow

  HeldPages pages;
  std::set<int64_t> shared_ends;           // page counts of prefixes that others wait for: window pages there are kept
  int64_t rows_done = 0;                   // positions whose keys and values are in pages
  size_t continuation_index = 0;           // the first unfinished one
  std::vector<int64_t> continuation_done;  // tokens of each continuation that were computed
  std::vector<Branch> branches;            // of the current step: further continuations
  bool prompt_finished = false;
  ThinkingProgress thinking;

  EngineResult result;
  uint64_t tau_at_min_count = 0;
  uint64_t tau_at_max_count = 0;
  uint64_t tau_row_count = 0;  // (layer, row) pairs of both counts
  int64_t arrival_us = 0;
  int64_t first_step_us = -1;
  int64_t prompt_done_us = -1;

  int64_t prompt_length() const { return request.token_ids.size(); }
  const GenerateWork* generate() const { return std::get_if<GenerateWork>(&request.work); }
  // To be scored after the prompt; empty for other work.
  absl::Span<const std::vector<int32_t>> continuations() const {
    if (generate() != nullptr) return generate()->scored;
    const auto* work = std::get_if<ScoreContinuationsWork>(&request.work);
    return work != nullptr ? work->continuations : absl::Span<const std::vector<int32_t>>();
  }
  bool scores_text() const { return std::holds_alternative<ScoreTextWork>(request.work); }
  // Generated tokens processed by decode; never includes the last one.
  int64_t fed_count() const { return rows_done - prompt_length(); }
};

}  // namespace varifocal
