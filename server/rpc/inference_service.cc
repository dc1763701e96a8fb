#include "server/rpc/inference_service.h"

#include <atomic>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/exceptions.h"
#include "base/mutex.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/rpc/convert.h"
#include "server/rpc/engine_call.h"
#include "server/rpc/engine_request.h"
#include "server/rpc/page_token.h"
#include "server/rpc/status.h"
#include "server/rpc/unary.h"
#include "wire/resource_names.h"

namespace varifocal {
namespace {

absl::StatusOr<std::shared_ptr<HostedModel>> FindModel(const ModelHost& host, const std::string& resource,
                                                       absl::string_view field) {
  ASSIGN_OR_RETURN(const std::string name, ParseModelResource(resource, field));
  return host.Find(name);
}

v1::GenerationResult::FinishReason ToProto(EngineFinishReason reason) {
  switch (reason) {
    case EngineFinishReason::kNone:
      return v1::GenerationResult::FINISH_REASON_UNSPECIFIED;
    case EngineFinishReason::kEos:
      return v1::GenerationResult::EOS;
    case EngineFinishReason::kLength:
      return v1::GenerationResult::LENGTH;
    case EngineFinishReason::kStop:
      return v1::GenerationResult::STOP;
    case EngineFinishReason::kCancelled:
      return v1::GenerationResult::CANCELLED;
  }
  return v1::GenerationResult::FINISH_REASON_UNSPECIFIED;
}

template <typename Proto>
void SetGroupShares(const EngineResult& result, Proto* proto) {
  if (result.pairs_visible_share) proto->set_pairs_visible_share(*result.pairs_visible_share);
  if (result.largest_group_share) proto->set_largest_group_share(*result.largest_group_share);
}

template <typename Proto>
void SetInspected(const InspectedAttention& inspected, Proto* proto) {
  if (inspected.heads.empty()) return;
  v1::InspectedAttention* out = proto->mutable_inspected_attention();
  for (const kernels::HeadAttention& head : inspected.heads) {
    v1::InspectedHead* to = out->add_heads();
    to->set_visible_count(head.visible_count);
    to->set_scale(head.scale);
    to->set_log_sum_exp(head.log_sum_exp);
    to->set_entropy(head.entropy);
    to->set_largest_weight(head.largest_weight);
    to->set_sink_weight(head.sink_weight);
  }
  out->mutable_masses()->Add(inspected.masses.begin(), inspected.masses.end());
}

void ToProto(const EngineResult& result, v1::GenerationResult* proto) {
  proto->set_prompt_token_count(result.prompt_token_count);
  proto->set_cached_token_count(result.cached_token_count);
  proto->mutable_token_ids()->Add(result.new_token_ids.begin(), result.new_token_ids.end());
  proto->set_text(result.text);
  proto->set_thinking_token_count(result.thinking_token_count);
  proto->set_is_thinking_forced(result.is_thinking_forced);
  proto->set_finish_reason(ToProto(result.finish_reason));
  proto->mutable_token_log_probs()->Add(result.new_token_log_probs.begin(), result.new_token_log_probs.end());
  proto->set_queue_us(result.queue_us);
  proto->set_prefill_us(result.prefill_us);
  proto->set_decode_us(result.decode_us);
  proto->set_tau_min_share(result.tau_at_min_share.value_or(0));
  proto->set_tau_max_share(result.tau_at_max_share.value_or(0));
  proto->set_extrapolated(result.extrapolated);
  proto->set_notes(result.notes);
  proto->set_invalid_utf8_count(result.invalid_utf8_count);
  SetGroupShares(result, proto);
  SetInspected(result.inspected, proto);
}

void ToProto(const EngineRequest& request, const EngineResult& result, bool per_token,
             v1::ComputeLogLikelihoodsResponse* proto) {
  proto->mutable_token_ids()->Add(request.token_ids.begin(), request.token_ids.end());
  proto->set_cached_token_count(result.cached_token_count);
  proto->set_extrapolated(result.extrapolated);
  proto->set_notes(result.notes);
  proto->set_invalid_utf8_count(result.invalid_utf8_count);
  SetGroupShares(result, proto);
  SetInspected(result.inspected, proto);
  proto->set_queue_us(result.queue_us);
  proto->set_prefill_us(result.prefill_us);
  if (result.tau_at_min_share) proto->set_tau_min_share(*result.tau_at_min_share);
  if (result.tau_at_max_share) proto->set_tau_max_share(*result.tau_at_max_share);
  for (const LayerGroups& layer : result.layer_groups) {
    v1::LayerGroups* out = proto->add_layer_groups();
    out->set_layer(layer.layer);
    out->set_group_count(layer.group_count);
    out->set_visible_pair_count(layer.visible_pair_count);
    out->set_largest_group_count(layer.largest_group_count);
    out->mutable_groups()->Add(layer.groups.begin(), layer.groups.end());
  }
  const auto* work = std::get_if<ScoreContinuationsWork>(&request.work);
  if (work == nullptr) {
    proto->set_log_likelihood(result.log_likelihood);
    if (!per_token) return;
    for (size_t i = 1; i < result.token_log_probs.size(); ++i)
      proto->add_token_log_probs(result.token_log_probs[i].value_or(0));
    return;
  }
  for (size_t i = 0; i < result.continuations.size(); ++i) {
    const EngineContinuationScore& score = result.continuations[i];
    v1::ContinuationLogLikelihood* out = proto->add_continuations();
    out->set_log_likelihood(score.log_likelihood);
    out->set_token_count(score.token_count);
    out->set_is_greedy(score.is_greedy);
    out->mutable_token_ids()->Add(work->continuations[i].begin(), work->continuations[i].end());
    if (per_token) out->mutable_token_log_probs()->Add(score.token_log_probs.begin(), score.token_log_probs.end());
  }
}

// What a call holds until it ends.
struct Held {
  Admission::Ticket call;
  Admission::Ticket inspection;
  std::shared_ptr<HostedModel> model;
};

// The engine request; its model, and the room for what it inspects, are held.
template <typename Request>
absl::StatusOr<EngineRequest> MakeRequest(const ModelHost& host, Admission& admission, const std::string& peer,
                                          const Request& request, Held* held) {
  return CatchExceptions("reading the request", [&]() -> absl::StatusOr<EngineRequest> {
    ASSIGN_OR_RETURN(held->model, FindModel(host, request.model(), "model"));
    ASSIGN_OR_RETURN(EngineRequest engine_request, ToEngineRequest(request, *held->model));
    if (!engine_request.inspected_boundaries.empty()) {
      const ModelConfig& config = held->model->config;
      const int64_t segments = std::ssize(engine_request.inspected_boundaries) - 1;
      const int64_t bytes_of_head = sizeof(kernels::HeadAttention) + segments * sizeof(double);
      ASSIGN_OR_RETURN(held->inspection,
                       admission.AdmitMore(peer, config.layer_count * config.head_count * bytes_of_head));
    }
    return engine_request;
  });
}

// One ComputeLogLikelihoods call. Deletes itself in OnDone.
class ScoreCall final : public grpc::ServerUnaryReactor {
 public:
  ScoreCall(const v1::ComputeLogLikelihoodsRequest* request, v1::ComputeLogLikelihoodsResponse* response,
            std::string peer)
      : request_(request), response_(response), peer_(std::move(peer)), call_(std::make_shared<EngineCall>()) {}

  void Keep(Admission::Ticket ticket) { held_.call = std::move(ticket); }

  // On the text pool. The reactor may be destroyed when this returns, so everything needed is kept on the stack.
  void Begin(const ModelHost& host, Admission& admission, EngineGate* gate) {
    if (is_cancelled_) return Finish(ToGrpcStatus(absl::CancelledError("the call was cancelled")));
    absl::StatusOr<EngineRequest> engine_request = MakeRequest(host, admission, peer_, *request_, &held_);
    const absl::Status kept = CatchExceptions("keeping the request", [&] {
      if (engine_request.ok()) sent_ = *engine_request;
      return engine_request.status();
    });
    if (!kept.ok()) return Finish(ToGrpcStatus(kept));
    EngineCallbacks callbacks;
    callbacks.on_done = [this](absl::StatusOr<EngineResult> result) {
      const absl::Status status = CatchExceptions("answering the call", [&] {
        if (result.ok()) ToProto(sent_, *result, request_->per_token(), response_);
        return result.status();
      });
      Finish(ToGrpcStatus(status));
    };
    const std::shared_ptr<EngineCall> call = call_;
    const std::shared_ptr<HostedModel> model = held_.model;
    call->Start(gate, peer_, model, *std::move(engine_request), std::move(callbacks));
  }

  void OnCancel() override {
    is_cancelled_ = true;
    call_->Cancel();
  }
  void OnDone() override { delete this; }

 private:
  const v1::ComputeLogLikelihoodsRequest* const request_;
  v1::ComputeLogLikelihoodsResponse* const response_;
  const std::string peer_;
  Held held_;
  std::atomic<bool> is_cancelled_{false};
  const std::shared_ptr<EngineCall> call_;
  EngineRequest sent_;
};

// One Generate call: chunks of new tokens, at most one pending write, then the result. Deletes itself in OnDone.
class GenerateCall final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  GenerateCall(const v1::GenerateRequest* request, std::string peer)
      : request_(request), peer_(std::move(peer)), call_(std::make_shared<EngineCall>()) {}

  void Keep(Admission::Ticket ticket) { held_.call = std::move(ticket); }

  void Begin(const ModelHost& host, Admission& admission, EngineGate* gate) {  // as ScoreCall::Begin
    if (is_cancelled_) return Finish(ToGrpcStatus(absl::CancelledError("the call was cancelled")));
    absl::StatusOr<EngineRequest> engine_request = MakeRequest(host, admission, peer_, *request_, &held_);
    if (!engine_request.ok()) return Finish(ToGrpcStatus(engine_request.status()));
    EngineCallbacks callbacks;
    callbacks.on_token = [this](int32_t token_id, double) { Add(token_id); };
    callbacks.on_done = [this](absl::StatusOr<EngineResult> result) { End(std::move(result)); };
    const std::shared_ptr<EngineCall> call = call_;
    const std::shared_ptr<HostedModel> model = held_.model;
    call->Start(gate, peer_, model, *std::move(engine_request), std::move(callbacks));
  }

  void OnWriteDone(bool ok) override {
    if (!ok) call_->Cancel();  // the client disconnected; the engine's callback finishes the call
    Step next = Step::kNone;
    {
      const MutexLock lock(mutex_);
      is_writing_ = false;
      next = NextStep();
    }
    Take(next);
  }
  void OnCancel() override {
    is_cancelled_ = true;
    call_->Cancel();
  }
  void OnDone() override { delete this; }

 private:
  void Add(int32_t token_id) {
    Step next = Step::kNone;
    {
      const MutexLock lock(mutex_);
      pending_.push_back(token_id);
      next = NextStep();
    }
    Take(next);
  }

  void End(absl::StatusOr<EngineResult> result) {
    Step next = Step::kNone;
    {
      const MutexLock lock(mutex_);
      is_ended_ = true;
      status_ = CatchExceptions("answering the call", [&] {
        if (result.ok()) ToProto(*result, final_.mutable_result());
        return result.status();
      });
      next = NextStep();
    }
    Take(next);
  }

  enum class Step { kNone, kWrite, kFinish };

  // The next step, when no write is pending.
  Step NextStep() VF_REQUIRES(mutex_) {
    if (is_writing_) return Step::kNone;
    if (is_ended_) {
      is_writing_ = true;
      return Step::kFinish;
    }
    if (pending_.empty()) return Step::kNone;
    chunk_.mutable_new_tokens()->mutable_ids()->Assign(pending_.begin(), pending_.end());
    pending_.clear();
    is_writing_ = true;
    return Step::kWrite;
  }

  // Without the lock: gRPC may call back at once. After the last step the object may be destroyed.
  void Take(Step step) VF_EXCLUDES(mutex_) {
    if (step == Step::kNone) return;
    if (step == Step::kWrite) return StartWrite(&chunk_);
    const grpc::Status status = ToGrpcStatus(status_);
    if (status.ok()) return StartWriteAndFinish(&final_, grpc::WriteOptions(), status);
    return Finish(status);
  }

  const v1::GenerateRequest* const request_;
  const std::string peer_;
  Held held_;
  std::atomic<bool> is_cancelled_{false};
  const std::shared_ptr<EngineCall> call_;

  Mutex mutex_;
  std::vector<int32_t> pending_ VF_GUARDED_BY(mutex_);
  bool is_writing_ VF_GUARDED_BY(mutex_) = false;
  bool is_ended_ VF_GUARDED_BY(mutex_) = false;
  // Of the write that is pending; status_ and final_ are not changed after is_ended_.
  v1::GenerateResponse chunk_;
  absl::Status status_;
  v1::GenerateResponse final_;
};

}  // namespace

// Admits a call for an engine and starts it on the text pool, or finishes it with the reason.
template <typename EngineRpc>
EngineRpc* InferenceService::Launch(EngineRpc* call, const std::string& peer, size_t byte_count) {
  absl::StatusOr<Admission::Ticket> ticket = admission_->Admit(peer, byte_count);
  absl::Status status = ticket.status();
  if (status.ok()) {
    call->Keep(*std::move(ticket));
    status = pools_->text.Post([this, call] { call->Begin(*host_, *admission_, gate_); });
  }
  if (!status.ok()) call->Finish(ToGrpcStatus(status));
  return call;
}

grpc::ServerUnaryReactor* InferenceService::ListModels(grpc::CallbackServerContext* context,
                                                       const v1::ListModelsRequest* request,
                                                       v1::ListModelsResponse* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Inference/ListModels")) return nullptr;
  return RunUnary(context, pools_->control, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const int32_t page_size, CheckPageSize(request->page_size()));
    ASSIGN_OR_RETURN(const std::string after, ParsePageToken("models", request->page_token()));
    std::map<std::string, v1::Model> models;
    // In this order, so that one that comes back meanwhile is listed.
    for (const auto& model : host_->Off()) ToProto(model, &models[model.name]);
    for (const auto& model : host_->List()) {
      v1::Model& ready = models[model->name];
      ready.Clear();
      ToProto(*model, &ready);
    }
    for (const auto& [name, directory] : host_->Loading()) {
      v1::Model& loading = models[name];
      loading.set_name(ModelResource(name));
      loading.set_state(v1::Model::LOADING);
      loading.set_directory(directory);
    }
    for (auto model = models.upper_bound(after); model != models.end(); ++model) {
      if (response->models_size() == page_size) {
        response->set_next_page_token(MakePageToken("models", std::prev(model)->first));
        break;
      }
      *response->add_models() = std::move(model->second);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* InferenceService::GetModel(grpc::CallbackServerContext* context,
                                                     const v1::GetModelRequest* request, v1::Model* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Inference/GetModel")) return nullptr;
  return RunUnary(context, pools_->control, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto model, FindModel(*host_, request->name(), "name"));
    ToProto(*model, response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* InferenceService::LoadModel(grpc::CallbackServerContext* context,
                                                      const v1::LoadModelRequest* request, v1::Model* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Inference/LoadModel")) return nullptr;
  const auto resource = [request] {
    return absl::StrCat(ModelResource(request->model_id()), "=", request->directory());
  };
  return RunUnary(context, pools_->load, audit_->Record(context, "LoadModel", resource, [=, this]() -> absl::Status {
    if (request->directory().empty())
      return WithReason(InvalidArgument("directory is not set"), ErrorReason::kBadDirectory, {{"field", "directory"}});
    ASSIGN_OR_RETURN(const auto model, jobs_ != nullptr ? jobs_->LoadModel(request->model_id(), request->directory())
                                                        : host_->Load(request->model_id(), request->directory()));
    listener_(model->name, true);
    ToProto(*model, response);
    return absl::OkStatus();
  }));
}

grpc::ServerUnaryReactor* InferenceService::UnloadModel(grpc::CallbackServerContext* context,
                                                        const v1::UnloadModelRequest* request,
                                                        v1::UnloadModelResponse*) {
  if (!audit_->Allows(*context, "/varifocal.v1.Inference/UnloadModel")) return nullptr;
  const auto resource = [request] { return request->name(); };
  return RunUnary(context, pools_->change,
                  audit_->Record(context, "UnloadModel", resource, [=, this]() -> absl::Status {
                    ASSIGN_OR_RETURN(const std::string name, ParseModelResource(request->name(), "name"));
                    RETURN_IF_ERROR(jobs_ != nullptr ? jobs_->UnloadModel(name) : host_->Unload(name));
                    listener_(name, false);
                    return absl::OkStatus();
                  }));
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* context,
                                                     const v1::TokenizeRequest* request,
                                                     v1::TokenizeResponse* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Inference/Tokenize")) return nullptr;
  return RunAdmitted(
      context, audit_->CallerOf(*context), pools_->text, *admission_, *request, [=, this]() -> absl::Status {
        ASSIGN_OR_RETURN(const auto model, FindModel(*host_, request->model(), "model"));
        RETURN_IF_ERROR(CheckHasTokenizer(*model));
        if (request->text().size() > kTokenizeBytesMax) {
          return WithReason(InvalidArgument("text has ", request->text().size(), " bytes; the limit of Tokenize is ",
                                            kTokenizeBytesMax),
                            ErrorReason::kPromptTooLong, {{"field", "text"}});
        }
        int64_t invalid_utf8_count = 0;
        EncodeOptions options;
        options.add_special_tokens = !request->no_special_tokens();
        options.special_tokens_as_text = request->special_tokens_as_text();
        options.ids_max = kTokenizeIdsMax;
        options.invalid_utf8_count = &invalid_utf8_count;
        ASSIGN_OR_RETURN(const std::vector<int32_t> ids, model->tokenizer->Encode(request->text(), options));
        response->mutable_token_ids()->Add(ids.begin(), ids.end());
        response->set_invalid_utf8_count(invalid_utf8_count);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* context,
                                                       const v1::DetokenizeRequest* request,
                                                       v1::DetokenizeResponse* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Inference/Detokenize")) return nullptr;
  return RunAdmitted(context, audit_->CallerOf(*context), pools_->text, *admission_, *request,
                     [=, this]() -> absl::Status {
                       ASSIGN_OR_RETURN(const auto model, FindModel(*host_, request->model(), "model"));
                       RETURN_IF_ERROR(CheckHasTokenizer(*model));
                       if (request->token_ids().size() > kDetokenizeIdsMax) {
                         return WithReason(InvalidArgument("token_ids has ", request->token_ids().size(),
                                                           " ids; the limit of Detokenize is ", kDetokenizeIdsMax),
                                           ErrorReason::kPromptTooLong, {{"field", "token_ids"}});
                       }
                       const std::vector<int32_t> ids(request->token_ids().begin(), request->token_ids().end());
                       DecodeOptions options;
                       options.keep_special_tokens = request->keep_special_tokens();
                       ASSIGN_OR_RETURN(*response->mutable_text(), model->tokenizer->Decode(ids, options));
                       return absl::OkStatus();
                     });
}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(grpc::CallbackServerContext* context,
                                                                           const v1::GenerateRequest* request) {
  if (!audit_->Allows(*context, "/varifocal.v1.Inference/Generate")) return nullptr;
  const std::string caller = audit_->CallerOf(*context);
  return Launch(new GenerateCall(request, caller), caller, request->ByteSizeLong());
}

grpc::ServerUnaryReactor* InferenceService::ComputeLogLikelihoods(grpc::CallbackServerContext* context,
                                                                  const v1::ComputeLogLikelihoodsRequest* request,
                                                                  v1::ComputeLogLikelihoodsResponse* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Inference/ComputeLogLikelihoods")) return nullptr;
  const std::string caller = audit_->CallerOf(*context);
  return Launch(new ScoreCall(request, response, caller), caller, request->ByteSizeLong());
}

}  // namespace varifocal
