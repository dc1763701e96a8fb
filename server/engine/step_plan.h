// What one step computes: rows of some sequences, all prefill or all decode, all under one attention setting.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "server/engine/sequence.h"
#include "server/model/forward.h"

namespace varifocal {

struct StepEntry {
  Sequence* sequence = nullptr;
  int64_t row_count = 0;
  size_t logits_begin = 0;  // its entries in head_rows
  size_t logits_count = 0;
  size_t continuation = 0;  // index, for rows of a continuation
};

struct StepPlan {
  kernels::Phase phase = kernels::Phase::kPrefill;
  bool whole_prompt = false;  // one sequence, its whole prompt, which may be longer than a chunk
  std::vector<int32_t> tokens;
  std::vector<ForwardSequence> forward_sequences;  // one for each entry
  std::vector<kernels::HeadRow> head_rows;
  int64_t logits_slot_count = 0;      // one for each draw
  std::vector<StepEntry> entries;     // a sequence may occur more than once, with different continuations
  std::vector<PageCopy> page_copies;  // before the step

  bool empty() const { return entries.empty(); }
  // Appends rows of `sequence` at positions from `first_position` on, in its own pages or in those of a branch.
  void AddRows(Sequence* sequence, std::span<const int32_t> token_ids, int64_t first_position);
  void AddRows(Sequence* sequence, std::span<const int32_t> token_ids, int64_t first_position,
               const std::vector<std::vector<int32_t>>& tables);
  // Adds a head row of the entry added last, at `row` of its rows: for a target, or for a draw.
  void RequestLogits(int64_t row, int32_t target, const kernels::TokenDraw& draw = {});
};

// The last rows of prompts whose attention was asked for, as far as this step contains them. `sums`, one of each entry,
// begin with the rows of earlier steps; the step adds its own.
std::vector<RowInspection> Inspections(const StepPlan& plan, std::vector<InspectedAttention>* sums);
// Into the results of the sequences, after the step has run: one that fails is repeated.
void KeepInspections(const StepPlan& plan, std::vector<InspectedAttention> sums);

// Into the results of the sequences whose prompts end with this step, which has run: their pages are all there, and may be released
// when its results are applied. Errors as Forward::Run.
absl::Status CountPromptGroups(const Transformer& model, KvPools pools, const StepPlan& plan);

}  // namespace varifocal
