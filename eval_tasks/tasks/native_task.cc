#include "eval_tasks/tasks/native_task.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/seeds.h"
#include "eval_tasks/tasks/fit.h"

namespace varifocal {
namespace {

// Continuations are not generated, but take space in the context.
absl::StatusOr<int> ReservedTokens(const ContextPlan& plan, int max_new_tokens, const TokenCounter& tokenizer) {
  int reserved = max_new_tokens;
  for (const PlannedQuestion& question : plan.questions()) {
    for (const std::string& continuation : question.continuations) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.EncodePiece(continuation));
      reserved = std::max<int>(reserved, ids.size());
    }
  }
  return reserved;
}

std::vector<PromptSpan> EvidenceBytes(const ContextPlan& plan, const FittedContext& fitted, int question_index) {
  std::vector<PromptSpan> spans;
  for (const UnitSpan& in_unit : plan.Evidence(fitted.units, question_index)) {
    PromptSpan span;
    span.byte_begin = fitted.unit_begin[in_unit.unit_index] + in_unit.offset;
    span.byte_end = span.byte_begin + in_unit.size;
    spans.push_back(span);
  }
  return spans;
}

// Each run of adjacent distractors is a span, separators included.
std::vector<PromptSpan> DistractorBytes(const ContextPlan& plan, const FittedContext& fitted, int question_index) {
  std::vector<PromptSpan> spans;
  int last = -2;
  for (const int unit : plan.DistractorUnits(fitted.units, question_index)) {
    if (unit != last + 1) spans.push_back({.byte_begin = static_cast<int64_t>(fitted.unit_begin[unit])});
    spans.back().byte_end = fitted.unit_begin[unit] + fitted.units[unit].text.size();
    last = unit;
  }
  return spans;
}

std::vector<PromptSpan*> SharedSpans(Sample& sample) {
  std::vector<PromptSpan*> spans;
  for (PromptSpan& span : sample.evidence) spans.push_back(&span);
  for (PromptSpan& span : sample.distractors) spans.push_back(&span);
  return spans;
}

// A token with bytes of both is evidence.
void LeaveTokensToEvidence(Sample& sample) {
  for (PromptSpan& span : sample.distractors) {
    for (const PromptSpan& evidence : sample.evidence) {
      if (evidence.byte_begin >= span.byte_end) span.token_end = std::min(span.token_end, evidence.token_begin);
      if (evidence.byte_end <= span.byte_begin) span.token_begin = std::max(span.token_begin, evidence.token_end);
    }
  }
  std::erase_if(sample.distractors, [](const PromptSpan& span) { return span.token_begin >= span.token_end; });
}

// Evidence and distractors are in the shared context, so one pass over the first prompt locates the tokens of all
// questions' spans; a prompt whose ids differ before the end of its spans is searched separately.
absl::Status LocateSpans(const TokenCounter& tokenizer, std::vector<Sample>& samples) {
  std::vector<PromptSpan*> all;
  for (Sample& sample : samples) {
    const std::vector<PromptSpan*> spans = SharedSpans(sample);
    all.insert(all.end(), spans.begin(), spans.end());
  }
  const std::vector<int32_t>& ids = samples[0].token_ids;
  RETURN_IF_ERROR(LocateTokens(samples[0].prompt, ids, tokenizer, all));
  for (Sample& sample : samples) {
    int64_t end = 0;
    const std::vector<PromptSpan*> spans = SharedSpans(sample);
    for (const PromptSpan* span : spans) end = std::max(end, span->token_end);
    const bool is_same =
        end <= std::ssize(sample.token_ids) && std::equal(ids.begin(), ids.begin() + end, sample.token_ids.begin());
    if (!is_same) RETURN_IF_ERROR(LocateTokens(sample.prompt, sample.token_ids, tokenizer, spans));
    RETURN_IF_ERROR(LocateTokens(sample.prompt, sample.token_ids, tokenizer, sample.question));
    LeaveTokensToEvidence(sample);
  }
  return absl::OkStatus();
}

}  // namespace

NativeTask::NativeTask(TaskSpec spec, NativeFamily family) : spec_(std::move(spec)), family_(std::move(family)) {
  if (spec_.is_chat_form()) family_.stop_strings.clear();
}

int NativeTask::question_count() const { return family_.question_count; }

GroupRange NativeTask::GroupOf(int index) const {
  return {index - index % family_.questions_per_context, family_.questions_per_context};
}

Sample NativeTask::Identify(const SampleRequest& request) const {
  const Sha256Digest item_seed = ItemSeed(request.seed, spec_.name, request.index);
  const int group = request.index / family_.questions_per_context;
  Sample sample = AskedSample(spec_, request);
  sample.row_id = family_.row_ids.empty() ? absl::StrCat(request.index) : family_.row_ids[request.index];
  sample.question_id = QuestionId(spec_.name, request.index, item_seed);
  sample.cluster = ClusterId(spec_.name, group, GroupSeed(request.seed, spec_.name, group));
  sample.stop_strings = family_.stop_strings;
  sample.max_new_tokens = AnswerTokens(spec_, family_.max_new_tokens);
  sample.thinking_max_tokens = spec_.answer.thinking_max_tokens;
  sample.sampling_seed = SamplingSeed(item_seed);
  return sample;
}

std::vector<absl::StatusOr<Sample>> NativeTask::MakeGroup(const SampleRequest& request,
                                                          const TokenCounter& tokenizer) const {
  absl::StatusOr<std::vector<Sample>> samples = FillGroup(request, tokenizer);
  if (!samples.ok()) {
    return std::vector<absl::StatusOr<Sample>>(family_.questions_per_context, samples.status());
  }
  return std::vector<absl::StatusOr<Sample>>(std::make_move_iterator(samples->begin()),
                                             std::make_move_iterator(samples->end()));
}

absl::StatusOr<std::vector<Sample>> NativeTask::FillGroup(const SampleRequest& request,
                                                          const TokenCounter& tokenizer) const {
  const GroupRange range = GroupOf(request.index);
  GroupSeeds seeds;
  seeds.context_length = request.context_length;
  seeds.group_index = range.first_index / range.count;
  seeds.group = GroupSeed(request.seed, spec_.name, seeds.group_index);
  for (int i = 0; i < range.count; ++i) {
    seeds.items.push_back(ItemSeed(request.seed, spec_.name, range.first_index + i));
  }
  const std::unique_ptr<ContextPlan> plan = family_.make_plan(spec_, seeds);
  if (spec_.is_chat_form()) plan->AskInChat(family_.answer_words);

  FitRequest fit;
  fit.task = spec_.name;
  fit.context_length = request.context_length;
  ASSIGN_OR_RETURN(fit.max_new_tokens,
                   ReservedTokens(*plan, TokensInContext(spec_, family_.max_new_tokens), tokenizer));
  fit.filler_seed = FillerSeed(seeds.group, request.context_length);
  ASSIGN_OR_RETURN(FittedContext fitted, FitContext(*plan, fit, tokenizer));

  ASSIGN_OR_RETURN(const Truncation truncation, plan->MeasureTruncation(fitted.units.size(), tokenizer));

  std::vector<Sample> samples;
  for (int i = 0; i < range.count; ++i) {
    const PlannedQuestion& question = plan->questions()[i];
    Sample sample = Identify({request.seed, request.context_length, range.first_index + i});
    sample.tokenizer_sha256 = tokenizer.sha256();
    sample.prompt = absl::StrCat(fitted.shared, question.line);
    sample.token_ids = std::move(fitted.token_ids[i]);
    sample.shared_prefix_bytes = fitted.shared.size();
    if (!question.continuations.empty()) sample.max_new_tokens = fit.max_new_tokens;
    sample.continuations = question.continuations;
    sample.gold = question.gold;
    if (!question.continuations.empty()) sample.gold_continuation_indices = {question.gold_continuation_index};
    sample.depth = question.depth;
    sample.evidence = EvidenceBytes(*plan, fitted, i);
    if (request.locates_all) {
      sample.distractors = DistractorBytes(*plan, fitted, i);
      sample.question = {{.byte_begin = sample.shared_prefix_bytes, .byte_end = std::ssize(sample.prompt)}};
    }
    sample.truncation = truncation;
    sample.shortfall_tokens = request.context_length - sample.prompt_token_count() - fit.max_new_tokens;
    samples.push_back(std::move(sample));
  }
  RETURN_IF_ERROR(LocateSpans(tokenizer, samples));
  return samples;
}

double DrawDepth(const TaskSpec& spec, int question_index, Random& item) {
  const double drawn = (question_index + item.Uniform()) / kQuestionsPerContext;
  return FindNumber(spec.parameters, "depth").value_or(drawn);
}

}  // namespace varifocal
