#include "wire/job_spec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/task.h"
#include "wire/overrides.h"
#include "wire/resource_names.h"

namespace varifocal {
namespace {

void ResolvePaths(const std::filesystem::path& folder, v1::TaskConfig* task) {
  const TaskKind* kind = FindTaskKind(task->kind().empty() ? task->name() : task->kind());
  if (kind == nullptr) return;
  for (const ParameterInfo& info : kind->parameters) {
    const auto path = task->mutable_parameters()->find(info.name);
    if (info.type != ParameterType::kPath || path == task->mutable_parameters()->end() || path->second.empty())
      continue;
    path->second = (folder / path->second).lexically_normal().string();
  }
}

AnswerSpec FromProto(const v1::AnswerConfig& proto) {
  return {.max_new_tokens = proto.max_new_tokens(), .thinking_max_tokens = proto.thinking_max_tokens()};
}

v1::AnswerConfig ToProto(const AnswerSpec& answer) {
  v1::AnswerConfig proto;
  proto.set_max_new_tokens(answer.max_new_tokens);
  proto.set_thinking_max_tokens(answer.thinking_max_tokens);
  return proto;
}

ThinkingSpec FromProto(const v1::ThinkingConfig& proto) {
  return {.begin = proto.begin(), .end = proto.end(), .force = proto.force(), .answer_prefix = proto.answer_prefix()};
}

v1::ThinkingConfig ToProto(const ThinkingSpec& thinking) {
  v1::ThinkingConfig proto;
  proto.set_begin(thinking.begin);
  proto.set_end(thinking.end);
  proto.set_force(thinking.force);
  proto.set_answer_prefix(thinking.answer_prefix);
  return proto;
}

FilterSpec FromProto(const v1::FilterConfig& proto) {
  FilterSpec filter{.filter = proto.filter(), .pattern = proto.pattern(), .match = proto.match(), .text = proto.text()};
  if (proto.has_group()) filter.group = proto.group();
  return filter;
}

v1::FilterConfig ToProto(const FilterSpec& filter) {
  v1::FilterConfig proto;
  proto.set_filter(filter.filter);
  proto.set_pattern(filter.pattern);
  if (filter.group.has_value()) proto.set_group(*filter.group);
  proto.set_match(filter.match);
  proto.set_text(filter.text);
  return proto;
}

TaskSpec FromProto(const v1::TaskConfig& proto) {
  TaskSpec task;
  task.name = proto.name();
  task.kind = proto.kind();
  task.parameters.insert(proto.parameters().begin(), proto.parameters().end());
  task.metrics.assign(proto.metrics().begin(), proto.metrics().end());
  if (proto.has_samples()) task.samples = proto.samples();
  task.chat = proto.chat();
  task.samples_at.insert(proto.samples_at().begin(), proto.samples_at().end());
  task.answer = FromProto(proto.answer());
  task.form = proto.form();
  for (const v1::FilterConfig& filter : proto.filters()) task.filters.push_back(FromProto(filter));
  return task;
}

v1::TaskConfig ToProto(const TaskSpec& task) {
  v1::TaskConfig proto;
  proto.set_name(task.name);
  proto.set_kind(task.kind);
  proto.mutable_parameters()->insert(task.parameters.begin(), task.parameters.end());
  proto.mutable_metrics()->Add(task.metrics.begin(), task.metrics.end());
  if (task.samples != 0) proto.set_samples(task.samples);
  proto.set_chat(task.chat);
  proto.mutable_samples_at()->insert(task.samples_at.begin(), task.samples_at.end());
  if (task.answer.is_given()) *proto.mutable_answer() = ToProto(task.answer);
  proto.set_form(task.form);
  for (const FilterSpec& filter : task.filters) *proto.add_filters() = ToProto(filter);
  return proto;
}

v1::Variant ToProto(const Variant& variant) {
  v1::Variant proto;
  proto.set_model(ModelResource(variant.model));
  *proto.mutable_overrides() = ToProto(variant.overrides);
  return proto;
}

absl::StatusOr<Variant> FromProto(const v1::Variant& proto, const std::string& place) {
  if (proto.name().empty()) {
    Variant variant;
    ASSIGN_OR_RETURN(variant.model, ParseModelResource(proto.model(), absl::StrCat(place, ".model")));
    absl::StatusOr<OverrideMap> overrides = OverridesOf(proto);
    if (!overrides.ok()) return WithField(overrides.status(), absl::StrCat(place, ".overrides"));
    variant.overrides = *std::move(overrides);
    return variant;
  }
  absl::StatusOr<Variant> variant = ParseVariant(proto.name());
  if (!proto.model().empty() || !proto.overrides().empty() || !proto.focal_temperatures().empty() ||
      !proto.attention_overrides().empty()) {
    variant = InvalidArgument("the variant \"", proto.name(), "\" is given as text and by other fields; leave one out");
  }
  if (variant.ok()) return variant;
  return WithReason(variant.status(), ErrorReason::kBadJobSpec, {{"field", absl::StrCat(place, ".name")}});
}

// The form of messages whose digests are stored: `name` and `overrides` were added later.
void ToOlderForm(v1::Variant* proto) {
  const absl::StatusOr<Variant> variant = FromProto(*proto, "");
  if (!variant.ok()) return;  // it is refused, so no digest of it is stored
  proto->Clear();
  proto->set_model(ModelResource(variant->model));
  for (const auto& [name, values] : variant->overrides) {
    if (name == kFocalTemperature && !values.empty()) {
      proto->mutable_focal_temperatures()->Add(values.begin(), values.end());
    } else if (values.size() == 1) {
      (*proto->mutable_attention_overrides())[name] = values[0];
    } else {
      (*proto->mutable_overrides())[name].mutable_values()->Add(values.begin(), values.end());
    }
  }
}

}  // namespace

void ResolvePaths(v1::SuiteConfig* suite) {
  if (suite->folder().empty()) return;
  for (v1::TaskConfig& task : *suite->mutable_tasks()) ResolvePaths(suite->folder(), &task);
  suite->clear_folder();
}

SuiteSpec FromProto(const v1::SuiteConfig& given) {
  v1::SuiteConfig proto = given;
  ResolvePaths(&proto);
  SuiteSpec suite;
  suite.name = proto.name();
  suite.description = proto.description();
  if (proto.has_seed()) suite.seed = proto.seed();
  suite.seeds = proto.seeds();
  suite.lengths.assign(proto.lengths().begin(), proto.lengths().end());
  if (proto.has_samples()) suite.samples = proto.samples();
  suite.samples_at.insert(proto.samples_at().begin(), proto.samples_at().end());
  for (const v1::TaskConfig& task : proto.tasks()) suite.tasks.push_back(FromProto(task));
  suite.answer = FromProto(proto.answer());
  suite.thinking = FromProto(proto.thinking());
  suite.epochs = proto.epochs();
  suite.form = proto.form();
  return suite;
}

v1::SuiteConfig ToProto(const SuiteSpec& suite) {
  v1::SuiteConfig proto;
  proto.set_name(suite.name);
  proto.set_description(suite.description);
  proto.set_seed(suite.seed);
  proto.set_seeds(suite.seeds);
  proto.mutable_lengths()->Add(suite.lengths.begin(), suite.lengths.end());
  proto.set_samples(suite.samples);
  proto.mutable_samples_at()->insert(suite.samples_at.begin(), suite.samples_at.end());
  for (const TaskSpec& task : suite.tasks) *proto.add_tasks() = ToProto(task);
  if (suite.answer.is_given()) *proto.mutable_answer() = ToProto(suite.answer);
  if (!(suite.thinking == ThinkingSpec())) *proto.mutable_thinking() = ToProto(suite.thinking);
  proto.set_epochs(suite.epochs);
  proto.set_form(suite.form);
  return proto;
}

absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& proto) {
  JobSpec spec;
  spec.suite = FromProto(proto.suite());
  for (int i = 0; i < proto.variants_size(); ++i) {
    ASSIGN_OR_RETURN(Variant variant, FromProto(proto.variants(i), absl::StrCat("spec.variants[", i, "]")));
    spec.variants.push_back(std::move(variant));
  }
  spec.limit = proto.limit();
  spec.in_flight = proto.in_flight();
  spec.keep_prompts = proto.keep_prompts();
  spec.inspect = proto.inspect();
  spec.inspected_rows = proto.inspected_rows();
  if (proto.has_sampling_temperature()) spec.decode.sampling_temperature = proto.sampling_temperature();
  if (proto.has_top_p()) spec.decode.top_p = proto.top_p();
  if (proto.has_top_k()) spec.decode.top_k = proto.top_k();
  if (proto.has_min_p()) spec.decode.min_p = proto.min_p();
  if (proto.has_shard()) spec.shard = {proto.shard().index(), proto.shard().count()};
  return spec;
}

v1::JobSpec ToProto(const JobSpec& spec) {
  v1::JobSpec proto;
  *proto.mutable_suite() = ToProto(spec.suite);
  for (const Variant& variant : spec.variants) *proto.add_variants() = ToProto(variant);
  if (spec.limit != 0) proto.set_limit(spec.limit);
  if (spec.in_flight != 0) proto.set_in_flight(spec.in_flight);
  proto.set_keep_prompts(spec.keep_prompts);
  proto.set_inspect(spec.inspect);
  proto.set_inspected_rows(spec.inspected_rows);
  if (spec.decode.sampling_temperature) proto.set_sampling_temperature(*spec.decode.sampling_temperature);
  if (spec.decode.top_p) proto.set_top_p(*spec.decode.top_p);
  if (spec.decode.top_k) proto.set_top_k(*spec.decode.top_k);
  if (spec.decode.min_p) proto.set_min_p(*spec.decode.min_p);
  if (!spec.shard.is_whole()) {
    proto.mutable_shard()->set_index(spec.shard.index);
    proto.mutable_shard()->set_count(spec.shard.count);
  }
  return proto;
}

std::string MessageSha256(const v1::JobSpec& given) {
  v1::JobSpec spec = given;
  if (spec.has_suite()) ResolvePaths(spec.mutable_suite());
  for (v1::Variant& variant : *spec.mutable_variants()) ToOlderForm(&variant);
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    spec.SerializeToCodedStream(&coded);
  }
  return Sha256Hex(bytes);
}

}  // namespace varifocal
