// Cost of building one group of samples with the shipped tokenizer, by task and length: time, prompt tokens per second,
// and tokenizer passes per byte of the prompt, which must not grow with the size search.
#include <map>
#include <string>
#include <utility>

#include "benchmark/benchmark.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"
#include "eval_tasks/testing_samples.h"
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
  const CountingTokenizer counting(*counter);
  int index = 0;
  int64_t token_count = 0, byte_count = 0;
  for (auto _ : state) {
    auto group = task->MakeGroup({1, static_cast<int>(state.range(0)), index}, counting);
    if (!group[0].ok()) return state.SkipWithError(std::string(group[0].status().message()).c_str());
    index += group.size();
    token_count += std::ssize(group[0]->token_ids);
    byte_count += std::ssize(group[0]->prompt);
  }
  state.SetItemsProcessed(index);
  state.counters["tokens/s"] = benchmark::Counter(token_count, benchmark::Counter::kIsRate);
  state.counters["times_encoded"] = static_cast<double>(counting.byte_count()) / byte_count;
}

BENCHMARK_CAPTURE(MakeOneGroup, recall_kv, "recall_kv")->Arg(8192)->Arg(32768)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, icl_labels, "icl_labels")->Arg(8192)->Arg(32768)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, rag_facts, "rag_facts")->Arg(8192)->Arg(32768)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MakeOneGroup, longqa_story, "longqa_story")->Arg(8192)->Arg(32768)->Unit(benchmark::kMillisecond);

void Lengths(benchmark::internal::Benchmark* bench) {
  for (int length : {8192, 32768, 131072, 1048576}) bench->Arg(length);
  bench->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(MakeOneGroup, niah_single, "niah", {{"haystack", "story"}})->Apply(Lengths);
BENCHMARK_CAPTURE(MakeOneGroup, niah_multikey, "niah", {{"haystack", "needles"}})->Apply(Lengths);
BENCHMARK_CAPTURE(MakeOneGroup, variable_tracking, "variable_tracking")->Apply(Lengths);
BENCHMARK_CAPTURE(MakeOneGroup, common_words, "common_words")->Apply(Lengths);
BENCHMARK_CAPTURE(MakeOneGroup, frequent_words, "frequent_words")->Apply(Lengths);
BENCHMARK_CAPTURE(MakeOneGroup, where_thing, "fact_tracking", {{"ask", "where_thing"}})->Apply(Lengths);

}  // namespace
}  // namespace varifocal
