// Upstream's generate_input_output functions: a prompt of so many units, with the random draws in upstream's order.
//
// Units are upstream's: lines of the haystack, words of the essay, words of the list, documents. A build that upstream's
// function ends with an exception has made the draws up to there, and has no value.
//
// Errors:  of the inputs (a template with another slot, english_words.json needed and missing).
// Threads: immutable; the streams are the caller's.
// Source:  NVIDIA/RULER, scripts/data/synthetic, commit c3f5e3b.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval_tasks/python/random.h"
#include "eval_tasks/ruler/inputs.h"
#include "eval_tasks/ruler/kinds.h"

namespace varifocal::ruler {

// The two global generators of a script, seeded alike.
struct Streams {
  explicit Streams(uint32_t seed) : python(seed), numpy(seed) {}

  PythonRandom python;
  NumpyLegacyRandom numpy;
};

struct Built {
  std::string text;  // of the whole template: prompt and prefix
  std::vector<std::string> outputs;
};

struct BuildSettings {
  uint32_t seed = 42;      // of fresh generators inside of the functions
  int context_length = 0;  // as asked: some numbers differ below 4,096
};

class Builder {
 public:
  virtual ~Builder() = default;
  // `index`: of the question, which only tasks with questions use.
  virtual absl::StatusOr<std::optional<Built>> Build(int64_t units, int64_t index, Streams& streams) const = 0;
};

std::unique_ptr<Builder> MakeNiahBuilder(const RulerTaskInfo& task, const Inputs& inputs,
                                         const BuildSettings& settings);
std::unique_ptr<Builder> MakeCommonWordsBuilder(const Inputs& inputs, const BuildSettings& settings);
std::unique_ptr<Builder> MakeQuestionBuilder(const Inputs& inputs, const BuildSettings& settings);
// Without an example, the example itself: short names, one value. With one, every build is a sample, after its draws.
std::unique_ptr<Builder> MakeVariableTrackingBuilder(const Inputs& inputs, bool is_example);
// The example before a question, with other names and another value, as upstream draws them for every sample.
std::string RandomizeExample(std::string example, Streams& streams);
inline constexpr int kHops = 4;  // of a chain, one less than it has variables

// Frequent words are sought by their own loop: the coded vocabulary is drawn once for a call, then texts of it are made.
std::vector<std::string> DrawCodedWords(int64_t vocabulary_size, uint32_t seed, Streams& streams);
absl::StatusOr<Built> BuildFrequentWords(const Inputs& inputs, const std::vector<std::string>& vocabulary,
                                         int64_t word_count, uint32_t seed);

}  // namespace varifocal::ruler
