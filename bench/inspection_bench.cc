// What inspection of a prompt's last rows costs beside its prefill: a prompt on models/baseline, 256 segments, computed as
// a whole or, as a further question on one context is, all but its last 128 tokens cached. First that the answer is the same.
// Arguments: tokens, cached or not, inspected rows. CPU times are of the whole process; their ratio is the overhead of
// `submit --inspect`.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "server/engine/engine.h"

namespace varifocal {
namespace {

void BM_Prompt(benchmark::State& state) {
  static const std::shared_ptr<const LoadedModel> model = LoadModel("models/baseline", {}).value();
  auto engine = Engine::Create(model, {.prefix_cache = state.range(1) != 0}).value();
  Random random("inspection");
  EngineRequest request{.work = GenerateWork{.max_new_tokens = 1, .ignore_eos = true}};
  for (int64_t i = 0; i < state.range(0); ++i) request.token_ids.push_back(2 + random.Below(2000));
  const EngineResult plain = engine->Run(request).value();  // fills the cache
  for (int64_t i = 0; state.range(2) != 0 && i <= 256; ++i)
    request.inspected_boundaries.push_back(i * state.range(0) / 256);
  request.inspected_row_count = std::max<int64_t>(state.range(2), 1);
  const EngineResult inspected = engine->Run(request).value();
  VF_CHECK(plain.new_token_ids == inspected.new_token_ids && plain.new_token_log_probs == inspected.new_token_log_probs,
           "inspection changes no bit of an answer");
  VF_CHECK(inspected.inspected.heads.empty() == (state.range(2) == 0), "what was asked for was inspected");
  for (auto _ : state) benchmark::DoNotOptimize(engine->Run(request).value());
}
BENCHMARK(BM_Prompt)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->ArgsProduct({{16384}, {0, 1}, {0, 1, 32}});

}  // namespace
}  // namespace varifocal
