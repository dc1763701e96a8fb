#include "server/engine/step_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "server/engine/group_shares.h"

namespace varifocal {

void StepPlan::AddRows(Sequence* sequence, std::span<const int32_t> token_ids, int64_t first_position) {
  AddRows(sequence, token_ids, first_position, sequence->pages.tables);
}

void StepPlan::AddRows(Sequence* sequence, std::span<const int32_t> token_ids, int64_t first_position,
                       const std::vector<std::vector<int32_t>>& tables) {
  VF_CHECK(!token_ids.empty(), "an entry has rows");
  tokens.insert(tokens.end(), token_ids.begin(), token_ids.end());
  forward_sequences.push_back({.row_count = std::ssize(token_ids),
                               .first_position = first_position,
                               .prompt_length = sequence->prompt_length(),
                               .pages = {tables.begin(), tables.end()}});
  entries.push_back({.sequence = sequence, .row_count = std::ssize(token_ids), .logits_begin = head_rows.size()});
}

void StepPlan::RequestLogits(int64_t row, int32_t target, const kernels::TokenDraw& draw) {
  StepEntry& entry = entries.back();
  const int64_t first_row = std::ssize(tokens) - entry.row_count;
  head_rows.push_back({.row = static_cast<int32_t>(first_row + row),
                       .target = target,
                       .logits_slot = draw.temperature > 0 ? static_cast<int32_t>(logits_slot_count++) : -1,
                       .draw = draw});
  ++entry.logits_count;
}

namespace {

bool EndsPrompt(const StepEntry& entry) {
  const Sequence& sequence = *entry.sequence;
  const int64_t length = sequence.prompt_length();
  return sequence.rows_done < length && sequence.rows_done + entry.row_count >= length;
}

}  // namespace

std::vector<RowInspection> Inspections(const StepPlan& plan, std::vector<InspectedAttention>* sums) {
  sums->assign(plan.entries.size(), {});
  std::vector<RowInspection> inspections;
  int64_t row_begin = 0;
  for (size_t i = 0; i < plan.entries.size(); row_begin += plan.entries[i++].row_count) {
    const Sequence& sequence = *plan.entries[i].sequence;
    const EngineRequest& request = sequence.request;
    const int64_t length = sequence.prompt_length();
    if (request.inspected_boundaries.empty() || sequence.rows_done >= length) continue;
    const int64_t first = length - request.inspected_row_count;  // by position
    const int64_t begin = std::max(first, sequence.rows_done);
    const int64_t end = std::min(length, sequence.rows_done + plan.entries[i].row_count);
    if (begin > first) (*sums)[i] = sequence.result.inspected;
    for (int64_t position = begin; position < end; ++position) {
      inspections.push_back({.row = row_begin + position - sequence.rows_done,
                             .boundaries = request.inspected_boundaries,
                             .share = 1.0 / request.inspected_row_count,
                             .result = &(*sums)[i]});
    }
  }
  return inspections;
}

void KeepInspections(const StepPlan& plan, std::vector<InspectedAttention> sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].heads.empty()) plan.entries[i].sequence->result.inspected = std::move(sums[i]);
  }
}

absl::Status CountPromptGroups(const Transformer& model, KvPools pools, const StepPlan& plan) {
  for (const StepEntry& entry : plan.entries) {
    Sequence& sequence = *entry.sequence;
    const int64_t length = sequence.prompt_length();
    if (sequence.timing_only || !EndsPrompt(entry)) continue;
    ASSIGN_OR_RETURN(std::optional<GroupShares> shares,
                     ReadGroupShares(model, pools, sequence.attention, sequence.pages.tables, length));
    if (!shares) continue;
    EngineResult& result = sequence.result;
    result.pairs_visible_share = shares->pairs_visible;
    result.largest_group_share = shares->largest_group;
    if (sequence.request.keep_groups) result.layer_groups = std::move(shares->layers);
  }
  return absl::OkStatus();
}

}  // namespace varifocal
