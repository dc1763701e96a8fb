#include "server/workers/worker_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/json.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/engine/engine.h"
#include "server/engine/request_check.h"
#include "server/model/config.h"
#include "server/model/model.h"
#include "server/model/run_time_setting.h"
#include "server/rpc/limits.h"

namespace varifocal {
namespace {

// A generation that was cancelled before its prompt's end has none.
absl::Status CheckInspected(const EngineResult& result, size_t heads, size_t segments) {
  const InspectedAttention& inspected = result.inspected;
  if (result.finish_reason == EngineFinishReason::kCancelled) return absl::OkStatus();
  if (inspected.heads.size() == heads && inspected.masses.size() == heads * segments) return absl::OkStatus();
  return Internal("worker ", result.worker, " sent the attention of ", inspected.heads.size(), " heads with ",
                  inspected.masses.size(), " shares; the model has ", heads, " heads with ", segments,
                  " segments each");
}

class WorkerEngine : public Engine {
 public:
  WorkerEngine(std::shared_ptr<RemoteWorkers> workers, const HostedModel& model, std::string name)
      : workers_(std::move(workers)), name_(std::move(name)), config_(model.config), tokenizer_(model.tokenizer) {}

  absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) override {
    RETURN_IF_ERROR(CheckNotEmpty(request.token_ids));
    RETURN_IF_ERROR(CheckIds(request.token_ids, "prompt_token_ids", config_.vocabulary_size, tokenizer_.get()));
    if (request.keep_groups) return Unimplemented("the groups of tokens are not sent by the workers of a coordinator");
    ASSIGN_OR_RETURN(const RunTimeSetting setting, WithOverrides(config_, request.attention_overrides));
    if (!request.inspected_boundaries.empty()) {
      callbacks.on_done = [heads = HeadCount(), segments = request.inspected_boundaries.size() - 1,
                           on_done = std::move(callbacks.on_done)](absl::StatusOr<EngineResult> result) {
        if (result.ok()) {
          if (absl::Status status = CheckInspected(*result, heads, segments); !status.ok()) result = std::move(status);
        }
        on_done(std::move(result));
      };
    }
    return workers_->Start(name_, std::move(request), setting.attention.CountsBounds(), std::move(callbacks.on_done));
  }
  void Cancel(Handle handle) override { workers_->Cancel(handle); }
  const LoadedModel& model() const override {
    VF_CHECK(false, "the weights are on other daemons");
    __builtin_unreachable();
  }
  EngineDescription Describe() const override {
    const v1::Model model = workers_->model(name_);
    EngineDescription description;
    description.context_tokens_max = config_.max_position;
    if (model.kv_cache_bytes_per_token() > 0) {
      description.cache_tokens_max = model.kv_cache_bytes() / model.kv_cache_bytes_per_token();
      description.context_tokens_max = std::min(description.context_tokens_max, description.cache_tokens_max);
    }
    description.kv_cache_bytes = model.kv_cache_bytes();
    description.prefix_cache = true;
    const v1::ModelLimits& limits = model.limits();
    description.why_no_scores = limits.why_no_scores();
    description.why_no_plain_prompts = limits.why_no_plain_prompts();
    description.why_no_attention_settings = limits.why_no_attention_settings();
    description.why_no_inspection = limits.why_no_inspection();
    description.why_no_forced_end = limits.why_no_forced_end();
    description.why_no_top_k = limits.why_no_top_k();
    description.why_no_min_p = limits.why_no_min_p();
    if (HeadCount() > kInspectedHeadsMax) {
      description.why_no_inspection =
          absl::StrCat("attention of ", HeadCount(),
                       " heads is not inspected on the workers of a coordinator; the limit is ", kInspectedHeadsMax);
    }
    description.estimates_time = false;
    return description;
  }
  EngineStatus Status() const override {
    EngineStatus status;
    status.queued_count = workers_->queued_count();
    status.running_count = workers_->running_count();
    return status;
  }
  absl::StatusOr<EngineEstimate> Estimate(int64_t prompt_token_count, int64_t new_token_count, int64_t) override {
    // A setting may extend the limit of the model.
    RETURN_IF_ERROR(CheckLength(config_.extended_position_max, prompt_token_count, new_token_count));
    return EngineEstimate{};
  }
  void DropPrefixCache() override {}
  absl::Status Fault() const override { return absl::OkStatus(); }  // workers come back; requests wait

 private:
  int64_t HeadCount() const { return config_.layer_count * config_.head_count; }

  const std::shared_ptr<RemoteWorkers> workers_;
  const std::string name_;
  const ModelConfig config_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
};

absl::Status CheckSame(const std::string& name, const std::string& what, const std::string& here,
                       const std::string& there) {
  if (here == there) return absl::OkStatus();
  return WithReason(FailedPrecondition("model \"", name, "\": the workers have another ", what,
                                       " than the directory: ", there, ", and ", here),
                    ErrorReason::kWorkersDiffer);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostedModel>> MakeWorkerModel(std::shared_ptr<RemoteWorkers> workers,
                                                             const std::string& name, const std::string& place,
                                                             const ModelOptions& options) {
  const CheckpointPlace checkpoint = CheckpointOf(place);
  const std::string& directory = checkpoint.directory;
  const v1::Model remote = workers->model(name);
  auto hosted = std::make_unique<HostedModel>();
  ASSIGN_OR_RETURN(hosted->tokenizer, Tokenizer::Load(directory, options.tokenizer_rules));
  ASSIGN_OR_RETURN(hosted->chat_format, ReadChatFormat(directory));
  RETURN_IF_ERROR(CheckSame(name, "tokenizer", hosted->tokenizer->sha256(), remote.tokenizer_sha256()));
  if (remote.architecture() == kEndpointArchitecture) {
    RETURN_IF_ERROR(CheckSame(name, "chat template",
                              hosted->chat_format == nullptr ? "" : hosted->chat_format->template_sha256,
                              remote.chat_template_sha256()));
    hosted->config.model_type = kEndpointArchitecture;
    hosted->config.vocabulary_size = hosted->tokenizer->vocab_size();
    hosted->config.max_position = hosted->config.extended_position_max = remote.context_length_max();
  } else {
    ASSIGN_OR_RETURN(hosted->config,
                     ReadModelConfig(directory, KeysOfModel(options.ignored_config_keys, name), checkpoint.adapter));
    RETURN_IF_ERROR(CheckSame(name, "attention", hosted->config.attention.json(), remote.attention_json()));
  }
  ModelProvenance& provenance = hosted->provenance;
  provenance.dtype = remote.dtype();
  provenance.weights_from = remote.weights_from();
  // Whether a tied model has a head of its own is seen in its weights, which the workers have.
  if (hosted->config.tied_embeddings) {
    const Json function = ParseJson(remote.function_json()).value_or(Json());
    if (function.is_object())
      hosted->config.tied_embeddings = FindBool(function, "tied_embeddings").value_or(true).value_or(true);
  }
  if (remote.architecture() != kEndpointArchitecture) {
    if (const auto other = FirstTextDifference(FunctionOf(*hosted), remote.function_json()); other.has_value()) {
      const std::string what = absl::StrCat("configuration (", other->place, ")");
      RETURN_IF_ERROR(CheckSame(name, what, other->before, other->after));
    }
  }
  provenance.backend = remote.backend();
  provenance.isa = remote.isa();
  // The kinds of a mixed set stand for the set, so that its answers are not taken for those of one of them.
  if (const std::string kinds = workers->KindsInWords(); kinds.find('+') != std::string::npos) provenance.isa = kinds;
  provenance.device = absl::StrCat("workers ", absl::StrJoin(workers->Addresses(), ", "));
  provenance.weights_sha256 = remote.weights_sha256();
  provenance.tokenizer_sha256 = remote.tokenizer_sha256();
  provenance.parameter_count = remote.parameter_count();
  provenance.attention = remote.attention_label();
  hosted->sampling_defaults = remote.sampling_defaults();
  hosted->engine = std::make_unique<WorkerEngine>(std::move(workers), *hosted, name);
  return hosted;
}

}  // namespace varifocal
