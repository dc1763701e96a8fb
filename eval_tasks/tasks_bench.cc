// What it costs to make one group of four samples with the shipped tokenizer, by task and length.
#include <map>
#include <string>
#include <utility>

#include "benchmark/benchmark.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

void MakeOneGroup(benchmark::State& state, const std::string& kind,
                  std::map<std::string, std::string> parameters = {}) {
  static const auto counter = MakeTokenCounter(Tokenizer::Load("models/baseline/tokenizer.json").value());
  SuiteSpec suite;
  suite.name = "bench";
  suite.lengths = {1024};
  suite.tasks = {{"", kind, std::move(parameters), {}, 0}};
  const auto task = MakeTask(ValidateSuiteSpec(suite)->tasks[0]).value();
  int index = 0;
  for (auto _ : state) {
    auto group = task->MakeGroup({1, static_cast<int>(state.range(0)), index}, *counter);
    benchmark::DoNotOptimize(group);
    index += static_cast<int>(group.size());
  }
  state.SetItemsProcessed(index);
}

BENCHMARK_CAPTURE(MakeOneGroup, recall_kv, "recall_kv")->Arg(8192)->Arg(32768)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, icl_labels, "icl_labels")->Arg(8192)->Arg(32768)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, rag_facts, "rag_facts")->Arg(8192)->Arg(32768)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, longqa_story, "longqa_story")->Arg(8192)->Arg(32768)->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(MakeOneGroup, niah_single, "niah", {{"haystack", "story"}})
    ->Arg(32768)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, niah_multikey, "niah", {{"haystack", "needles"}})
    ->Arg(32768)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, variable_tracking, "variable_tracking")->Arg(32768)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, common_words, "common_words")->Arg(32768)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, frequent_words, "frequent_words")->Arg(32768)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, where_thing, "fact_tracking", {{"ask", "where_thing"}})
    ->Arg(32768)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace varifocal
