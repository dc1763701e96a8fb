// One model on several devices: an engine on each, which share its requests.
//
// An answer depends on its request alone (engine.h) and the devices are of one kind, so every copy gives the same bits.
// Requests of one context go to one copy, which has its keys and values; a context is what a request names, or else its first
// kContextTokens tokens. Others, and the first of a context, go to the copy whose unfinished requests have the fewest tokens.
//
// A copy whose device fails permanently is lost. Its unfinished requests run again from their start on the copies that are left;
// tokens that a caller has been given are not given again. Once all are lost, every request ends with Fault().
//
// Errors:  from Create: FAILED_PRECONDITION (DEVICES_DIFFER) when the copies may compute different bits. Others: as Engine, of
//          the copy that ran the request.
// Threads: as Engine; callbacks of one request never run at once, those of different ones may.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/engine/context_places.h"
#include "server/engine/engine.h"

namespace varifocal {

class ReplicatedEngine final : public Engine {
 public:
  // Of a request that names no context. Shorter prompts share too little for a copy to be waited for.
  static constexpr int64_t kContextTokens = 1024;

  struct Copy {
    std::string device;  // "cuda:1"
    std::unique_ptr<Engine> engine;
  };

  // At least one copy; `name` is the model's, for the log.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const std::string& name, std::vector<Copy> copies);
  ~ReplicatedEngine() override;

  absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) override;
  void Cancel(Handle handle) override;
  const LoadedModel& model() const override { return copies_.front().engine->model(); }
  EngineDescription Describe() const override;  // memory of all copies, the limits that every copy keeps
  EngineStatus Status() const override;         // sums
  absl::StatusOr<EngineEstimate> Estimate(int64_t prompt_token_count, int64_t new_token_count,
                                          int64_t cached_token_count) override;  // of one request, on one copy
  void DropPrefixCache() override;
  absl::Status Fault() const override;
  std::vector<EngineCopy> Copies() const override;

 private:
  struct Task;
  struct Load {
    int64_t tokens = 0;  // of unfinished requests
    absl::Status fault;  // not OK: it is lost
  };

  ReplicatedEngine(std::string name, std::vector<Copy> copies);
  absl::Status StartOnACopy(const std::shared_ptr<Task>& task) VF_EXCLUDES(mutex_);
  std::optional<size_t> Choose(const Task& task, const std::vector<bool>& refused) VF_REQUIRES(mutex_);
  void SetLost(size_t copy, const absl::Status& fault) VF_REQUIRES(mutex_);  // unless `fault` is OK
  EngineCallbacks CallbacksOf(const std::shared_ptr<Task>& task);
  void OnDone(const std::shared_ptr<Task>& task, absl::StatusOr<EngineResult> result) VF_EXCLUDES(mutex_);

  const std::string name_;
  std::vector<Copy> copies_;  // never changed but by the destructor

  mutable Mutex mutex_;
  CondVar moved_;
  std::vector<Load> loads_ VF_GUARDED_BY(mutex_);  // of each copy
  ContextPlaces<size_t> contexts_ VF_GUARDED_BY(mutex_);
  std::map<Handle, std::shared_ptr<Task>> tasks_ VF_GUARDED_BY(mutex_);  // unfinished
  Handle next_handle_ VF_GUARDED_BY(mutex_) = 1;
  int64_t moving_count_ VF_GUARDED_BY(mutex_) = 0;  // requests that leave a lost copy
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
};

}  // namespace varifocal
