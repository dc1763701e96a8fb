// A Generator whose answers come from the engine in this process.
//
// Continuations that follow one context are one request of the engine, which runs them side by side. Where they have
// contexts of their own there is a request for each different one, all at once, and one answer when the last is done.
//
// Errors:  those of the split and of the engine; INTERNAL when what would be run are not the token ids of the sample.
// Threads: any, as the Generator contract says; `done` comes on the engine's thread.
#pragma once

#include <memory>
#include <vector>

#include "eval_tasks/generator.h"
#include "server/hosting/model_host.h"

namespace varifocal {

class EngineGenerator : public Generator {
 public:
  // Keeps the model alive; must itself not be destroyed on an engine's callback.
  explicit EngineGenerator(std::shared_ptr<HostedModel> model);

  Id Start(const GenerationRequest& request, Done done) override;
  void Cancel(Id id) override;
  absl::Status Fault() const override;

 private:
  struct Part;     // a request of the engine, and which of the sample's continuations it scores
  struct Fanout;   // the parts of one sample under way
  struct Pending;  // fan-outs by id

  absl::StatusOr<EngineRequest> ToGenerate(const GenerationRequest& request) const;
  absl::StatusOr<std::vector<Part>> ToScore(const GenerationRequest& request) const;
  absl::StatusOr<std::vector<Part>> ToParts(const GenerationRequest& request) const;
  Id StartFanout(std::vector<Part> parts, Done done);

  const std::shared_ptr<HostedModel> model_;
  const std::shared_ptr<Pending> pending_;  // the engine's callbacks hold it too
};

}  // namespace varifocal
