// common_words and frequent_words: the most frequent words of a long list, RULER's aggregation families in our own
// wording (docs/tasks.md).
//
// common_words: a numbered list in which some words occur thirty times and all others three times (six and once in a
// short one, as upstream). The common ones are spread over the whole list, the others are in consecutive blocks, so that
// a longer list has more of them.
// frequent_words: coded text whose word frequencies follow a power law; the most frequent "word" is three dots, and the
// next three are asked for. Each block of about a hundred words follows the law.
//
// Source: Hsieh et al. 2024, arXiv:2404.06654, section 3 and appendix B.
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/tasks/distinct_words.h"
#include "eval_tasks/tasks/native_task.h"

namespace varifocal {
namespace {

// Common base: a list of words, one question about all of them.
class WordListPlan : public ContextPlan {
 public:
  absl::string_view header() const override { return header_; }
  absl::string_view footer() const override { return "\n\n"; }
  absl::string_view SeparatorBefore(int) const override { return " "; }
  int unit_count_max() const override { return 1 << 22; }
  std::vector<UnitSpan> Evidence(const std::vector<Unit>& units, int) const override {
    size_t size = units.size() - 1;  // separators
    for (const Unit& unit : units) size += unit.text.size();
    return {{0, 0, size}};
  }

 protected:
  std::string header_;
};

// "1. a 2. b ..", or just "a, b ..".
std::string Numbered(const std::vector<std::string>& words) {
  std::vector<std::string> items;
  for (size_t i = 0; i < words.size(); ++i) items.push_back(absl::StrCat(i + 1, ". ", words[i]));
  return absl::StrJoin(items, " ");
}

// Repeats of the words: upstream's unless set in the suite.
struct Repeats {
  int common, other;
};

Repeats RepeatsOf(const Parameters& parameters, int context_length) {
  constexpr int kLongLength = 4096;
  const std::optional<double> common = FindNumber(parameters, "common_repeats");
  const std::optional<double> other = FindNumber(parameters, "other_repeats");
  if (!common.has_value() && !other.has_value() && context_length < kLongLength) return {6, 1};
  return {static_cast<int>(common.value_or(30)), static_cast<int>(other.value_or(3))};
}

class CommonWordsPlan : public WordListPlan {
 public:
  CommonWordsPlan(const TaskSpec& spec, const GroupSeeds& seeds)
      : repeats_(RepeatsOf(spec.parameters, seeds.context_length)) {
    Random random(seeds.items[0]);
    auto draw = [&](int count) {
      std::vector<std::string> words;
      for (int i = 0; i < count; ++i) words.push_back(used_.Draw(random));
      return words;
    };
    common_ = draw(GetInteger(spec.parameters, "common"));
    const std::vector<std::string> shown = draw(3);
    std::vector<std::string> example = draw(4);
    for (const std::string& word : shown) example.insert(example.end(), 4, word);
    random.Shuffle(example);
    for (size_t i = 0; i < common_.size() * repeats_.common; ++i) {
      depths_.push_back(random.Uniform());
    }
    const std::string task = "In the numbered list, a few words come up far more often than the others. List: ";
    header_ = absl::StrCat(task, Numbered(example), "\n\nQuestion: Which 3 words come up most often in the list?\n",
                           "Answer: These words come up most often: ", Numbered(shown), "\n\n", task);
    PlannedQuestion question;
    question.line = absl::StrCat("Question: Which ", common_.size(), " words come up most often in the list?\n",
                                 "Answer: These words come up most often:");
    question.gold = common_;
    questions_.push_back(std::move(question));
  }

  int unit_count_min() const override { return depths_.size() + 1; }

  std::vector<Unit> Build(int count, Random& filler) const override {
    std::vector<std::string> words(count);
    const std::vector<int> places = PlaceAtDepths(depths_, count);
    std::vector<Unit> units(count);
    for (size_t i = 0; i < places.size(); ++i) {
      words[places[i]] = common_[i % common_.size()];
      units[places[i]].planted = i;
    }
    DistinctWords used = used_;
    std::vector<std::string> stretch;
    for (int i = 0; i < count; ++i) {
      if (words[i].empty()) {
        if (stretch.empty()) stretch = DrawStretch(used, filler);
        words[i] = std::move(stretch.back());
        stretch.pop_back();
      }
      units[i].text = absl::StrCat(i + 1, ". ", words[i]);
    }
    listed_ = std::move(used);
    return units;
  }

  // Replaces a word, whose count decreases by one. The replacement may already be in the list, unless that could make it as
  // frequent as a common one.
  std::optional<Unit> Alternative(const Unit& unit, Random& filler) const override {
    if (unit.planted >= 0) return std::nullopt;
    DistinctWords used = used_;
    DistinctWords& others = repeats_.common - repeats_.other < kSafeDistance ? listed_ : used;
    return Unit{absl::StrCat(unit.text.substr(0, unit.text.find(' ') + 1), others.Draw(filler)), -1, {}};
  }

 private:
  // Fifty words, with all their repeats, in random order.
  std::vector<std::string> DrawStretch(DistinctWords& used, Random& filler) const {
    constexpr int kWords = 50;
    std::vector<std::string> stretch;
    for (int i = 0; i < kWords; ++i) stretch.insert(stretch.end(), repeats_.other, used.Draw(filler));
    filler.Shuffle(stretch);
    return stretch;
  }

  // A dozen exchanges fill a length: the probability that so many of them draw one of 52,900 pairs is below 1e-11.
  static constexpr int kSafeDistance = 4;

  const Repeats repeats_;
  std::vector<std::string> common_;
  DistinctWords used_;            // before the list, and common
  mutable DistinctWords listed_;  // and in the last (longest) list built
  std::vector<double> depths_;    // of the common words, cyclically
};

class FrequentWordsPlan : public WordListPlan {
 public:
  FrequentWordsPlan(const TaskSpec& spec, const GroupSeeds& seeds) : alpha_(*FindNumber(spec.parameters, "alpha")) {
    Random random(seeds.items[0]);
    std::set<std::string> used;
    vocabulary_.push_back("...");
    auto draw = [&] {
      std::string word;
      for (int i = 0; i < kWordLength; ++i) word.push_back('a' + random.Below(26));
      return word;
    };
    while (vocabulary_.size() < kVocabulary) vocabulary_.push_back(DrawUnused(used, draw));
    header_ = "The following coded text is made of words without a meaning. Count how often each comes up.\n\nText: ";
    PlannedQuestion question;
    question.line =
        "Question: Dots aside, which three words of the coded text come up most often?\n"
        "Answer: The three words that come up most often are";
    question.gold.assign(vocabulary_.begin() + 1, vocabulary_.begin() + 1 + kAsked);
    questions_.push_back(std::move(question));
  }

  std::optional<Unit> Alternative(const Unit&, Random&) const override { return std::nullopt; }

  // Enough that the asked words are more frequent than the next one wherever a block is truncated.
  int unit_count_min() const override { return 5 * kStretch; }

  std::vector<Unit> Build(int count, Random& filler) const override {
    double total = 0;
    for (size_t rank = 1; rank <= kVocabulary; ++rank) total += std::pow(rank, -alpha_);
    std::vector<Unit> units;
    std::vector<int64_t> written(kVocabulary);
    for (int64_t words = kStretch; std::ssize(units) < count; words += kStretch) {
      std::vector<int> stretch;
      for (size_t k = 0; k < kVocabulary; ++k) {
        const double share = std::pow(k + 1, -alpha_) / total;
        const int64_t due = share * words;
        for (; written[k] < due; ++written[k]) stretch.push_back(k);
        if (due == 0) break;  // and so for all that follow
      }
      filler.Shuffle(stretch);
      for (int k : stretch) {
        if (std::ssize(units) < count) units.push_back({vocabulary_[k], -1, {}});
      }
    }
    return units;
  }

 private:
  static constexpr size_t kVocabulary = 2000;
  static constexpr int kWordLength = 6;
  static constexpr int kAsked = 3;
  static constexpr int kStretch = 100;

  double alpha_;
  std::vector<std::string> vocabulary_;  // by rank
};

template <typename Plan>
absl::StatusOr<std::unique_ptr<Task>> MakeWordListTask(const TaskSpec& spec, int max_new_tokens) {
  NativeFamily family;
  family.stop_strings = {"\n"};
  family.max_new_tokens = max_new_tokens;
  family.questions_per_context = 1;
  family.answer_words = "these words, separated by commas";
  family.make_plan = [](const TaskSpec& task, const GroupSeeds& seeds) -> std::unique_ptr<ContextPlan> {
    return std::make_unique<Plan>(task, seeds);
  };
  return std::make_unique<NativeTask>(spec, std::move(family));
}

}  // namespace

// Tokens to generate are upstream's.
absl::StatusOr<std::unique_ptr<Task>> MakeCommonWords(const TaskSpec& spec) {
  const Repeats repeats = RepeatsOf(spec.parameters, kContextLengthMax);
  if (repeats.common <= repeats.other) {
    return InvalidArgument("task \"", spec.name, "\": common_repeats is \"", repeats.common,
                           "\"; it must be above other_repeats, which is \"", repeats.other, "\"");
  }
  return MakeWordListTask<CommonWordsPlan>(spec, 120);
}

absl::StatusOr<std::unique_ptr<Task>> MakeFrequentWords(const TaskSpec& spec) {
  return MakeWordListTask<FrequentWordsPlan>(spec, 50);
}

}  // namespace varifocal
