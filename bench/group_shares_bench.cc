// What counting a prompt's groups costs per layer, beside reading them. Arguments: tokens, K, k, w. Groups are drawn
// evenly, so that every set of groups occurs, which is the most there is to do.
#include <benchmark/benchmark.h>

#include "base/random.h"
#include "server/engine/group_shares.h"

namespace varifocal {
namespace {

void BM_CountGroups(benchmark::State& state) {
  const uint64_t group_count = state.range(1);
  LayerGroups layer{.group_count = static_cast<int>(group_count)};
  Random random("group shares");
  for (int64_t i = 0; i < state.range(0); ++i) {
    uint32_t groups = 0;
    while (__builtin_popcount(groups) < state.range(2)) groups |= uint32_t{1} << random.Below(group_count);
    layer.groups.push_back(groups);
  }
  for (auto _ : state) {
    CountGroups(state.range(3), layer);
    benchmark::DoNotOptimize(layer.visible_pair_count);
  }
  state.counters["per_token"] =
      benchmark::Counter(state.range(0), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_CountGroups)
    ->Args({1024, 8, 2, 32})
    ->Args({32768, 8, 1, 128})
    ->Args({32768, 8, 2, 128})
    ->Args({32768, 16, 2, 128})
    ->Args({32768, 16, 4, 128})
    ->Args({32768, 32, 2, 128})
    ->Args({32768, 32, 4, 128})
    ->Args({131072, 8, 2, 128});

}  // namespace
}  // namespace varifocal
