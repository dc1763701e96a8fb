#include "server/workers/worker_request.h"

#include "wire/resource_names.h"

namespace varifocal {
namespace {

template <typename Proto>
void SetCommon(const std::string& model, const EngineRequest& request, Proto* proto) {
  proto->set_model(ModelResource(model));
  proto->mutable_prompt_token_ids()->mutable_ids()->Add(request.token_ids.begin(), request.token_ids.end());
  for (const AttentionOverride& given : request.attention_overrides) {
    v1::OverrideValues& values = (*proto->mutable_overrides())[given.name];
    for (const Json& value : given.value.is_array() ? given.value : Json::array({given.value}))
      values.add_values(value.get<double>());
  }
}

void SetThinking(const ThinkingWork& work, v1::ThinkingSettings* proto) {
  proto->set_begin(work.rule.markers.begin);
  proto->set_end(work.rule.markers.end);
  proto->set_is_opened(work.rule.is_opened);
  proto->set_forced_answer(work.rule.forced_answer);
  proto->set_tokens_max(work.tokens_max);
  proto->set_answer_tokens_max(work.answer_tokens_max);
  proto->mutable_forced_ids()->Add(work.forced_ids.begin(), work.forced_ids.end());
}

template <typename Proto>
void SetInspection(const EngineRequest& request, Proto* proto) {
  if (request.inspected_boundaries.empty()) return;
  v1::AttentionInspection* inspection = proto->mutable_attention_inspection();
  inspection->mutable_boundaries()->Add(request.inspected_boundaries.begin(), request.inspected_boundaries.end());
  inspection->set_row_count(request.inspected_row_count);
}

void SetInspected(const v1::InspectedAttention& proto, InspectedAttention* inspected) {
  for (const v1::InspectedHead& head : proto.heads()) {
    inspected->heads.push_back({.visible_count = head.visible_count(),
                                .scale = head.scale(),
                                .log_sum_exp = head.log_sum_exp(),
                                .entropy = head.entropy(),
                                .largest_weight = head.largest_weight(),
                                .sink_weight = head.sink_weight()});
  }
  inspected->masses.assign(proto.masses().begin(), proto.masses().end());
}

EngineFinishReason FromProto(v1::GenerationResult::FinishReason reason) {
  switch (reason) {
    case v1::GenerationResult::EOS:
      return EngineFinishReason::kEos;
    case v1::GenerationResult::LENGTH:
      return EngineFinishReason::kLength;
    case v1::GenerationResult::STOP:
      return EngineFinishReason::kStop;
    case v1::GenerationResult::CANCELLED:
      return EngineFinishReason::kCancelled;
    default:
      return EngineFinishReason::kNone;
  }
}

template <typename Proto>
void SetGroupShares(const Proto& proto, EngineResult* result) {
  if (proto.has_pairs_visible_share()) result->pairs_visible_share = proto.pairs_visible_share();
  if (proto.has_largest_group_share()) result->largest_group_share = proto.largest_group_share();
}

}  // namespace

v1::GenerateRequest ToGenerateProto(const std::string& model, const EngineRequest& request) {
  const auto& work = std::get<GenerateWork>(request.work);
  v1::GenerateRequest proto;
  SetCommon(model, request, &proto);
  SetInspection(request, &proto);
  proto.set_max_new_tokens(work.max_new_tokens);
  v1::DecodeSettings* settings = proto.mutable_decode_settings();
  settings->set_sampling_temperature(work.sampling.temperature);
  settings->set_top_p(work.sampling.top_p);
  settings->set_top_k(work.sampling.top_k);
  settings->set_min_p(work.sampling.min_p);
  settings->set_seed(work.seed);
  settings->set_ignore_eos(work.ignore_eos);
  for (const std::string& stop : work.stop) settings->add_stop(stop);
  if (work.thinking.has_value()) SetThinking(*work.thinking, settings->mutable_thinking());
  for (const ChatTurn& turn : request.turns) {
    v1::ChatMessage* message = proto.add_turns();
    message->set_role(turn.role);
    message->set_content(turn.content);
  }
  if (request.thinking_switch.has_value()) proto.set_thinking_switch(*request.thinking_switch);
  return proto;
}

v1::ComputeLogLikelihoodsRequest ToScoreProto(const std::string& model, const EngineRequest& request) {
  v1::ComputeLogLikelihoodsRequest proto;
  SetCommon(model, request, &proto);
  proto.set_per_token(true);
  // Beside a generation, whose result has the inspection, the prompt is not inspected again.
  if (!std::holds_alternative<GenerateWork>(request.work)) SetInspection(request, &proto);
  const std::vector<std::vector<int32_t>>* continuations = nullptr;
  if (const auto* score = std::get_if<ScoreContinuationsWork>(&request.work)) continuations = &score->continuations;
  if (const auto* generate = std::get_if<GenerateWork>(&request.work)) continuations = &generate->scored;
  if (continuations == nullptr) return proto;
  for (const std::vector<int32_t>& ids : *continuations)
    proto.add_continuations()->mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return proto;
}

void FromProto(const v1::GenerationResult& proto, bool has_bounds, EngineResult* result) {
  result->new_token_ids.assign(proto.token_ids().begin(), proto.token_ids().end());
  result->new_token_log_probs.assign(proto.token_log_probs().begin(), proto.token_log_probs().end());
  result->text = proto.text();
  result->thinking_token_count = proto.thinking_token_count();
  result->is_thinking_forced = proto.is_thinking_forced();
  result->finish_reason = FromProto(proto.finish_reason());
  result->prompt_token_count = proto.prompt_token_count();
  result->cached_token_count = proto.cached_token_count();
  result->extrapolated = proto.extrapolated();
  result->notes = proto.notes();
  result->queue_us = proto.queue_us();
  result->prefill_us = proto.prefill_us();
  result->decode_us = proto.decode_us();
  if (has_bounds) {
    result->tau_at_min_share = proto.tau_min_share();
    result->tau_at_max_share = proto.tau_max_share();
  }
  SetGroupShares(proto, result);
  SetInspected(proto.inspected_attention(), &result->inspected);
}

void FromProto(const v1::ComputeLogLikelihoodsResponse& proto, const EngineRequest& request, EngineResult* result) {
  for (const v1::ContinuationLogLikelihood& scored : proto.continuations()) {
    EngineContinuationScore score;
    score.log_likelihood = scored.log_likelihood();
    score.token_count = scored.token_count();
    score.is_greedy = scored.is_greedy();
    score.token_log_probs.assign(scored.token_log_probs().begin(), scored.token_log_probs().end());
    result->log_likelihood += score.log_likelihood;
    result->continuations.push_back(std::move(score));
  }
  // Beside a generation, the rest is the generation's.
  if (std::holds_alternative<GenerateWork>(request.work)) return;
  if (std::holds_alternative<ScoreTextWork>(request.work)) {
    result->log_likelihood = proto.log_likelihood();
    result->token_log_probs.emplace_back();
    for (const double log_prob : proto.token_log_probs()) result->token_log_probs.emplace_back(log_prob);
  }
  result->prompt_token_count = request.token_ids.size();
  result->cached_token_count = proto.cached_token_count();
  result->extrapolated = proto.extrapolated();
  result->notes = proto.notes();
  result->queue_us = proto.queue_us();
  result->prefill_us = proto.prefill_us();
  if (proto.has_tau_min_share()) result->tau_at_min_share = proto.tau_min_share();
  if (proto.has_tau_max_share()) result->tau_at_max_share = proto.tau_max_share();
  SetGroupShares(proto, result);
  SetInspected(proto.inspected_attention(), &result->inspected);
}

}  // namespace varifocal
