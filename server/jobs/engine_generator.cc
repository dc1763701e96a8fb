#include "server/jobs/engine_generator.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/exceptions.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/engine/request_check.h"
#include "server/hosting/continuations.h"

namespace varifocal {
namespace {

// A request that never reached the engine has this id: finished, so Cancel ignores it.
constexpr Generator::Id kNeverStarted = std::numeric_limits<Generator::Id>::max();
// Larger ids belong to samples with several requests; engine ids never reach this value.
constexpr Generator::Id kSeveral = Generator::Id{1} << 62;

FinishReason FromEngine(EngineFinishReason reason) {
  switch (reason) {
    case EngineFinishReason::kNone:
      return FinishReason::kNone;
    case EngineFinishReason::kEos:
      return FinishReason::kEos;
    case EngineFinishReason::kLength:
      return FinishReason::kLength;
    case EngineFinishReason::kStop:
      return FinishReason::kStop;
    case EngineFinishReason::kCancelled:
      return FinishReason::kCancelled;
  }
  return FinishReason::kNone;
}

// `boundaries` are those of the request.
std::vector<HeadInspection> Summarize(const Sample& sample, const std::vector<int32_t>& boundaries, int64_t head_count,
                                      const InspectedAttention& inspected) {
  std::vector<HeadInspection> heads;
  const size_t segments = boundaries.empty() ? 0 : boundaries.size() - 1;
  for (size_t i = 0; i < inspected.heads.size(); ++i) {
    if (inspected.heads[i].visible_count == 0) continue;  // of a layer without attention: a row sees itself in others
    HeadInspection head =
        SummarizeHead(sample, boundaries, absl::MakeConstSpan(inspected.masses).subspan(i * segments, segments));
    head.layer = static_cast<int64_t>(i) / head_count;
    head.head = static_cast<int64_t>(i) % head_count;
    head.scale = inspected.heads[i].scale;
    head.entropy = inspected.heads[i].entropy;
    head.largest_weight = inspected.heads[i].largest_weight;
    heads.push_back(std::move(head));
  }
  return heads;
}

// `is_generated`: what was scored is the gold answer beside it.
absl::StatusOr<Generation> ToGeneration(absl::StatusOr<EngineResult> result, bool is_generated) {
  if (!result.ok()) return result.status();
  // A cancelled generation is not an answer.
  if (result->finish_reason == EngineFinishReason::kCancelled) return absl::CancelledError("the request was cancelled");
  Generation generation;
  generation.text = std::move(result->text);
  generation.token_ids = std::move(result->new_token_ids);
  generation.token_log_probs = std::move(result->new_token_log_probs);
  for (const EngineContinuationScore& scored : result->continuations) {
    const ContinuationScore score = {scored.log_likelihood, static_cast<int>(scored.token_count), scored.is_greedy};
    if (is_generated) {
      generation.gold_score = score;
    } else {
      generation.continuation_scores.push_back(score);
    }
  }
  generation.finish_reason = FromEngine(result->finish_reason);
  generation.thinking_token_count = static_cast<int>(result->thinking_token_count);
  generation.is_thinking_forced = result->is_thinking_forced;
  generation.prompt_token_count = result->prompt_token_count;
  generation.cached_token_count = result->cached_token_count;
  generation.queue_us = result->queue_us;
  generation.prefill_us = result->prefill_us;
  generation.decode_us = result->decode_us;
  generation.tau_min_share = result->tau_at_min_share;
  generation.tau_max_share = result->tau_at_max_share;
  generation.pairs_visible_share = result->pairs_visible_share;
  generation.largest_group_share = result->largest_group_share;
  generation.extrapolated = result->extrapolated;
  generation.new_token_count = result->new_token_count;
  generation.attempt_count = result->attempt_count;
  if (!result->worker.empty()) generation.workers = {result->worker};
  return generation;
}

}  // namespace

struct EngineGenerator::Part {
  EngineRequest request;
  std::vector<size_t> continuations;
};

struct EngineGenerator::Fanout {
  explicit Fanout(size_t part_count) : answers(part_count), left_count(part_count) {}

  Mutex mutex;
  std::vector<Engine::Handle> handles;                   // set before the id is published
  std::vector<std::vector<size_t>> continuations;        // of each part
  std::vector<Generation> answers VF_GUARDED_BY(mutex);  // of each part
  absl::Status error VF_GUARDED_BY(mutex);               // the first
  size_t left_count VF_GUARDED_BY(mutex);
  Done done;

  // True when this was the last part.
  bool Add(size_t part, absl::StatusOr<Generation> answer) {
    const MutexLock lock(mutex);
    if (answer.ok()) {
      answers[part] = *std::move(answer);
    } else {
      error.Update(answer.status());
    }
    return --left_count == 0;
  }

  // The answer of one sample: the durations of the slowest part and the longest prompt. After the last part.
  absl::StatusOr<Generation> Merged() {
    const MutexLock lock(mutex);
    if (!error.ok()) return error;
    Generation whole = answers[0];
    size_t count = 0;
    for (const auto& part : continuations) count += part.size();
    whole.continuation_scores.resize(count);
    for (size_t i = 0; i < answers.size(); ++i) {
      const Generation& part = answers[i];
      for (size_t j = 0; j < continuations[i].size(); ++j)
        whole.continuation_scores[continuations[i][j]] = part.continuation_scores[j];
      whole.prompt_token_count = std::max(whole.prompt_token_count, part.prompt_token_count);
      whole.cached_token_count = std::min(whole.cached_token_count, part.cached_token_count);
      whole.queue_us = std::max(whole.queue_us, part.queue_us);
      whole.prefill_us = std::max(whole.prefill_us, part.prefill_us);
      whole.decode_us = std::max(whole.decode_us, part.decode_us);
      whole.tau_min_share = std::max(whole.tau_min_share, part.tau_min_share);
      whole.tau_max_share = std::max(whole.tau_max_share, part.tau_max_share);
      whole.pairs_visible_share = std::max(whole.pairs_visible_share, part.pairs_visible_share);
      whole.largest_group_share = std::max(whole.largest_group_share, part.largest_group_share);
      whole.extrapolated = whole.extrapolated || part.extrapolated;
      whole.attempt_count = std::max(whole.attempt_count, part.attempt_count);
      whole.workers.insert(part.workers.begin(), part.workers.end());
    }
    return whole;
  }
};

struct EngineGenerator::Pending {
  Mutex mutex;
  Id last_id VF_GUARDED_BY(mutex) = kSeveral;
  std::map<Id, std::shared_ptr<Fanout>> fanouts VF_GUARDED_BY(mutex);

  void Finish(Id id, size_t part, absl::StatusOr<Generation> answer) {
    std::shared_ptr<Fanout> one;
    {
      const MutexLock lock(mutex);
      one = fanouts.at(id);
    }
    if (!one->Add(part, std::move(answer))) return;
    {
      const MutexLock lock(mutex);
      fanouts.erase(id);
    }
    one->done(one->Merged());
  }
};

EngineGenerator::EngineGenerator(std::shared_ptr<HostedModel> model)
    : model_(std::move(model)), pending_(std::make_shared<Pending>()) {}

absl::StatusOr<EngineRequest> EngineGenerator::ToGenerate(const GenerationRequest& request) const {
  const Sample& sample = *request.sample;
  EngineRequest engine_request;
  engine_request.thinking_switch = ThinkingOf(request.overrides);
  engine_request.lane = EngineLane::kJob;
  engine_request.token_ids = sample.token_ids;
  engine_request.turns = sample.turns;
  GenerateWork work;
  work.max_new_tokens = sample.later_tokens_max();
  if (sample.thinking.has_value()) {
    const bool shares = sample.thinking_max_tokens == 0;  // one bound for both
    work.thinking = {.rule = sample.thinking->rule,
                     .tokens_max = shares ? sample.max_new_tokens : sample.thinking_max_tokens,
                     .answer_tokens_max = sample.max_new_tokens,
                     .forced_ids = sample.thinking->forced_ids};
  }
  work.sampling = request.decode.ToSampling();
  work.seed = sample.sampling_seed;
  work.stop = sample.stop_strings;
  // A gold answer with a token that the model lacks is not scored; the question is asked all the same.
  const auto is_known = [&](int32_t id) { return id < model_->config.vocabulary_size; };
  if (!sample.gold_token_ids.empty() &&
      std::all_of(sample.gold_token_ids.begin(), sample.gold_token_ids.end(), is_known)) {
    work.scored = {sample.gold_token_ids};
  }
  engine_request.work = std::move(work);
  return engine_request;
}

absl::StatusOr<std::vector<EngineGenerator::Part>> EngineGenerator::ToScore(const GenerationRequest& request) const {
  const Sample& sample = *request.sample;
  std::vector<Part> parts;
  if (!sample.continuation_token_ids.empty()) {
    for (size_t i = 0; i < sample.continuation_token_ids.size(); ++i) {
      parts.push_back({{.token_ids = sample.context_token_ids[i]}, {i}});
      parts.back().request.work = ScoreContinuationsWork{{sample.continuation_token_ids[i]}};
    }
    return parts;
  }
  ChatText prompt{.text = sample.prompt, .plain_parts = {}};
  if (request.chat) {
    RETURN_IF_ERROR(CheckHasChatFormat(*model_));
    ASSIGN_OR_RETURN(const std::shared_ptr<const ChatFormat> format, ChatFormatOf(*model_, request.overrides));
    ASSIGN_OR_RETURN(prompt, format->Wrap(sample.prompt));
  }
  for (size_t i = 0; i < sample.continuations.size(); ++i) {
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const Part& part) {
      return sample.Given(part.continuations[0]) == sample.Given(i);
    });
    if (same != parts.end()) {
      same->continuations.push_back(i);
    } else {
      parts.push_back({{}, {i}});
    }
  }
  for (Part& part : parts) {
    const size_t first = part.continuations[0];
    std::vector<std::string> scored;
    for (const size_t i : part.continuations) scored.emplace_back(sample.Scored(i));
    ChatText context = prompt;
    context.AppendPlain(sample.Given(first));
    ASSIGN_OR_RETURN(SplitContinuations split,
                     SplitPromptAndContinuations(*model_->tokenizer, context, scored, request.chat));
    if (split.prompt_token_ids != (sample.given_bytes.empty() ? sample.token_ids : sample.context_token_ids[first])) {
      return Internal("sample ", sample.index, " of task \"", sample.task, "\" was made with ",
                      sample.prompt_token_count(), " prompt tokens, and other ", split.prompt_token_ids.size(),
                      " would be run");
    }
    part.request.token_ids = std::move(split.prompt_token_ids);
    part.request.work = ScoreContinuationsWork{std::move(split.continuations)};
  }
  return parts;
}

absl::StatusOr<std::vector<EngineGenerator::Part>> EngineGenerator::ToParts(const GenerationRequest& request) const {
  const Sample& sample = *request.sample;
  ASSIGN_OR_RETURN(const AttentionOverrides overrides, ToAttentionOverrides(model_->config, request.overrides));
  std::vector<Part> parts;
  if (sample.continuations.empty()) {
    ASSIGN_OR_RETURN(const int64_t limit, PositionLimit(model_->config, overrides));
    RETURN_IF_ERROR(CheckLength(limit, sample.prompt_token_count(), sample.later_tokens_max()));
    ASSIGN_OR_RETURN(EngineRequest whole, ToGenerate(request));
    parts.push_back({std::move(whole), {}});
  } else {
    ASSIGN_OR_RETURN(parts, ToScore(request));
  }
  for (Part& part : parts) {
    part.request.context = absl::StrCat(sample.cluster, "/", sample.context_length);
    part.request.id = absl::StrCat(sample.task, "/", sample.context_length, "/", sample.index, "/", request.variant);
    part.request.attention_overrides = overrides;
  }
  return parts;
}

Generator::Id EngineGenerator::Start(const GenerationRequest& request, Done done) {
  absl::StatusOr<std::vector<Part>> parts = CatchExceptions("encoding the sample", [&] { return ToParts(request); });
  if (!parts.ok()) {
    done(parts.status());
    return kNeverStarted;
  }
  if (parts->size() > 1) return StartFanout(*std::move(parts), std::move(done));
  // The engine takes its callback by value and drops it when Start fails, so `done` is kept here as well.
  EngineCallbacks callbacks;
  const int64_t rows = request.inspect ? InspectedRowCount(*request.sample, request.inspected_rows) : 0;
  const std::vector<int32_t> boundaries = rows > 0 ? InspectionBoundaries(*request.sample) : std::vector<int32_t>();
  (*parts)[0].request.inspected_boundaries = boundaries;
  (*parts)[0].request.inspected_row_count = std::max<int64_t>(rows, 1);
  callbacks.on_done = [done, boundaries, sample = request.sample,
                       heads = model_->config.head_count](absl::StatusOr<EngineResult> result) {
    absl::StatusOr<Generation> generation = ToGeneration(result, /*is_generated=*/sample->continuations.empty());
    if (generation.ok()) generation->attention = Summarize(*sample, boundaries, heads, result->inspected);
    done(std::move(generation));
  };
  const absl::StatusOr<Engine::Handle> handle = CatchExceptions("starting the sample", [&] {
    return model_->engine->Start(std::move((*parts)[0].request), std::move(callbacks));
  });
  if (!handle.ok()) {
    done(handle.status());
    return kNeverStarted;
  }
  return *handle + 1;  // an id is never 0, a handle may be
}

Generator::Id EngineGenerator::StartFanout(std::vector<Part> parts, Done done) {
  const auto fanout = std::make_shared<Fanout>(parts.size());
  fanout->done = std::move(done);
  for (const Part& part : parts) fanout->continuations.push_back(part.continuations);
  Id id = 0;
  {
    const MutexLock lock(pending_->mutex);
    id = ++pending_->last_id;
    pending_->fanouts[id] = fanout;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    EngineCallbacks callbacks;
    callbacks.on_done = [pending = pending_, id, i](absl::StatusOr<EngineResult> result) {
      pending->Finish(id, i, ToGeneration(std::move(result), /*is_generated=*/false));
    };
    const absl::StatusOr<Engine::Handle> handle = CatchExceptions("starting the sample", [&] {
      return model_->engine->Start(std::move(parts[i].request), std::move(callbacks));
    });
    if (handle.ok()) {
      fanout->handles.push_back(*handle);
      continue;
    }
    // Recorded before the others are cancelled: the first error is the outcome.
    for (size_t j = i; j < parts.size(); ++j) pending_->Finish(id, j, handle.status());
    for (const Engine::Handle started : fanout->handles) model_->engine->Cancel(started);
    break;
  }
  return id;
}

void EngineGenerator::Cancel(Id id) {
  if (id == kNeverStarted) return;
  if (id <= kSeveral) return model_->engine->Cancel(id - 1);
  std::vector<Engine::Handle> handles;
  {
    const MutexLock lock(pending_->mutex);
    const auto found = pending_->fanouts.find(id);
    if (found != pending_->fanouts.end()) handles = found->second->handles;
  }
  for (const Engine::Handle handle : handles) model_->engine->Cancel(handle);
}

absl::Status EngineGenerator::Fault() const { return FaultOf(*model_); }

}  // namespace varifocal
