// A fake engine: results are a function of the request, so that services and jobs can be tested without a model, with
// controlled latency and fault injection.
//
// The text of a generation is "answer-" and eight hexadecimal characters over ids and temperatures; log-probabilities
// are -0.5 each. One thread answers requests in order, each after `delay_ms`, unless held.
//
// Threads: any, like an Engine.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "server/engine/engine.h"
#include "server/hosting/model_host.h"

namespace varifocal {

// Shared by all engines of one factory; set before or during use.
class FakeEngineControl {
 public:
  void SetDelayMs(int delay_ms);
  void Hold();                // blocks all answers ..
  void Release();             // .. until Release
  void HoldAfter(int count);  // the same after `count` more answers
  // The status of the next `count` answered requests.
  void FailNext(int count, absl::Status status);
  // A persistent fault of the named model: the status of its engine and of all its requests; OK clears it.
  void SetFault(const std::string& model, absl::Status status);
  void SetPageCount(
      int64_t page_count);  // page count reported by the engines; 32 are enough for a model's longest context
  void SetInstructionSet(std::string isa);  // of models created later
  std::string instruction_set() const;
  int started_count() const;
  void WaitUntilStarted() const;  // until any request has been
  int cancelled_count() const;

 private:
  friend class FakeEngine;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  int delay_ms_ VF_GUARDED_BY(mutex_) = 0;
  bool held_ VF_GUARDED_BY(mutex_) = false;
  int until_hold_ VF_GUARDED_BY(mutex_) = 0;  // answers; 0: no end
  int failures_ VF_GUARDED_BY(mutex_) = 0;
  int64_t page_count_ VF_GUARDED_BY(mutex_) = 32;
  std::string isa_ VF_GUARDED_BY(mutex_) = "none";
  absl::Status failure_ VF_GUARDED_BY(mutex_);
  std::map<std::string, absl::Status> faults_ VF_GUARDED_BY(mutex_);  // by model
  int started_count_ VF_GUARDED_BY(mutex_) = 0;
  int cancelled_count_ VF_GUARDED_BY(mutex_) = 0;
};

inline constexpr int kFakeHeadCount = 1024;  // over the two layers

// The result of a request, a function of it alone.
EngineResult FakeAnswer(const EngineRequest& request);

class FakeEngine : public Engine {
 public:
  FakeEngine(std::shared_ptr<FakeEngineControl> control, std::string model);
  ~FakeEngine() override;

  absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) override;
  void Cancel(Handle handle) override;
  const LoadedModel& model() const override;  // not available: do not call
  EngineDescription Describe() const override;
  EngineStatus Status() const override { return {}; }
  absl::StatusOr<EngineEstimate> Estimate(int64_t prompt_token_count, int64_t new_token_count,
                                          int64_t cached_token_count) override;
  void DropPrefixCache() override {}
  absl::Status Fault() const override;

 private:
  struct Pending {
    Handle handle;
    EngineRequest request;
    EngineCallbacks callbacks;
    bool cancelled = false;
  };
  void Loop();

  const std::shared_ptr<FakeEngineControl> control_;
  const std::string model_;
  std::deque<std::shared_ptr<Pending>> queue_ VF_GUARDED_BY(control_->mutex_);
  Handle next_handle_ VF_GUARDED_BY(control_->mutex_) = 0;
  bool stopping_ VF_GUARDED_BY(control_->mutex_) = false;
  std::thread thread_;
};

// Models of 2 layers and 4,096 positions (trained on 1,024) with the tokenizer in models/baseline. A directory whose
// name ends in "learned" has learned temperatures, one that ends in "bare" no tokenizer, one that ends in "chat" a
// chat format (another one in "other-chat"), one that ends in "missing" is NOT_FOUND.
ModelFactory MakeFakeModelFactory(std::shared_ptr<FakeEngineControl> control);
// The same models with other engines.
using MakeEngine = std::function<std::unique_ptr<Engine>(const std::string& model)>;
ModelFactory MakeFakeModelFactory(std::shared_ptr<FakeEngineControl> control, MakeEngine make_engine);

}  // namespace varifocal
