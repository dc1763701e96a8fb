// Encoding speed: prose by repeated words, and single words of half a megabyte and a megabyte, whose times must stay in
// proportion.
#include <benchmark/benchmark.h>

#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

std::shared_ptr<const Tokenizer> Load() { return *Tokenizer::Load("models/baseline"); }

std::string Letters(size_t size, int alphabet_size) {
  std::string text;
  uint64_t state = 1;
  while (text.size() < size) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text.push_back(static_cast<char>('a' + (state >> 33) % alphabet_size));
  }
  return text;
}

void Encode(benchmark::State& state, const std::string& text) {
  const auto tokenizer = Load();
  size_t token_count = 0;
  for (auto _ : state) token_count = tokenizer->Encode(text)->size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(token_count);
}

void OneWord(benchmark::State& state) {
  Encode(state, Letters(static_cast<size_t>(state.range(0)), static_cast<int>(state.range(1))));
}
BENCHMARK(OneWord)->ArgsProduct({{500'000, 1'000'000}, {1, 26}})->Unit(benchmark::kMillisecond);

void Prose(benchmark::State& state) {
  std::string text;
  for (int line = 0; text.size() < 130'000; ++line) {
    text += "The copper lantern of Maple Street was given to the baker " + std::to_string(line) +
            " days ago; who took it?\n";
  }
  Encode(state, text);
}
BENCHMARK(Prose)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace varifocal
