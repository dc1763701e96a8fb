// Factory of real models; separate from model_host.cc, so that a test with a fake factory links neither model nor
// engine.
#include <memory>
#include <string>
#include <utility>

#include "base/reason.h"
#include "base/status_macros.h"
#include "kernels/backend.h"
#include "server/engine/memory_ledger.h"
#include "server/engine/replicated_engine.h"
#include "server/hosting/generation_defaults.h"
#include "server/hosting/model_host.h"
#include "server/model/config.h"
#include "server/model/device_list.h"

namespace varifocal {
namespace {

// Small steps on a CPU let requests alternate; a GPU needs thousands of rows for full utilisation.
constexpr int64_t kGpuChunkTokens = 8192;

// The resident models by name; "" when there are none.
std::string Residents() {
  const std::string others = MemoryLedger::Get().ToString();
  return others.empty() ? "" : absl::StrCat(" (", others, ")");
}

// Fails before packing if the weights do not fit.
absl::Status CheckRoomForWeights(const std::string& directory, const kernels::Backend& backend, int64_t needed_bytes) {
  const DeviceMemoryLeft memory = MemoryLeftOn(backend);
  if (memory.total_bytes == 0 || needed_bytes <= memory.free_bytes) return absl::OkStatus();
  return WithReason(
      ResourceExhausted(directory, " needs ", needed_bytes, " bytes for its weights; of ", memory.total_bytes,
                        " bytes of memory ", memory.free_bytes, " are free and not reserved", Residents()),
      ErrorReason::kNotEnoughMemory,
      {{"neededBytes", absl::StrCat(needed_bytes)}, {"freeBytes", absl::StrCat(memory.free_bytes)}});
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(std::shared_ptr<const LoadedModel> model,
                                                   const EngineOptions& options) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(std::move(model), options);
  if (!absl::IsResourceExhausted(engine.status())) return engine;
  return WithReason(ResourceExhausted(engine.status().message(), Residents()), ErrorReason::kNotEnoughMemory);
}

// The model on one device.
absl::StatusOr<std::unique_ptr<Engine>> MakeCopy(const std::string& directory, ModelOptions model_options,
                                                 EngineOptions engine_options) {
  absl::Status room;
  model_options.admit = [&](const kernels::Backend& backend, int64_t needed_bytes) {
    return room = CheckRoomForWeights(directory, backend, needed_bytes);
  };
  absl::StatusOr<std::shared_ptr<const LoadedModel>> read = LoadModel(directory, model_options);
  RETURN_IF_ERROR(room);  // keeps the engine's message
  ASSIGN_OR_RETURN(std::shared_ptr<const LoadedModel> loaded, std::move(read));
  if (engine_options.prefill_chunk_tokens == 0) {
    engine_options.prefill_chunk_tokens =
        loaded->provenance().backend == "cuda" ? kGpuChunkTokens : EngineOptions{}.prefill_chunk_tokens;
  }
  return MakeEngine(std::move(loaded), engine_options);
}

}  // namespace

ModelFactory MakeModelFactory(const ModelOptions& options, const EngineOptions& engine_options) {
  return [=](const std::string& name, absl::string_view place) -> absl::StatusOr<std::unique_ptr<HostedModel>> {
    ModelOptions model_options = options;
    const CheckpointPlace checkpoint = CheckpointOf(place);
    const std::string& directory = checkpoint.directory;
    if (!checkpoint.dtype.empty()) model_options.dtype = checkpoint.dtype;
    model_options.adapter_directory = checkpoint.adapter;
    model_options.ignored_config_keys = KeysOfModel(options.ignored_config_keys, name);
    ASSIGN_OR_RETURN(const std::vector<std::string> devices,
                     ParseDevices(checkpoint.devices.empty() ? options.device : checkpoint.devices));
    EngineOptions named_options = engine_options;
    named_options.name = name;
    std::vector<ReplicatedEngine::Copy> copies;
    for (const std::string& device : devices) {
      model_options.device = device;
      const auto backend = options.backends.find(device);
      model_options.backend = backend != options.backends.end() ? backend->second : options.backend;
      if (devices.size() > 1) named_options.name = absl::StrCat(name, " on ", device);
      absl::StatusOr<std::unique_ptr<Engine>> engine = MakeCopy(directory, model_options, named_options);
      if (!engine.ok()) return devices.size() > 1 ? Annotate(engine.status(), device) : engine.status();
      copies.push_back({device, *std::move(engine)});
    }
    auto hosted = std::make_unique<HostedModel>();
    if (copies.size() == 1) {
      hosted->engine = std::move(copies[0].engine);
    } else {
      ASSIGN_OR_RETURN(hosted->engine, ReplicatedEngine::Create(name, std::move(copies)));
    }
    const LoadedModel& loaded = hosted->engine->model();
    hosted->config = loaded.config();
    hosted->provenance = hosted->engine->Describe().model;
    hosted->tokenizer = loaded.tokenizer();
    ASSIGN_OR_RETURN(hosted->chat_format, ReadChatFormat(directory));
    ASSIGN_OR_RETURN(hosted->sampling_defaults, ReadSamplingDefaults(directory, loaded.config().vocabulary_size));
    return hosted;
  };
}

}  // namespace varifocal
