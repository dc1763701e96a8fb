#include "server/engine/request_check.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/engine/prefix_cache.h"
#include "server/engine/thinking.h"
#include "server/model/forward.h"
#include "server/model/run_time_setting.h"
#include "server/model/transformer.h"

namespace varifocal {
namespace {

// Everything that determines the bits of a page except its tokens.
Sha256Digest PrefixRoot(const LoadedModel& model, const Sequence& sequence) {
  const ModelProvenance& provenance = model.provenance();
  std::string root;
  for (const std::string& part :
       {provenance.weights_sha256, provenance.function_json, sequence.attention.json(), RopesToString(sequence.ropes),
        absl::StrCat(sequence.rope_length), provenance.kernels}) {
    absl::StrAppend(&root, part.size(), ":", part, "\n");
  }
  return Sha256(root);
}

}  // namespace

absl::Status CheckIds(absl::Span<const int32_t> ids, const std::string& field, int64_t vocabulary_size,
                      const Tokenizer* tokenizer) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocabulary_size) continue;
    std::string limit = absl::StrCat("ids must lie in 0..", vocabulary_size - 1);
    if (const auto token = tokenizer == nullptr ? std::nullopt : tokenizer->IdToToken(ids[i])) {
      limit = absl::StrCat("the tokenizer's token ", Json(*token).dump(-1, ' ', false, Json::error_handler_t::replace),
                           ", which the model lacks: its vocab_size is ", vocabulary_size, ", ", limit);
    }
    return WithReason(InvalidArgument("token ", i, " of ", field, " is ", ids[i], "; ", limit),
                      ErrorReason::kBadTokenId, {{"field", field}});
  }
  return absl::OkStatus();
}

// Text alone is supported of a multimodal checkpoint.
absl::Status CheckNoImages(absl::Span<const int32_t> ids, const std::string& field, const ModelConfig& config) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!std::binary_search(config.image_token_ids.begin(), config.image_token_ids.end(), ids[i])) continue;
    return WithReason(Unimplemented("token ", i, " of ", field, " is ", ids[i], ", which stands for an image; of a ",
                                    config.wrapper, " text alone is supported"),
                      ErrorReason::kBadTokenId, {{"field", field}});
  }
  return absl::OkStatus();
}

absl::Status CheckNotEmpty(absl::Span<const int32_t> prompt) {
  if (!prompt.empty()) return absl::OkStatus();
  return WithReason(InvalidArgument("the prompt has no tokens; it must have at least 1"), ErrorReason::kEmptyPrompt,
                    {{"field", "prompt"}});
}

absl::Status CheckThinkingWork(const GenerateWork& work) {
  const auto bad = [](const std::string& problem) {
    return WithReason(absl::InvalidArgumentError(problem), ErrorReason::kBadThinking, {{"field", "thinking"}});
  };
  const ThinkingWork& thinking = *work.thinking;
  const absl::Status markers = CheckThinkingMarkers(thinking.rule.markers);
  if (!markers.ok()) return bad(std::string(markers.message()));
  for (const auto& [name, count] : {std::pair("thinking tokens", thinking.tokens_max),
                                    std::pair("tokens of the answer", thinking.answer_tokens_max)}) {
    if (count >= 1 && count <= work.max_new_tokens) continue;
    return bad(absl::StrCat("the bound of ", name, " is ", count, "; it must be from 1 to max_new_tokens, ",
                            work.max_new_tokens));
  }
  // They come at once, wherever the block ends: the cache has room for max_new_tokens.
  const int64_t bounds = thinking.tokens_max + thinking.answer_tokens_max;
  const int64_t forced_count = std::ssize(thinking.forced_ids);
  if (forced_count == 0 || forced_count <= work.max_new_tokens - bounds) return absl::OkStatus();
  return bad(absl::StrCat("there are ", forced_count, " forced tokens after bounds of ", bounds,
                          " tokens; together they must be at most max_new_tokens, ", work.max_new_tokens));
}

absl::Status CheckGenerateWork(const GenerateWork& work) {
  const auto bad = [](ErrorReason reason, const char* field, const std::string& problem) {
    return WithReason(absl::InvalidArgumentError(problem), reason, {{"field", field}});
  };
  if (work.max_new_tokens < 1) {
    return bad(ErrorReason::kBadMaxNewTokens, "max_new_tokens",
               absl::StrCat("max_new_tokens is ", work.max_new_tokens, "; it must be at least 1"));
  }
  RETURN_IF_ERROR(CheckSampling(work.sampling));
  if (work.stop.size() > kStopsMax) {
    return bad(ErrorReason::kBadStop, "stop",
               absl::StrCat("there are ", work.stop.size(), " stop strings; the limit is ", kStopsMax));
  }
  if (work.thinking.has_value()) RETURN_IF_ERROR(CheckThinkingWork(work));
  for (const std::string& stop : work.stop) {
    if (stop.empty()) return bad(ErrorReason::kBadStop, "stop", "a stop string is empty; it must have at least 1 byte");
  }
  return absl::OkStatus();
}

absl::Status CheckContinuationCount(size_t count) {
  if (count <= kContinuationsMax) return absl::OkStatus();
  return WithReason(InvalidArgument("there are ", count, " continuations; the limit is ", kContinuationsMax),
                    ErrorReason::kBadContinuation, {{"field", "continuations"}});
}

absl::Status CheckContinuations(absl::Span<const std::vector<int32_t>> continuations, int64_t vocabulary_size,
                                const Tokenizer* tokenizer) {
  RETURN_IF_ERROR(CheckContinuationCount(continuations.size()));
  const auto bad = [](const std::string& field, const std::string& problem) {
    return WithReason(absl::InvalidArgumentError(problem), ErrorReason::kBadContinuation, {{"field", field}});
  };
  for (size_t i = 0; i < continuations.size(); ++i) {
    const std::string field = absl::StrCat("continuations[", i, "]");
    if (continuations[i].empty()) return bad(field, absl::StrCat(field, " has no tokens; it must have at least 1"));
    RETURN_IF_ERROR(CheckIds(continuations[i], field, vocabulary_size, tokenizer));
  }
  return absl::OkStatus();
}

absl::Status CheckLength(int64_t limit, int64_t prompt_token_count, int64_t new_token_count) {
  if (prompt_token_count <= limit && new_token_count <= limit - prompt_token_count) return absl::OkStatus();
  return WithReason(InvalidArgument("the prompt has ", prompt_token_count, " tokens and ", new_token_count,
                                    " more were requested; the model's limit is ", limit),
                    ErrorReason::kPromptTooLong,
                    {{"promptTokenCount", absl::StrCat(prompt_token_count)},
                     {"newTokenCount", absl::StrCat(new_token_count)},
                     {"limit", absl::StrCat(limit)}});
}

SequenceExtent ExtentOf(const RequestLimits& limits, const AttentionSetting& attention, int64_t prompt_token_count,
                        int64_t new_token_count, bool scores_continuations) {
  const bool whole = attention.NeedsWholePrompt();
  return {.prompt_rows = prompt_token_count,
          .later_rows = new_token_count,
          .rewinds = scores_continuations,
          .step_rows_max = whole ? prompt_token_count : limits.prefill_rows_max,
          .shares_prefix = limits.prefix_cache && !whole};
}

int64_t CacheBytes(const RequestLimits& limits) {
  int64_t bytes = 0;
  for (size_t group = 0; group < limits.groups.size(); ++group)
    bytes += limits.page_counts[group] * limits.groups[group].page_bytes;
  return bytes;
}

CacheNeed NeedOf(const LoadedModel& model, const RequestLimits& limits, const AttentionSetting& attention,
                 const SequenceExtent& extent) {
  CacheNeed need;
  for (size_t group = 0; group < limits.groups.size(); ++group) {
    const int64_t pages = PagesAtOnce(limits.groups[group], extent);
    need.bytes += pages * limits.groups[group].page_bytes;
    need.fits = need.fits && pages <= limits.page_counts[group];
  }
  if (attention.NeedsWholePrompt() && extent.prompt_rows > limits.step_rows_max) {
    need.bytes += Forward::BytesNeeded(model.transformer(), {.row_count_max = extent.prompt_rows,
                                                             .sequence_count_max = 1,
                                                             .head_row_count_max = 1,
                                                             .context_length_max = extent.prompt_rows});
    need.fits = need.fits && need.bytes <= CacheBytes(limits);
  }
  return need;
}

absl::StatusOr<std::unique_ptr<Sequence>> CheckRequest(const LoadedModel& model, const RequestLimits& limits,
                                                       EngineRequest request) {
  const ModelConfig& config = model.config();
  auto sequence = std::make_unique<Sequence>();
  RETURN_IF_ERROR(CheckNotEmpty(request.token_ids));
  RETURN_IF_ERROR(CheckIds(request.token_ids, "prompt_token_ids", config.vocabulary_size, model.tokenizer().get()));
  RETURN_IF_ERROR(CheckNoImages(request.token_ids, "prompt_token_ids", config));
  const std::vector<int32_t>& boundaries = request.inspected_boundaries;
  VF_CHECK(boundaries.size() != 1 && std::is_sorted(boundaries.begin(), boundaries.end()),
           "boundaries are of segments");
  VF_CHECK(request.inspected_row_count >= 1 && request.inspected_row_count <= std::ssize(request.token_ids),
           "inspected rows are of the prompt");
  int64_t new_tokens = 0;
  if (const auto* generate = std::get_if<GenerateWork>(&request.work)) {
    RETURN_IF_ERROR(CheckGenerateWork(*generate));
    if ((!generate->stop.empty() || generate->thinking.has_value()) && model.tokenizer() == nullptr) {
      return WithReason(
          FailedPrecondition("stop strings and thinking need a tokenizer, and ", model.directory(), " has none"),
          ErrorReason::kModelWithoutTokenizer);
    }
    if (generate->thinking.has_value()) {
      RETURN_IF_ERROR(CheckIds(generate->thinking->forced_ids, "thinking.forced_ids", config.vocabulary_size,
                               model.tokenizer().get()));
      sequence->thinking = BeginThinking(*model.tokenizer(), *generate->thinking);
    }
    new_tokens = generate->max_new_tokens;
    RETURN_IF_ERROR(CheckContinuations(generate->scored, config.vocabulary_size, model.tokenizer().get()));
    for (const auto& scored : generate->scored) {
      RETURN_IF_ERROR(CheckNoImages(scored, "continuations", config));
      if (std::ssize(scored) <= new_tokens) continue;
      return WithReason(InvalidArgument("a scored continuation has ", scored.size(),
                                        " tokens; the limit is max_new_tokens, ", new_tokens),
                        ErrorReason::kBadContinuation, {{"field", "continuations"}});
    }
    sequence->continuation_done.assign(generate->scored.size(), 0);
  } else if (const auto* score = std::get_if<ScoreContinuationsWork>(&request.work)) {
    if (score->continuations.empty()) {
      return WithReason(InvalidArgument("there are no continuations; there must be at least 1"),
                        ErrorReason::kBadContinuation, {{"field", "continuations"}});
    }
    RETURN_IF_ERROR(CheckContinuations(score->continuations, config.vocabulary_size, model.tokenizer().get()));
    for (const auto& continuation : score->continuations)
      RETURN_IF_ERROR(CheckNoImages(continuation, "continuations", config));
    for (const auto& continuation : score->continuations) new_tokens = std::max(new_tokens, std::ssize(continuation));
    sequence->continuation_done.assign(score->continuations.size(), 0);
  }
  ASSIGN_OR_RETURN(RunTimeSetting setting, WithOverrides(config, request.attention_overrides));
  RETURN_IF_ERROR(CheckLength(setting.max_position, std::ssize(request.token_ids), new_tokens));
  sequence->attention = std::move(setting.attention);
  sequence->ropes = std::move(setting.ropes);
  sequence->position_max = setting.max_position;
  sequence->rope_length = RopeLength(sequence->ropes, std::ssize(request.token_ids) + new_tokens);
  sequence->extent = ExtentOf(limits, sequence->attention, request.token_ids.size(), new_tokens,
                              /*scores_continuations=*/!sequence->continuation_done.empty());
  const CacheNeed need = NeedOf(model, limits, sequence->attention, sequence->extent);
  if (!need.fits) {
    return WithReason(ResourceExhausted("the request needs ", need.bytes, " bytes of key-value cache for ",
                                        request.token_ids.size() + new_tokens, " tokens; the cache has ",
                                        CacheBytes(limits), " bytes"),
                      ErrorReason::kKvCacheTooSmall);
  }
  sequence->request = std::move(request);
  // Scoring the text itself needs every row, so no cached prefix is used; its pages may still be cached for others.
  if (limits.prefix_cache && !sequence->attention.NeedsWholePrompt()) {
    const int64_t length = sequence->prompt_length();
    sequence->page_hashes =
        HashPages(PrefixRoot(model, *sequence), sequence->request.token_ids, length / kernels::kPageTokens);
    // At least one row is computed, for its logits, and those that are inspected.
    if (!sequence->scores_text())
      sequence->reusable_page_count = (length - sequence->request.inspected_row_count) / kernels::kPageTokens;
  }
  return sequence;
}

}  // namespace varifocal
