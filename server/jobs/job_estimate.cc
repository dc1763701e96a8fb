#include "server/jobs/job_estimate.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {
namespace {

constexpr int64_t kPageTokens = 128;           // prefixes are reused in whole pages
constexpr int64_t kCheckedRowCountMax = 1000;  // of a user's data, for each task and length

// Cost of the questions of one context, from the first context of its task and length.
struct GroupCost {
  int64_t prompt_tokens = 0;  // of one question
  int64_t shared_tokens = 0;  // of them, reused by the second question and later ones
  int64_t new_tokens = 0;
};

absl::StatusOr<GroupCost> MeasureGroup(const Task& task, const SampleRequest& request, const TokenCounter& tokenizer,
                                       int* made_count) {
  const std::vector<absl::StatusOr<Sample>> samples = task.MakeGroup(request, tokenizer);
  GroupCost cost;
  const Sample* first = nullptr;
  for (const absl::StatusOr<Sample>& made : samples) {
    if (absl::IsOutOfRange(made.status())) continue;  // fails for itself: CheckRows counts it
    if (!made.ok()) return made.status();
    const Sample& sample = *made;
    if (first == nullptr) first = &sample;
    ++*made_count;
    cost.prompt_tokens = std::max<int64_t>(cost.prompt_tokens, sample.prompt_token_count());
    if (sample.continuations.empty()) {
      cost.new_tokens = std::max<int64_t>(cost.new_tokens, sample.later_tokens_max());
      continue;
    }
    for (const std::string& continuation : sample.continuations) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.EncodePiece(continuation));
      cost.new_tokens = std::max<int64_t>(cost.new_tokens, std::ssize(ids));
    }
  }
  if (first != nullptr && !first->prompt.empty()) {
    const double share = static_cast<double>(first->shared_prefix_bytes) / first->prompt.size();
    cost.shared_tokens = static_cast<int64_t>(share * cost.prompt_tokens) / kPageTokens * kPageTokens;
  }
  return cost;
}

// Rows of users' data that cannot be asked, such as one too long for its length: they fail without ending the job.
struct RowCheck {
  std::set<const GridGroup*> failed_groups;  // no question of these can be asked
  std::vector<std::string> notes;
};

absl::StatusOr<RowCheck> CheckRows(const JobSpec& spec, const Grid& grid, const Variant& variant,
                                   const HostedModel& model, const std::function<bool()>& is_abandoned) {
  struct Count {
    int64_t checked = 0, failed = 0;
    bool is_whole = true;
    std::string first_failure;
  };
  RowCheck check;
  std::map<std::pair<int, int>, Count> counts;  // by task and length
  for (const GridGroup& group : grid.groups) {
    const Task& task = *grid.tasks[group.task_index];
    if (task.data_sha256().empty()) continue;
    Count& count = counts[{group.task_index, group.context_length}];
    count.is_whole = count.checked < kCheckedRowCountMax;
    if (!count.is_whole) continue;
    if (is_abandoned && is_abandoned()) return absl::CancelledError("the call was abandoned");
    const bool chat = spec.suite.tasks[group.task_index].chat;
    const auto tokenizer = MakeVariantCounter(model.tokenizer, model.chat_format, chat, ThinkingOf(variant.overrides));
    int failed = 0;
    std::vector<absl::StatusOr<Sample>> samples = grid.MakeSamples(group, *tokenizer);
    samples.resize(std::min<size_t>(samples.size(), group.count));
    for (const absl::StatusOr<Sample>& sample : samples) {
      ++count.checked;
      if (!absl::IsOutOfRange(sample.status())) continue;
      if (count.failed++ == 0) count.first_failure = std::string(sample.status().message());
      ++failed;
    }
    if (failed == group.count) check.failed_groups.insert(&group);
  }
  for (const auto& [key, count] : counts) {
    if (count.failed == 0) continue;
    check.notes.push_back(absl::StrCat(model.name, ": ", count.failed, " of ", count.is_whole ? "" : "the first ",
                                       count.checked, " questions of \"", grid.tasks[key.first]->name(), "\" at ",
                                       key.second, " tokens will fail: ", count.first_failure));
  }
  return check;
}

}  // namespace

absl::StatusOr<JobEstimate> EstimateJob(const JobSpec& spec, const Grid& grid,
                                        const std::vector<std::shared_ptr<HostedModel>>& models,
                                        const std::function<bool()>& is_abandoned) {
  JobEstimate estimate;
  estimate.cell_count = grid.cells.size();
  estimate.sample_count = grid.SampleCount();
  std::set<const HostedModel*> distinct;
  std::set<std::string> notes(grid.notes.begin(), grid.notes.end());
  for (const auto& model : models) {
    if (!distinct.insert(model.get()).second) continue;
    estimate.weights_bytes += model->provenance.weight_bytes;
    estimate.memory_bytes_max += model->provenance.weight_bytes + model->engine->Describe().kv_cache_bytes;
  }

  RowCheck rows;
  if (!models.empty()) {
    ASSIGN_OR_RETURN(rows, CheckRows(spec, grid, spec.variants.front(), *models.front(), is_abandoned));
    notes.insert(rows.notes.begin(), rows.notes.end());
  }

  std::map<std::tuple<int, int, std::string>, GroupCost> costs;  // by task, length and tokenizer
  // Groups of one task, length and size cost the same; a job has a few kinds and up to half a million groups.
  std::map<std::tuple<int, int, int>, std::pair<GridGroup, int64_t>> kinds;  // the first group of a kind, and how many
  for (const GridGroup& group : grid.groups) {
    if (rows.failed_groups.count(&group) > 0) continue;
    ++kinds.try_emplace({group.task_index, group.context_length, group.count}, group, 0).first->second.second;
  }
  for (const auto& [kind, groups] : kinds) {
    const GridGroup& group = groups.first;
    const int64_t group_count = groups.second;
    for (size_t v = 0; v < models.size(); ++v) {
      const auto& model = models[v];
      if (is_abandoned && is_abandoned()) return absl::CancelledError("the call was abandoned");
      const bool chat = spec.suite.tasks[group.task_index].chat;
      const auto tokenizer =
          MakeVariantCounter(model->tokenizer, model->chat_format, chat, ThinkingOf(spec.variants[v].overrides));
      const auto key = std::make_tuple(group.task_index, group.context_length, tokenizer->sha256());
      if (costs.count(key) == 0) {
        ASSIGN_OR_RETURN(costs[key], MeasureGroup(*grid.tasks[group.task_index], group.Request(), *tokenizer,
                                                  &estimate.checked_sample_count));
      }
      const GroupCost& cost = costs[key];
      ASSIGN_OR_RETURN(const EngineEstimate whole, model->engine->Estimate(cost.prompt_tokens, cost.new_tokens));
      const bool reuses = model->engine->Describe().prefix_cache && !model->config.attention.NeedsWholePrompt();
      const int64_t again_tokens =
          reuses ? std::max<int64_t>(1, cost.prompt_tokens - cost.shared_tokens) : cost.prompt_tokens;
      // A later epoch has the whole prompt of the one before it, of which the last token is computed.
      const int64_t epoch_tokens = reuses ? (cost.prompt_tokens - 1) % kPageTokens + 1 : cost.prompt_tokens;
      const int64_t epoch_count = int64_t{group.count} * (grid.epochs - 1);
      const auto seconds_of = [&](int64_t computed_tokens) -> absl::StatusOr<double> {
        if (!reuses) return whole.seconds;
        ASSIGN_OR_RETURN(const EngineEstimate again, model->engine->Estimate(cost.prompt_tokens, cost.new_tokens,
                                                                             cost.prompt_tokens - computed_tokens));
        return again.seconds;
      };
      double seconds = whole.seconds;
      if (group.count > 1) {
        ASSIGN_OR_RETURN(const double again, seconds_of(again_tokens));
        seconds += (group.count - 1) * again;
      }
      if (epoch_count > 0) {
        ASSIGN_OR_RETURN(const double again, seconds_of(epoch_tokens));
        seconds += epoch_count * again;
      }
      estimate.prompt_token_count += group_count * group.count * grid.epochs * cost.prompt_tokens;
      estimate.computed_prompt_token_count +=
          group_count * (cost.prompt_tokens + (group.count - 1) * again_tokens + epoch_count * epoch_tokens);
      estimate.new_token_count += group_count * group.count * grid.epochs * cost.new_tokens;
      // A context stays on one copy.
      estimate.duration_seconds +=
          group_count * seconds / std::min<int64_t>(group_count, model->engine->ServingCopyCount());
      estimate.kv_cache_bytes = std::max(estimate.kv_cache_bytes, whole.cache_bytes);
      if (!whole.fits) {
        notes.insert(absl::StrCat(model->name, ": a sample of ", group.context_length, " tokens needs ",
                                  whole.cache_bytes, " bytes of keys and values, the limit is ",
                                  whole.cache_bytes_limit));
      }
      if (model->config.trained_context_length && group.context_length > *model->config.trained_context_length) {
        notes.insert(absl::StrCat(model->name, ": lengths above ", *model->config.trained_context_length,
                                  " are beyond what it was trained on; results there are labelled extrapolated"));
      }
      if (!model->engine->Describe().estimates_time)
        notes.insert(absl::StrCat(model->name, ": its server's time is not estimated"));
      if (model->config.attention.NeedsWholePrompt()) {
        notes.insert(
            absl::StrCat(model->name, ": its temperature depends on the whole prompt, so no context is shared"));
      }
    }
  }
  estimate.notes.assign(notes.begin(), notes.end());
  return estimate;
}

}  // namespace varifocal
