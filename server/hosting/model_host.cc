#include "server/hosting/model_host.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/exceptions.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "eval_tasks/checkpoint_place.h"
#include "eval_tasks/job_spec.h"
#include "server/model/function_json.h"
#include "server/model/run_time_setting.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

// Of every file of the checkpoint and its adapter that models are read from, by path; none where the place is no directory,
// as a server's.
std::map<std::string, std::string> FilesOf(const std::string& place) {
  std::map<std::string, std::string> files;
  const CheckpointPlace checkpoint = CheckpointOf(place);
  for (const std::string& directory : {checkpoint.directory, checkpoint.adapter}) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string ending = entry->path().extension().string();
      if (ending != ".safetensors" && ending != ".json") continue;
      std::error_code unread;
      const uintmax_t bytes = entry->file_size(unread);
      const auto time = entry->last_write_time(unread).time_since_epoch().count();
      if (!unread) files[entry->path().string()] = absl::StrCat(bytes, " ", time);
    }
  }
  return files;
}

// The first path that one of the two lacks or has otherwise; "" where there is none.
std::string FirstChange(const std::map<std::string, std::string>& before,
                        const std::map<std::string, std::string>& now) {
  for (const auto* files : {&before, &now}) {
    for (const auto& [path, unused] : *files) {
      const auto a = before.find(path), b = now.find(path);
      if (a == before.end() || b == now.end() || a->second != b->second) return path;
    }
  }
  return "";
}

}  // namespace

absl::Status CheckModelName(absl::string_view name) {
  return WithReason(CheckName("model", name), ErrorReason::kBadModelName);
}

absl::StatusOr<std::shared_ptr<const ChatFormat>> ChatFormatOf(const HostedModel& model, const OverrideMap& given) {
  const std::optional<bool> thinking = ThinkingOf(given);
  if (!thinking.has_value()) return model.chat_format;
  if (model.chat_format == nullptr || !model.chat_format->thinking_switch.has_value()) {
    return WithReason(InvalidArgument("thinking=", *thinking ? "on" : "off", ": model \"", model.name,
                                      "\" has no switch for it: its ",
                                      model.chat_format == nullptr ? "directory has no chat_format.json"
                                                                   : "chat_format.json has no \"thinking_switch\""),
                      ErrorReason::kBadAttentionOverride, {{"model", model.name}});
  }
  return std::make_shared<const ChatFormat>(model.chat_format->WithThinking(*thinking));
}

absl::StatusOr<AttentionOverrides> ToAttentionOverrides(const ModelConfig& config, const OverrideMap& given) {
  AttentionOverrides overrides;
  for (const auto& [name, values] : given) {
    const OverrideInfo* info = FindOverride(name);
    if (info != nullptr && info->kind == OverrideKind::kChatSwitch) continue;
    if (info != nullptr && info->may_be_list) {
      overrides.push_back({name, values});  // the model knows how many layers it has
      continue;
    }
    RETURN_IF_ERROR(
        WithReason(CheckOverrideCount(name, values), ErrorReason::kBadAttentionOverride, {{"field", "overrides"}}));
    overrides.push_back({name, values[0]});
  }
  RETURN_IF_ERROR(WithOverrides(config, overrides).status());
  return overrides;
}

absl::StatusOr<int64_t> PositionLimit(const ModelConfig& config, const AttentionOverrides& overrides) {
  ASSIGN_OR_RETURN(const RunTimeSetting setting, WithOverrides(config, overrides));
  return setting.max_position;
}

std::string FunctionOf(const HostedModel& model) {
  return FunctionJson(model.config, model.provenance.dtype,
                      model.chat_format != nullptr ? model.chat_format->ContentSha256() : "");
}

absl::Status FaultOf(const HostedModel& model) {
  const absl::Status fault = model.engine->Fault();
  // A server elsewhere may answer again; a device does not.
  if (fault.ok() || HasReason(fault, ErrorReason::kEndpointFaulted) ||
      HasReason(fault, ErrorReason::kEndpointBudgetSpent)) {
    return fault;
  }
  return WithReason(Unavailable("model \"", model.name, "\" is lost until varifocald starts again: ", fault.message()),
                    ErrorReason::kDeviceFaulted, {{"model", model.name}});
}

absl::Status CheckHasChatFormat(const HostedModel& model) {
  return WithReason(CheckHasChatFormat(model.chat_format.get(), model.name), ErrorReason::kModelWithoutChatFormat,
                    {{"model", model.name}});
}

absl::StatusOr<std::shared_ptr<HostedModel>> ModelHost::Load(const std::string& name, const std::string& directory) {
  return LoadWith(name, directory, factory_);
}

absl::StatusOr<std::shared_ptr<HostedModel>> ModelHost::LoadWith(const std::string& name, const std::string& directory,
                                                                 const ModelFactory& factory) {
  RETURN_IF_ERROR(CheckModelName(name));
  if (ValidUtf8Prefix(directory) != directory.size()) {
    // Proto strings are UTF-8: such a name would make every list of models unparsable.
    return WithReason(InvalidArgument("the directory of model \"", name, "\" has a name that is not UTF-8"),
                      ErrorReason::kBadDirectory, {{"field", "directory"}});
  }
  {
    MutexLock lock(mutex_);
    const auto [entry, is_new] = entries_.try_emplace(name, Entry{directory, nullptr, absl::OkStatus()});
    if (!is_new && !(entry->second.directory == directory && !entry->second.off.ok())) {
      if (entry->second.directory != directory) {
        return WithReason(AlreadyExists("model name \"", name, "\" is taken by ", entry->second.directory),
                          ErrorReason::kModelAlreadyLoaded, {{"model", name}, {"directory", entry->second.directory}});
      }
      if (entry->second.model != nullptr) {
        const std::string changed = FirstChange(entry->second.files, FilesOf(directory));
        if (changed.empty()) return entry->second.model;
        return WithReason(AlreadyExists("model \"", name, "\" is served as it was before ", changed,
                                        " changed; unload it first to load it as it is now"),
                          ErrorReason::kModelAlreadyLoaded, {{"model", name}, {"directory", directory}});
      }
      return WithReason(Unavailable("model \"", name, "\" is being loaded"), ErrorReason::kModelLoading,
                        {{"model", name}});
    }
  }
  std::map<std::string, std::string> files = FilesOf(directory);
  absl::StatusOr<std::unique_ptr<HostedModel>> made =
      CatchExceptions("loading the model", [&] { return factory(name, directory); });
  MutexLock lock(mutex_);
  // One that is off may have been unloaded meanwhile, and its name taken by another.
  const auto entry = entries_.find(name);
  const bool is_ours =
      entry != entries_.end() && entry->second.directory == directory && entry->second.model == nullptr;
  if (!made.ok()) {
    const absl::Status failed = Annotate(made.status(), absl::StrCat("model \"", name, "\""));
    if (is_ours && entry->second.off.ok()) {
      entries_.erase(entry);
    } else if (is_ours) {
      entry->second.off = failed;  // stays listed, with the present cause
    }
    return failed;
  }
  if (!is_ours)
    return absl::CancelledError(absl::StrCat("model \"", name, "\" was unloaded while it was being loaded"));
  (*made)->name = name;
  (*made)->directory = directory;
  (*made)->provenance.function_json = FunctionOf(**made);
  std::shared_ptr<HostedModel> model = *std::move(made);
  entries_[name] = {directory, model, absl::OkStatus(), std::move(files)};
  const ModelProvenance& from = model->provenance;
  Log(LogLevel::kInfo, "model_loaded",
      {{"model", name},
       {"directory", directory},
       {"backend", from.backend},
       {"isa", from.isa},
       {"device", from.device},
       {"dtype", from.dtype},
       {"threads", from.threads},
       {"attention", from.attention},
       {"weights_from", from.weights_from},
       {"parameters", from.parameter_count},
       {"weights_sha256", from.weights_sha256}});
  if (model->tokenizer == nullptr) {
    Log(LogLevel::kWarning, "model_without_tokenizer",
        {{"model", name},
         {"missing", absl::StrCat(CheckpointOf(directory).directory, "/tokenizer.json")},
         {"serves", "token ids alone, no text and no job"}});
  }
  return model;
}

void ModelHost::AddOff(const std::string& name, const std::string& directory, const absl::Status& why) {
  MutexLock lock(mutex_);
  entries_[name] = {directory, nullptr, why};
}

absl::Status ModelHost::Unload(const std::string& name) {
  RETURN_IF_ERROR(CheckCanUnload(name));
  std::shared_ptr<HostedModel> last;  // destroyed after the lock is released: stopping an engine may take long
  {
    MutexLock lock(mutex_);
    const auto entry = entries_.find(name);
    if (entry == entries_.end()) return absl::OkStatus();
    last = std::move(entry->second.model);
    entries_.erase(entry);
  }
  Log(LogLevel::kInfo, "model_unloaded", {{"model", name}});
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<HostedModel>> ModelHost::Find(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) {
    std::vector<std::string> names;
    for (const auto& [known, unused] : entries_) names.push_back(known);
    return WithReason(
        NotFound("no model \"", name, "\" is loaded", names.empty() ? "" : ", only ", absl::StrJoin(names, ", "),
                 "; --model=", name, "=DIRECTORY loads it, in a running daemon `varifocal load ", name, "=DIRECTORY`"),
        ErrorReason::kModelNotFound, {{"model", name}});
  }
  if (!entry->second.off.ok()) {
    return WithReason(Unavailable(entry->second.off.message(), "; it is tried again until it answers"),
                      ErrorReason::kEndpointFaulted, {{"model", name}});
  }
  if (entry->second.model == nullptr) {
    return WithReason(Unavailable("model \"", name, "\" is being loaded"), ErrorReason::kModelLoading,
                      {{"model", name}});
  }
  return entry->second.model;
}

int64_t ModelHost::ServingCopyCount(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end() || entry->second.model == nullptr) return 1;
  return entry->second.model->engine->ServingCopyCount();
}

std::map<std::string, std::string> ModelHost::Loading() const {
  MutexLock lock(mutex_);
  std::map<std::string, std::string> loading;
  for (const auto& [name, entry] : entries_) {
    if (entry.model == nullptr && entry.off.ok()) loading[name] = entry.directory;
  }
  return loading;
}

absl::Status ModelHost::CheckCanUnload(const std::string& name) const {
  return IsOff(name) ? absl::OkStatus() : Find(name).status();
}

bool ModelHost::IsOff(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(name);
  return entry != entries_.end() && !entry->second.off.ok();
}

std::vector<ModelHost::OffModel> ModelHost::Off() const {
  MutexLock lock(mutex_);
  std::vector<OffModel> off;
  for (const auto& [name, entry] : entries_) {
    if (!entry.off.ok()) off.push_back({name, entry.directory, entry.off});
  }
  return off;
}

std::vector<std::shared_ptr<HostedModel>> ModelHost::List() const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<HostedModel>> models;
  for (const auto& [name, entry] : entries_) {
    if (entry.model != nullptr) models.push_back(entry.model);
  }
  return models;
}

}  // namespace varifocal
