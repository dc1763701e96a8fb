#include "server/rpc/convert.h"

#include <set>
#include <string>

#include "base/code_version.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "server/rpc/limits.h"
#include "wire/job_spec.h"
#include "wire/message_limits.h"
#include "wire/resource_names.h"
#include "wire/stored_job.h"

namespace varifocal {
namespace {

v1::ModelLimits LimitsOf(const EngineDescription& engine) {
  v1::ModelLimits limits;
  limits.set_why_no_scores(engine.why_no_scores);
  limits.set_why_no_plain_prompts(engine.why_no_plain_prompts);
  limits.set_why_no_attention_settings(engine.why_no_attention_settings);
  limits.set_why_no_inspection(engine.why_no_inspection);
  limits.set_why_no_forced_end(engine.why_no_forced_end);
  limits.set_why_no_top_k(engine.why_no_top_k);
  limits.set_why_no_min_p(engine.why_no_min_p);
  return limits;
}

}  // namespace

void ToProto(const HostedModel& model, v1::Model* proto) {
  proto->set_name(ModelResource(model.name));
  proto->set_state(v1::Model::READY);
  proto->set_directory(model.directory);
  proto->set_architecture(model.config.model_type);
  proto->set_weights_sha256(model.provenance.weights_sha256);
  proto->set_tokenizer_sha256(model.provenance.tokenizer_sha256);
  proto->set_parameter_count(model.provenance.parameter_count);
  proto->set_layer_count(model.config.layer_count);
  proto->set_vocabulary_size(model.config.vocabulary_size);
  proto->set_context_length_max(model.config.max_position);
  proto->set_trained_context_length(model.config.trained_context_length.value_or(0));
  const Training& training = model.config.training;
  if (!training.arm.empty()) proto->mutable_training()->set_arm(training.arm);
  if (training.seed.has_value()) proto->mutable_training()->set_seed(*training.seed);
  if (training.tokens.has_value()) proto->mutable_training()->set_tokens(*training.tokens);
  proto->set_attention_json(model.config.attention.json());
  proto->set_attention_label(model.config.attention.Label());
  proto->set_function_json(model.provenance.function_json);
  proto->set_function_sha256(Sha256Hex(model.provenance.function_json));
  proto->set_code_version(CodeVersion());
  proto->set_dtype(model.provenance.dtype);
  proto->set_weights_from(model.provenance.weights_from);
  proto->set_backend(model.provenance.backend);
  proto->set_isa(model.provenance.isa);
  proto->set_weights_bytes(model.provenance.weight_bytes);
  proto->set_kv_cache_bytes_per_token(model.provenance.page_bytes / 128);
  if (model.chat_format != nullptr) proto->set_chat_template_sha256(model.chat_format->template_sha256);
  proto->set_sampling_defaults(model.sampling_defaults);
  const EngineDescription engine = model.engine->Describe();
  proto->set_kv_cache_bytes(engine.kv_cache_bytes);
  proto->set_kv_cache_bytes_in_use(model.engine->Status().cache_bytes_in_use);
  proto->set_buffer_bytes(engine.buffer_bytes);
  proto->set_memory_total_bytes(engine.memory_total_bytes);
  proto->set_memory_free_bytes(engine.memory_free_bytes);
  proto->set_weights_shared_bytes(engine.shared_weight_bytes);
  if (const v1::ModelLimits limits = LimitsOf(engine); limits.ByteSizeLong() > 0) *proto->mutable_limits() = limits;
  for (const EngineCopy& copy : model.engine->Copies()) {
    if (copy.device.empty()) continue;
    v1::ModelCopy* const added = proto->add_copies();
    added->set_device(copy.device);
    added->set_fault(std::string(copy.engine->Fault().message()));
  }
  if (const absl::Status fault = model.engine->Fault(); !fault.ok()) {
    proto->set_state(v1::Model::FAULTED);
    proto->set_fault(std::string(fault.message()));
  }
}

void ToProto(const ModelHost::OffModel& model, v1::Model* proto) {
  proto->set_name(ModelResource(model.name));
  proto->set_state(v1::Model::FAULTED);
  proto->set_directory(model.directory);
  proto->set_fault(std::string(model.why.message()));
}

absl::Status ToProto(const JobView& view, bool with_spec, v1::Job* proto) {
  const db::JobRow& row = view.row;
  ToProto(row, view.variants, view.cells, view.failures, proto);
  if (!view.paused_reason.empty()) {
    if (row.state == db::JobState::kRunning || row.state == db::JobState::kQueued) proto->set_state(v1::Job::PAUSED);
    if (row.error.empty()) proto->set_error_message(view.paused_reason);
  }
  if (with_spec) {
    ASSIGN_OR_RETURN(const JobSpec spec, FromCanonicalJson(row.spec_json));
    *proto->mutable_spec() = ToProto(spec);
  }
  v1::JobProgress* progress = proto->mutable_progress();
  progress->set_tokens_per_second(view.tokens_per_second);
  progress->set_remaining_seconds(view.remaining_seconds);
  progress->set_token_count(view.token_count);
  progress->set_elapsed_seconds(view.elapsed_seconds);
  return absl::OkStatus();
}

void ToProto(const JobEstimate& estimate, v1::JobEstimate* proto) {
  proto->set_cell_count(estimate.cell_count);
  proto->set_sample_count(estimate.sample_count);
  proto->set_prompt_token_count(estimate.prompt_token_count);
  proto->set_computed_prompt_token_count(estimate.computed_prompt_token_count);
  proto->set_new_token_count(estimate.new_token_count);
  proto->set_memory_bytes_max(estimate.memory_bytes_max);
  proto->set_kv_cache_bytes(estimate.kv_cache_bytes);
  proto->set_weights_bytes(estimate.weights_bytes);
  proto->set_duration_seconds(estimate.duration_seconds);
  proto->set_checked_sample_count(estimate.checked_sample_count);
  for (const std::string& note : estimate.notes) proto->add_notes(note);
}

absl::StatusOr<db::Judgments> FromProto(const v1::ImportScoresRequest& request) {
  const auto bad = [](const std::string& sentence) {
    return WithReason(absl::InvalidArgumentError(sentence), ErrorReason::kBadScores);
  };
  db::Judgments judgments;
  if (!request.job().empty()) {
    ASSIGN_OR_RETURN(judgments.job_id, ParseJobResource(request.job(), "job"));
  }
  if (request.source().empty() || request.source().size() > kImportSourceBytesMax) {
    return bad(
        absl::StrCat("source has ", request.source().size(), " bytes; it must have from 1 to ", kImportSourceBytesMax));
  }
  if (!IsSha256Hex(request.source_sha256())) return bad("source_sha256 is not 64 lower-case hexadecimal digits");
  judgments.source = request.source();
  judgments.source_sha256 = request.source_sha256();
  if (request.import_id().size() > kImportIdBytesMax) {
    return bad(absl::StrCat("import_id has ", request.import_id().size(), " bytes, the limit is ", kImportIdBytesMax));
  }
  judgments.import_id = request.import_id().empty() ? request.source_sha256() : request.import_id();
  std::set<std::string> names;
  int64_t score_count = 0;
  for (const v1::Judgment& proto : request.judgments()) {
    db::Judgment& judgment = judgments.judgments.emplace_back();
    judgment.place = absl::StrCat(request.source(), ": judgment ", judgments.judgments.size());
    judgment.token_ids_sha256 = proto.token_ids_sha256();
    const absl::Status digest = db::CheckPromptDigest(judgment.token_ids_sha256);
    if (!digest.ok()) return bad(absl::StrCat(judgment.place, ": ", digest.message()));
    if (!proto.variant().empty()) judgment.variant = proto.variant();
    if (!proto.task().empty()) judgment.task = proto.task();
    if (proto.context_length() != 0) judgment.context_length = proto.context_length();
    if (proto.has_sample_index()) judgment.sample_index = proto.sample_index();
    if (proto.scores().empty()) return bad(absl::StrCat(judgment.place, ": it has no scores"));
    for (const auto& [name, value] : proto.scores()) {
      const absl::Status named = db::CheckScoreName(name);
      if (!named.ok()) return bad(absl::StrCat(judgment.place, ": ", named.message()));
      if (!(value >= 0 && value <= 1))
        return bad(absl::StrCat(judgment.place, ": the score \"", name, "\" is ", value, "; it must be from 0 to 1"));
      names.insert(name);
      judgment.scores[name] = value;
      if (++score_count > kImportedScoresMax || names.size() > kImportedNamesMax) {
        return bad(absl::StrCat(request.source(), " has more than ", kImportedScoresMax, " scores or ",
                                kImportedNamesMax, " names, the limits of one call; import it in parts"));
      }
    }
  }
  if (score_count == 0) return bad(absl::StrCat(request.source(), " has no judgments"));
  return judgments;
}

}  // namespace varifocal
