// Test helpers: a device that computes on the host, with all that may fail there.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"
#include "server/engine/engine_testing.h"

namespace varifocal {

// A device and its state.
class EmulatedDevice {
 public:
  // Of `chosen` the kernels count.
  explicit EmulatedDevice(bool graphs = false, double flops_per_second = 500e12, kernels::BackendOptions chosen = {}) {
    machine->flops_per_second = flops_per_second;
    chosen.dtype = kernels::DType::kBF16;
    chosen.thread_count = 1;
    chosen.cuda_graphs = graphs;
    auto backend = kernels::cuda::CreateBackendOn(kernels::cuda::MakeEmulatedRuntime(machine), 0, chosen);
    VF_CHECK(backend.ok(), "the emulated device opens");
    options.backend = std::move(*backend);
    options.cache_directory = testing::TempDir();
  }

  // Pages for a few short prompts: the emulator initializes memory on allocation.
  static EngineOptions Small() { return {.prefill_chunk_tokens = 64, .batch_size_max = 4, .kv_cache_bytes = 1 << 20}; }
  std::unique_ptr<Engine> Start(const std::string& golden, EngineOptions engine_options = Small()) const {
    auto model = LoadModel(golden[0] == '/' ? golden : GoldenDirectory(golden), options);
    EXPECT_TRUE(model.ok()) << model.status();
    return StartEngine(*std::move(model), engine_options);
  }

  std::shared_ptr<kernels::cuda::EmulatedMachine> machine = std::make_shared<kernels::cuda::EmulatedMachine>();
  ModelOptions options;
};

inline EngineRequest Generate(const std::string& prompt, size_t length, double temperature = 0, uint64_t seed = 1) {
  return {.token_ids = RandomIds(prompt, length),
          .work = GenerateWork{
              .max_new_tokens = 4, .ignore_eos = true, .sampling = {.temperature = temperature}, .seed = seed}};
}

}  // namespace varifocal
