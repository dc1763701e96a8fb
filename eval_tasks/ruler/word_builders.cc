// The builders of variable tracking, common words and frequent words.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/template.h"
#include "eval_tasks/python/text.h"
#include "eval_tasks/ruler/builder.h"

namespace varifocal::ruler {
namespace {

constexpr absl::string_view kUpperCase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", kLowerCase = "abcdefghijklmnopqrstuvwxyz";

std::string DrawLetters(absl::string_view letters, size_t count, Streams& streams) {
  std::string word;
  for (const size_t i : streams.python.Choices(letters.size(), count)) word += letters[i];
  return word;
}

size_t CountDistinct(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  return std::unique(words.begin(), words.end()) - words.begin();
}

std::string DrawValue(Streams& streams) { return absl::StrCat(10'000 + streams.numpy.Below(89'999)); }

class VariableTrackingBuilder : public Builder {
 public:
  VariableTrackingBuilder(const Inputs& inputs, bool is_example) : inputs_(inputs), is_example_(is_example) {}

  absl::StatusOr<std::optional<Built>> Build(int64_t units, int64_t, Streams& streams) const override {
    // Names that are not all different are more than a chain has, and are cut into chains all the same.
    constexpr size_t kNames = kHops + 1;
    const size_t name_size = is_example_ ? 3 : 5;
    std::vector<std::string> names;
    while (names.size() < kNames || CountDistinct(names) < kNames) {
      names.push_back(DrawLetters(kUpperCase, name_size, streams));
    }
    std::vector<std::vector<std::string>> chains;
    std::string value;
    for (size_t first = 0; first < names.size(); first += kNames) {
      const std::string drawn = is_example_ ? "12345" : DrawValue(streams);
      if (first == 0) value = drawn;
      std::vector<std::string>& chain = chains.emplace_back();
      chain.push_back(absl::StrCat("VAR ", names[first], " = ", drawn));
      for (size_t j = 1; j < kNames; ++j) {
        if (first + j >= names.size()) return std::nullopt;
        chain.push_back(absl::StrCat("VAR ", names[first + j], " = VAR ", names[first + j - 1], " "));
      }
    }
    std::vector<std::string> lines(units, inputs_.noise);
    for (const std::vector<std::string>& chain : chains) {
      if (chain.size() > lines.size()) return std::nullopt;
      std::vector<size_t> places = streams.python.Sample(lines.size(), chain.size());
      std::sort(places.begin(), places.end());
      for (size_t j = 0; j < places.size(); ++j) lines.insert(lines.begin() + places[j] + j, chain[j]);
    }
    Built built;
    const std::string context = absl::StrReplaceAll(absl::StrJoin(lines, "\n"), {{". \n", ".\n"}});
    ASSIGN_OR_RETURN(built.text,
                     helmet::RenderText(is_example_ ? inputs_.own_template : inputs_.task_template,
                                        {{"context", context}, {"query", value}, {"num_v", absl::StrCat(kNames)}}));
    built.outputs.assign(names.begin(), names.begin() + kNames);
    return std::optional(std::move(built));
  }

 private:
  const Inputs& inputs_;
  const bool is_example_;
};

// "1. w 2. w .."
std::string Numbered(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) absl::StrAppend(&text, i > 0 ? " " : "", i + 1, ". ", words[i]);
  return text;
}

class CommonWordsBuilder : public Builder {
 public:
  CommonWordsBuilder(const Inputs& inputs, const BuildSettings& settings) : inputs_(inputs), settings_(settings) {
    words_ = inputs.words;
    PythonRandom(settings.seed).Shuffle(words_);
  }

  absl::StatusOr<std::optional<Built>> Build(int64_t units, int64_t, Streams& streams) const override {
    const bool is_short = settings_.context_length < 4096;
    ASSIGN_OR_RETURN(const std::optional<List> example,
                     is_short ? DrawList(20, 3, 1, streams) : DrawList(40, 10, 3, streams));
    if (!example.has_value()) return std::nullopt;
    ASSIGN_OR_RETURN(const std::optional<List> list,
                     is_short ? DrawList(units, 6, 1, streams) : DrawList(units, 30, 3, streams));
    if (!list.has_value()) return std::nullopt;
    ASSIGN_OR_RETURN(const std::string first, Prompt(example->context));
    ASSIGN_OR_RETURN(const std::string second, Prompt(list->context));
    return std::optional<Built>({absl::StrCat(first, " ", Numbered(example->common), "\n", second), list->common});
  }

 private:
  static constexpr size_t kCommon = 10;
  struct List {
    std::string context;
    std::vector<std::string> common;
  };

  absl::StatusOr<std::string> Prompt(const std::string& context) const {
    return helmet::RenderText(inputs_.task_template,
                              {{"num_cw", absl::StrCat(kCommon)}, {"context", context}, {"query", ""}});
  }

  absl::StatusOr<std::optional<List>> DrawList(size_t count, int common_repeats, int other_repeats,
                                               Streams& streams) const {
    const bool is_long = count > words_.size();
    const std::vector<std::string>& words = is_long ? inputs_.more_words : words_;
    if (is_long && words.empty()) {
      return FailedPrecondition("lists of ", count, " words need more than the ", words_.size(), " of wonderwords; ",
                                inputs_.more_words_problem);
    }
    if (count > words.size()) return std::nullopt;
    const std::vector<size_t> drawn = streams.python.Sample(words.size(), count);
    List list;
    std::vector<std::string> items, others;
    for (size_t i = 0; i < drawn.size(); ++i) (i < kCommon ? list.common : others).push_back(words[drawn[i]]);
    for (int i = 0; i < common_repeats; ++i) items.insert(items.end(), list.common.begin(), list.common.end());
    for (int i = 0; i < other_repeats; ++i) items.insert(items.end(), others.begin(), others.end());
    PythonRandom(settings_.seed).Shuffle(items);
    list.context = Numbered(items);
    return std::optional(std::move(list));
  }

  const Inputs& inputs_;
  const BuildSettings settings_;
  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Builder> MakeVariableTrackingBuilder(const Inputs& inputs, bool is_example) {
  return std::make_unique<VariableTrackingBuilder>(inputs, is_example);
}

std::unique_ptr<Builder> MakeCommonWordsBuilder(const Inputs& inputs, const BuildSettings& settings) {
  return std::make_unique<CommonWordsBuilder>(inputs, settings);
}

std::string RandomizeExample(std::string example, Streams& streams) {
  const std::string stripped = PythonStrip(example);
  const std::vector<std::string> words = absl::StrSplit(stripped, absl::ByAnyChar(" \n\t"), absl::SkipEmpty());
  for (size_t i = words.size() - std::min<size_t>(words.size(), kHops + 1); i < words.size(); ++i) {
    const std::string name = DrawLetters(kUpperCase, words[i].size(), streams);
    example = absl::StrReplaceAll(example, {{words[i], name}});
  }
  return absl::StrReplaceAll(example, {{"12345", DrawValue(streams)}});
}

std::vector<std::string> DrawCodedWords(int64_t vocabulary_size, uint32_t seed, Streams& streams) {
  std::vector<std::string> words;
  size_t distinct = 0;
  const size_t wanted = vocabulary_size;
  while (words.size() < wanted || distinct < wanted) {
    words.push_back(DrawLetters(kLowerCase, 6, streams));
    if (words.size() >= wanted) distinct = CountDistinct(words);
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  PythonRandom(seed).Shuffle(words);
  if (!words.empty()) words[0] = "...";  // the most frequent one is noise
  return words;
}

absl::StatusOr<Built> BuildFrequentWords(const Inputs& inputs, const std::vector<std::string>& vocabulary,
                                         int64_t word_count, uint32_t seed) {
  constexpr double kAlpha = 2.0, kZeta = 1.6449340668482264;  // scipy.special.zeta(2.0)
  std::vector<std::string> words;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const double share = word_count * std::pow(static_cast<double>(i + 1), -kAlpha) / kZeta;
    for (int64_t n = static_cast<int64_t>(share); n > 0; --n) words.push_back(vocabulary[i]);
  }
  PythonRandom(seed).Shuffle(words);
  Built built;
  ASSIGN_OR_RETURN(built.text,
                   helmet::RenderText(inputs.task_template, {{"context", absl::StrJoin(words, " ")}, {"query", ""}}));
  for (size_t i = 1; i < std::min<size_t>(4, vocabulary.size()); ++i) built.outputs.push_back(vocabulary[i]);
  return built;
}

}  // namespace varifocal::ruler
