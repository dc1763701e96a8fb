#include "server/rpc/convert.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

absl::Status BadName(absl::string_view name, absl::string_view wanted, absl::string_view field) {
  return WithReason(absl::InvalidArgumentError(absl::StrCat(field, " \"", name.substr(0, 128), "\" is not ", wanted)),
                    ErrorReason::kBadResourceName, {{"field", std::string(field)}});
}

void SetTime(int64_t wall_us, google::protobuf::Timestamp* time) {
  time->set_seconds(wall_us / 1'000'000);
  time->set_nanos(static_cast<int32_t>(wall_us % 1'000'000 * 1000));
}

v1::Job::State ToProto(db::JobState state) {
  switch (state) {
    case db::JobState::kQueued:
      return v1::Job::QUEUED;
    case db::JobState::kRunning:
      return v1::Job::RUNNING;
    case db::JobState::kCancelling:
      return v1::Job::CANCELLING;
    case db::JobState::kSucceeded:
      return v1::Job::SUCCEEDED;
    case db::JobState::kFailed:
      return v1::Job::FAILED;
    case db::JobState::kCancelled:
      return v1::Job::CANCELLED;
  }
  return v1::Job::STATE_UNSPECIFIED;
}

const char* TypeName(ParameterType type) {
  switch (type) {
    case ParameterType::kInteger:
      return "integer";
    case ParameterType::kNumber:
      return "number";
    case ParameterType::kText:
      return "text";
    case ParameterType::kChoice:
      return "choice";
    case ParameterType::kTextList:
      return "text_list";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> ParseModelResource(absl::string_view name, absl::string_view field) {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, "models/") || !CheckModelName(rest).ok())
    return BadName(name, "\"models/NAME\"", field);
  return std::string(rest);
}

absl::StatusOr<int64_t> ParseJobResource(absl::string_view name, absl::string_view field) {
  absl::string_view rest = name;
  int64_t id = 0;
  if (!absl::ConsumePrefix(&rest, "jobs/") || !absl::SimpleAtoi(rest, &id) || id < 1 || absl::StrCat(id) != rest) {
    return BadName(name, "\"jobs/ID\" with a number above 0", field);
  }
  return id;
}

absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& proto) {
  JobSpec spec;
  const v1::SuiteConfig& suite = proto.suite();
  spec.suite.name = suite.name();
  spec.suite.description = suite.description();
  if (suite.has_seed()) spec.suite.seed = suite.seed();
  spec.suite.lengths.assign(suite.lengths().begin(), suite.lengths().end());
  if (suite.has_samples()) spec.suite.samples = suite.samples();
  for (const v1::TaskConfig& config : suite.tasks()) {
    TaskSpec task;
    task.name = config.name();
    task.kind = config.kind();
    task.parameters.insert(config.parameters().begin(), config.parameters().end());
    task.metrics.assign(config.metrics().begin(), config.metrics().end());
    if (config.has_samples()) task.samples = config.samples();
    task.chat = config.chat();
    spec.suite.tasks.push_back(std::move(task));
  }
  for (int i = 0; i < proto.variants_size(); ++i) {
    const v1::Variant& variant = proto.variants(i);
    ASSIGN_OR_RETURN(std::string model,
                     ParseModelResource(variant.model(), absl::StrCat("spec.variants[", i, "].model")));
    spec.variants.push_back({std::move(model),
                             {variant.focal_temperatures().begin(), variant.focal_temperatures().end()},
                             {variant.attention_overrides().begin(), variant.attention_overrides().end()}});
  }
  if (proto.has_limit()) spec.limit = proto.limit();
  spec.in_flight = proto.has_in_flight() ? proto.in_flight() : 0;
  spec.keep_prompts = proto.keep_prompts();
  if (proto.has_sampling_temperature()) spec.decode.sampling_temperature = proto.sampling_temperature();
  if (proto.has_top_p()) spec.decode.top_p = proto.top_p();
  return spec;
}

void ToProto(const JobSpec& spec, v1::JobSpec* proto) {
  v1::SuiteConfig* suite = proto->mutable_suite();
  suite->set_name(spec.suite.name);
  suite->set_description(spec.suite.description);
  suite->set_seed(spec.suite.seed);
  suite->mutable_lengths()->Add(spec.suite.lengths.begin(), spec.suite.lengths.end());
  suite->set_samples(spec.suite.samples);
  for (const TaskSpec& task : spec.suite.tasks) {
    v1::TaskConfig* config = suite->add_tasks();
    config->set_name(task.name);
    config->set_kind(task.kind);
    config->mutable_parameters()->insert(task.parameters.begin(), task.parameters.end());
    config->mutable_metrics()->Add(task.metrics.begin(), task.metrics.end());
    if (task.samples != 0) config->set_samples(task.samples);
    config->set_chat(task.chat);
  }
  for (const Variant& variant : spec.variants) {
    v1::Variant* out = proto->add_variants();
    out->set_model(absl::StrCat("models/", variant.model));
    out->mutable_focal_temperatures()->Add(variant.focal_temperatures.begin(), variant.focal_temperatures.end());
    out->mutable_attention_overrides()->insert(variant.attention_overrides.begin(), variant.attention_overrides.end());
  }
  if (spec.limit != 0) proto->set_limit(spec.limit);
  proto->set_keep_prompts(spec.keep_prompts);
  proto->set_in_flight(spec.in_flight);
  if (spec.decode.sampling_temperature) proto->set_sampling_temperature(*spec.decode.sampling_temperature);
  if (spec.decode.top_p) proto->set_top_p(*spec.decode.top_p);
}

void ToProto(const HostedModel& model, v1::Model* proto) {
  proto->set_name(absl::StrCat("models/", model.name));
  proto->set_state(v1::Model::READY);
  proto->set_directory(model.directory);
  proto->set_architecture(model.config.model_type);
  proto->set_weights_sha256(model.provenance.weights_sha256);
  proto->set_tokenizer_sha256(model.provenance.tokenizer_sha256);
  proto->set_parameter_count(model.provenance.parameter_count);
  proto->set_layer_count(static_cast<int32_t>(model.config.layer_count));
  proto->set_vocabulary_size(static_cast<int32_t>(model.config.vocabulary_size));
  proto->set_context_length_max(static_cast<int32_t>(model.config.max_position));
  proto->set_trained_context_length(static_cast<int32_t>(model.config.trained_context_length.value_or(0)));
  proto->set_attention_json(model.config.attention.json());
  proto->set_attention_label(model.config.attention.Label());
  proto->set_dtype(model.provenance.dtype);
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
  if (const absl::Status fault = model.engine->Fault(); !fault.ok()) {
    proto->set_state(v1::Model::FAULTED);
    proto->set_fault(std::string(fault.message()));
  }
}

absl::Status ToProto(const JobView& view, bool with_spec, v1::Job* proto) {
  const db::JobRow& row = view.row;
  proto->set_name(absl::StrCat("jobs/", row.job_id));
  proto->set_state(ToProto(row.state));
  proto->set_error_message(row.error);
  if (!view.paused_reason.empty()) {
    if (row.state == db::JobState::kRunning) proto->set_state(v1::Job::PAUSED);
    if (row.error.empty()) proto->set_error_message(view.paused_reason);
  }
  if (with_spec) {
    ASSIGN_OR_RETURN(const JobSpec spec, FromCanonicalJson(row.spec_json));
    ToProto(spec, proto->mutable_spec());
  }
  proto->set_suite(row.suite);
  for (const std::string& variant : view.variants) proto->add_variants(variant);
  proto->set_spec_sha256(row.spec_sha256);
  SetTime(row.create_us, proto->mutable_create_time());
  if (row.start_us) SetTime(*row.start_us, proto->mutable_start_time());
  if (row.end_us && db::IsSettled(row.state)) SetTime(*row.end_us, proto->mutable_end_time());
  proto->set_mixed(row.is_mixed);
  v1::JobProgress* progress = proto->mutable_progress();
  progress->set_planned_count(row.planned_count);
  progress->set_done_count(row.answered_count);
  progress->set_failed_count(row.failed_count);
  progress->set_tokens_per_second(view.tokens_per_second);
  progress->set_remaining_seconds(view.remaining_seconds);
  progress->set_token_count(view.token_count);
  progress->set_elapsed_seconds(view.elapsed_seconds);
  for (const db::CellRow& row_of_cell : view.cells) {
    v1::CellProgress* cell = progress->add_cells();
    cell->set_variant(row_of_cell.cell.variant);
    cell->set_task(row_of_cell.cell.task);
    cell->set_context_length(static_cast<int32_t>(row_of_cell.cell.context_length));
    cell->set_planned_count(row_of_cell.cell.planned_count);
    cell->set_done_count(row_of_cell.answered_count);
    cell->set_failed_count(row_of_cell.failed_count);
  }
  return absl::OkStatus();
}

void ToProto(const JobEstimate& estimate, v1::JobEstimate* proto) {
  proto->set_cell_count(estimate.cell_count);
  proto->set_sample_count(estimate.sample_count);
  proto->set_prompt_token_count(estimate.prompt_token_count);
  proto->set_computed_prompt_token_count(estimate.computed_prompt_token_count);
  proto->set_new_token_count(estimate.new_token_count);
  proto->set_kv_cache_bytes(estimate.kv_cache_bytes);
  proto->set_weights_bytes(estimate.weights_bytes);
  proto->set_duration_seconds(estimate.duration_seconds);
  proto->set_checked_sample_count(estimate.checked_sample_count);
  for (const std::string& note : estimate.notes) proto->add_notes(note);
}

void ToProto(const TaskKind& kind, v1::TaskKind* proto) {
  proto->set_kind(kind.name);
  proto->set_description(kind.summary);
  std::map<std::string, std::string> defaults;
  for (const ParameterInfo& info : kind.parameters) {
    if (!info.default_value.empty()) defaults[info.name] = info.default_value;
    v1::TaskParameter* parameter = proto->add_parameters();
    parameter->set_name(info.name);
    parameter->set_type(TypeName(info.type));
    parameter->set_default_value(info.default_value);
    parameter->set_required(info.required);
    parameter->set_low(info.low);
    parameter->set_high(info.high);
    for (const std::string& choice : info.choices) parameter->add_choices(choice);
    parameter->set_help(info.help);
  }
  for (const std::string& metric : kind.default_metrics(defaults)) proto->add_default_metrics(metric);
}

}  // namespace varifocal
