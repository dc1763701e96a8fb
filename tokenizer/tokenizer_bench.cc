// Speed of loading, encoding and decoding, on one thread: the golden families, and any tokenizer.json files that
// VARIFOCAL_TOKENIZERS names (separated by commas), on the text of VARIFOCAL_TEXT (a file) or on repeated prose; and
// words of half a megabyte and a megabyte, whose times must be proportional. recipes/goldens/bench_tokenizers.py runs
// the tokenizers library for comparison.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

std::string Prose() {
  std::string text;
  for (int line = 0; text.size() < 130'000; ++line) {
    text += "The copper lantern of Maple Street was given to the baker " + std::to_string(line) +
            " days ago; who took it?\n";
  }
  return text;
}

const std::string& Text() {
  static const std::string* text = [] {
    const char* path = std::getenv("VARIFOCAL_TEXT");
    if (path == nullptr) return new std::string(Prose());
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return new std::string(std::move(bytes).str());
  }();
  return *text;
}

std::string Letters(size_t size, int alphabet_size) {
  std::string text;
  uint64_t state = 1;
  while (text.size() < size) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text.push_back('a' + (state >> 33) % alphabet_size);
  }
  return text;
}

void Load(benchmark::State& state, const std::string& path) {
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::Load(path).ok());
}

void Encode(benchmark::State& state, const std::string& path, const std::string& text) {
  const auto tokenizer = *Tokenizer::Load(path);
  size_t token_count = 0;
  for (auto _ : state) token_count = tokenizer->Encode(text)->size();
  state.SetBytesProcessed(state.iterations() * text.size());
  state.counters["tokens"] = token_count;
}

void Decode(benchmark::State& state, const std::string& path, const std::string& text) {
  const auto tokenizer = *Tokenizer::Load(path);
  const auto ids = *tokenizer->Encode(text);
  size_t byte_count = 0;
  for (auto _ : state) byte_count = tokenizer->Decode(ids)->size();
  state.SetBytesProcessed(state.iterations() * byte_count);
}

void Register(const std::string& path) {
  const auto milliseconds = benchmark::kMillisecond;
  benchmark::RegisterBenchmark(("load " + path).c_str(), Load, path)->Unit(milliseconds);
  benchmark::RegisterBenchmark(("encode " + path).c_str(), Encode, path, Text())->Unit(milliseconds);
  benchmark::RegisterBenchmark(("decode " + path).c_str(), Decode, path, Text())->Unit(milliseconds);
  for (int alphabet_size : {1, 26}) {
    for (size_t size : {500'000, 1'000'000}) {
      const std::string name = "word " + std::to_string(size) + "/" + std::to_string(alphabet_size) + " " + path;
      benchmark::RegisterBenchmark(name.c_str(), Encode, path, Letters(size, alphabet_size))->Unit(milliseconds);
    }
  }
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) {
  const char* named = std::getenv("VARIFOCAL_TOKENIZERS");
  if (named != nullptr) {
    for (absl::string_view path : absl::StrSplit(named, ',')) varifocal::Register(std::string(path));
  } else {
    varifocal::Register("models/baseline");
    for (const char* family : {"llama3", "llama2", "gemma", "t5"}) {
      varifocal::Register(std::string("tests/testdata/goldens/tokenizers/") + family);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
