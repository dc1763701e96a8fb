// The registry of a daemon's models by name: each has a checkpoint, a tokenizer and an engine.
//
// All variants of a model (`NAME`, `NAME@t=0.7`) share one entry: the temperature is part of each request. Users of a
// model hold a shared pointer, so unloading only removes the name; the last user frees the memory.
//
// Errors:  from Load: those of LoadModel and Engine::Create; INVALID_ARGUMENT (BAD_MODEL_NAME), ALREADY_EXISTS
//          (MODEL_ALREADY_LOADED). From Find: NOT_FOUND (MODEL_NOT_FOUND), UNAVAILABLE (MODEL_LOADING, ENDPOINT_FAULTED).
// Threads: any. The last shared pointer must not be dropped on an engine's callback.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "eval_tasks/checkpoint_place.h"
#include "eval_tasks/overrides.h"
#include "server/engine/engine.h"
#include "server/hosting/model_labels.h"
#include "server/model/model.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

struct HostedModel {
  std::string name;  // "baseline"
  std::string directory;
  ModelConfig config;
  ModelProvenance provenance;
  std::shared_ptr<const Tokenizer> tokenizer;     // null when the directory has none
  std::shared_ptr<const ChatFormat> chat_format;  // null when the directory has no chat_format.json
  std::string sampling_defaults;                  // of generation_config.json, as text; never applied
  std::unique_ptr<Engine> engine;
};

// Creates a HostedModel except for its name and directory; tests inject a fake. The real one loads DIR@f32 and DIR@bf16
// as DIR in that number format, overriding the options, so that one job can have two formats of one checkpoint,
// DIR@adapter=DIR2 with an adapter, and DIR@cuda:1 on that device (checkpoint_place.h). On a list of devices it is one copy
// on each (replicated_engine.h).
using ModelFactory =
    std::function<absl::StatusOr<std::unique_ptr<HostedModel>>(const std::string& name, const std::string& directory)>;
ModelFactory MakeModelFactory(const ModelOptions& model_options, const EngineOptions& engine_options);

class ModelHost {
 public:
  explicit ModelHost(ModelFactory factory) : factory_(std::move(factory)) {}

  // Blocks while the checkpoint is read. The same name and directory again returns the loaded model; ALREADY_EXISTS where
  // its files have changed since.
  absl::StatusOr<std::shared_ptr<HostedModel>> Load(const std::string& name, const std::string& directory);
  // The same with another factory, for models that are no checkpoint on this machine.
  absl::StatusOr<std::shared_ptr<HostedModel>> LoadWith(const std::string& name, const std::string& directory,
                                                        const ModelFactory& factory);
  // Lists a model that cannot be loaded now, until LoadWith of the same name and directory succeeds: Find returns `why`,
  // with the reason ENDPOINT_FAULTED.
  void AddOff(const std::string& name, const std::string& directory, const absl::Status& why);
  // One that is off is no longer listed, and not tried again.
  absl::Status Unload(const std::string& name);
  absl::Status CheckCanUnload(const std::string& name) const;  // as Find's, but for one that is off
  bool IsOff(const std::string& name) const;
  absl::StatusOr<std::shared_ptr<HostedModel>> Find(const std::string& name) const;
  std::vector<std::shared_ptr<HostedModel>> List() const;  // by name, ready ones
  std::map<std::string, std::string> Loading() const;      // name and directory of those being read
  // 1 for one that is not ready. Takes no reference, so that it may be called where none may be dropped.
  int64_t ServingCopyCount(const std::string& name) const;
  struct OffModel {
    std::string name, directory;
    absl::Status why;
  };
  std::vector<OffModel> Off() const;         // by name
  ModelLabels& labels() { return labels_; }  // of metrics

 private:
  struct Entry {
    std::string directory;
    std::shared_ptr<HostedModel> model;             // null while it is being read or off
    absl::Status off;                               // why it is off
    std::map<std::string, std::string> files = {};  // sizes and times of the checkpoint's when it was read
  };

  const ModelFactory factory_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ VF_GUARDED_BY(mutex_);
  ModelLabels labels_;
};

// INVALID_ARGUMENT unless the name is a letter followed by letters, digits, `_`, `-`, `.`; at most 63 characters.
absl::Status CheckModelName(absl::string_view name);

// The model's chat format under the settings, null without one. INVALID_ARGUMENT (BAD_ATTENTION_OVERRIDE) where they set a switch
// that its template does not have.
absl::StatusOr<std::shared_ptr<const ChatFormat>> ChatFormatOf(const HostedModel& model, const OverrideMap& given);

// INVALID_ARGUMENT unless the model takes these, the chat template's switch apart: names of its table, values in their ranges,
// none in place of a learned setting. BAD_FOCAL_TEMPERATURE for temperatures of all layers, else BAD_ATTENTION_OVERRIDE.
absl::StatusOr<AttentionOverrides> ToAttentionOverrides(const ModelConfig& config, const OverrideMap& given);

// The most tokens, prompt and new ones together, of a request under these settings.
absl::StatusOr<int64_t> PositionLimit(const ModelConfig& config, const AttentionOverrides& overrides);

// FunctionJson of the model, its chat format included.
std::string FunctionOf(const HostedModel& model);

// UNAVAILABLE (DEVICE_FAULTED) with the model's name and the cause when its device has failed permanently; the engine's
// own status (ENDPOINT_FAULTED) while a server elsewhere does not answer.
absl::Status FaultOf(const HostedModel& model);

// FAILED_PRECONDITION (MODEL_WITHOUT_CHAT_FORMAT) unless the model has a chat_format.json.
absl::Status CheckHasChatFormat(const HostedModel& model);

}  // namespace varifocal
