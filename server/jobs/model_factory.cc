// Real models; apart from model_host.cc, so that a test with a fake factory links neither model nor engine.
#include <utility>

#include "base/status_macros.h"
#include "server/jobs/generation_defaults.h"
#include "server/jobs/model_host.h"

namespace varifocal {

ModelFactory MakeModelFactory(const ModelOptions& model_options, const EngineOptions& engine_options) {
  return [=](const std::string& directory) -> absl::StatusOr<std::unique_ptr<HostedModel>> {
    ASSIGN_OR_RETURN(std::shared_ptr<const LoadedModel> loaded, LoadModel(directory, model_options));
    auto hosted = std::make_unique<HostedModel>();
    hosted->config = loaded->config();
    hosted->provenance = loaded->provenance();
    hosted->tokenizer = loaded->tokenizer();
    ASSIGN_OR_RETURN(hosted->chat_format, ReadChatFormat(directory));
    ASSIGN_OR_RETURN(hosted->sampling_defaults, ReadSamplingDefaults(directory, loaded->config().vocabulary_size));
    ASSIGN_OR_RETURN(hosted->engine, Engine::Create(std::move(loaded), engine_options));
    return hosted;
  };
}

}  // namespace varifocal
