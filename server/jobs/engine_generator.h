// A Generator whose answers come from the engine in this process.
//
// Continuations of one context are one engine request, which batches them. Otherwise there is one concurrent request
// per distinct context, and one answer when the last is done.
//
// Errors:  those of the split and of the engine; INTERNAL when the encoded ids differ from the token ids of the sample.
// Threads: any, as in the Generator contract; `done` runs on the engine's thread.
#pragma once

#include <memory>
#include <vector>

#include "eval_tasks/generator.h"
#include "server/hosting/model_host.h"

namespace varifocal {

class EngineGenerator : public Generator {
 public:
  // Keeps the model alive; must not be destroyed in an engine's callback.
  explicit EngineGenerator(std::shared_ptr<HostedModel> model);

  Id Start(const GenerationRequest& request, Done done) override;
  void Cancel(Id id) override;
  absl::Status Fault() const override;

 private:
  struct Part;     // a request of the engine, and which of the sample's continuations it scores
  struct Fanout;   // the unfinished parts of one sample
  struct Pending;  // fan-outs by id

  absl::StatusOr<EngineRequest> ToGenerate(const GenerationRequest& request) const;
  absl::StatusOr<std::vector<Part>> ToScore(const GenerationRequest& request) const;
  absl::StatusOr<std::vector<Part>> ToParts(const GenerationRequest& request) const;
  Id StartFanout(std::vector<Part> parts, Done done);

  const std::shared_ptr<HostedModel> model_;
  const std::shared_ptr<Pending> pending_;  // shared with the engine's callbacks
};

}  // namespace varifocal
