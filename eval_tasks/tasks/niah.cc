// niah: needles in a haystack, RULER's retrieval families in our own wording (docs/tasks.md).
//
// A needle has one secret of one key. The parameters are RULER's: the kind of haystack, the format of keys and values,
// the numbers of keys, values per key and keys per question. Where one value of one key is asked and there are enough
// needles, four questions share a context.
//
// Source: Hsieh et al. 2024, arXiv:2404.06654, section 3 and appendix B.
#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/tasks/distinct_words.h"
#include "eval_tasks/tasks/haystack.h"
#include "eval_tasks/tasks/native_task.h"

namespace varifocal {
namespace {

constexpr int kMaxNewTokens = 128;  // upstream's

// Of `type`: "words" (a pair with a hyphen), "numbers" (seven digits), "uuids" (version 4).
std::string DrawTerm(absl::string_view type, Random& random) {
  if (type == "words") return DrawPair(random);
  if (type == "numbers") return absl::StrCat(1'000'000 + random.Below(9'000'000));
  const uint64_t high = (random.Next() & ~uint64_t{0xF000}) | 0x4000;
  const uint64_t low = (random.Next() & ~(uint64_t{3} << 62)) | (uint64_t{1} << 63);
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", high >> 32, (high >> 16) & 0xFFFF, high & 0xFFFF, low >> 48,
                         low & 0xFFFF'FFFF'FFFFu);
}

// The noun for a value of `type`.
absl::string_view Noun(absl::string_view type) {
  return type == "words" ? "word" : type == "numbers" ? "number" : "code";
}

std::string NeedleText(absl::string_view value_type, absl::string_view key, absl::string_view value) {
  return absl::StrCat("A secret ", Noun(value_type), " of ", key, " is ", value, ".");
}

// Unique. A context has at most half a million needles: a sixteenth of all numbers.
class Keys {
 public:
  explicit Keys(std::string type) : type_(std::move(type)) {}

  std::string Draw(Random& random) {
    if (type_ == "words") return words_.Draw(random);
    return DrawUnused(others_, [&] { return DrawTerm(type_, random); });
  }

 private:
  std::string type_;
  DistinctWords words_;
  std::unordered_set<std::string> others_;
};

// Further needles, of keys that are not among those drawn.
Haystack NeedleHaystack(Keys drawn, const std::string& value_type) {
  Haystack haystack;
  haystack.separator = "\n";
  haystack.open = [drawn = std::move(drawn), value_type](Random& filler) -> SentenceStream {
    return [keys = drawn, value_type, &filler]() mutable {
      const std::string key = keys.Draw(filler);
      return absl::StrCat("\n", NeedleText(value_type, key, DrawTerm(value_type, filler)));
    };
  };
  return haystack;
}

struct Needle {
  std::string key;
  std::vector<std::string> values;
};

class NiahPlan : public HaystackPlan {
 public:
  NiahPlan(const TaskSpec& spec, const GroupSeeds& seeds, const Haystack& haystack)
      : value_type_(GetText(spec.parameters, "value_type")), value_count_(GetInteger(spec.parameters, "values")) {
    const size_t question_count = seeds.items.size();
    const size_t asked_count = GetInteger(spec.parameters, "queries");
    const size_t needed = std::max(asked_count, question_count);
    const size_t key_count = std::max<size_t>(GetInteger(spec.parameters, "keys"), needed);
    std::vector<Random> items(seeds.items.begin(), seeds.items.end());
    Random group(seeds.group);
    Keys keys(GetText(spec.parameters, "key_type"));
    for (size_t i = 0; i < key_count; ++i) {
      // Asked needles are drawn with the question's seed, the others with the group's.
      Random& random = i >= needed ? group : items[question_count > 1 ? i : 0];
      Needle needle;
      needle.key = keys.Draw(random);
      std::set<std::string> values;
      for (size_t v = 0; v < value_count_; ++v) {
        needle.values.push_back(DrawUnused(values, [&] { return DrawTerm(value_type_, random); }));
      }
      for (const std::string& value : needle.values) {
        const bool has_quarter = question_count > 1 && i < question_count;
        const double depth =
            has_quarter ? DrawDepth(spec, i, random) : FindNumber(spec.parameters, "depth").value_or(random.Uniform());
        hidden_.push_back({NeedleText(value_type_, needle.key, value), depth});
      }
      needles_.push_back(std::move(needle));
    }
    filler_distracts_ = GetText(spec.parameters, "haystack") == "needles";
    haystack_ = filler_distracts_ ? NeedleHaystack(std::move(keys), value_type_) : haystack;
    header_ = absl::StrCat("Secret ", Noun(value_type_),
                           "s are hidden in the following text. Remember them: you will be asked for some at the end."
                           "\n\n");
    for (size_t q = 0; q < question_count; ++q) Ask(q, question_count > 1 ? 1 : asked_count);
  }

 private:
  // Question `q` asks for `asked_count` needles from number `q` on.
  void Ask(size_t q, size_t asked_count) {
    PlannedQuestion question;
    std::vector<std::string> keys;
    std::vector<int> evidence;
    question.depth = 1;
    for (size_t i = q; i < q + asked_count; ++i) {
      keys.push_back(needles_[i].key);
      for (size_t v = 0; v < value_count_; ++v) {
        question.gold.push_back(needles_[i].values[v]);
        evidence.push_back(i * value_count_ + v);
        question.depth = std::min(question.depth, hidden_[evidence.back()].depth);
      }
    }
    const bool is_one = question.gold.size() == 1;
    const std::string whose = absl::StrCat(Noun(value_type_), is_one ? " of " : "s of ", absl::StrJoin(keys, ", "));
    question.line = absl::StrCat("Question: ", is_one ? "What is the secret " : "What are all the secret ", whose,
                                 " that the text gives?\nAnswer: The secret ", whose, is_one ? " is" : " are");
    questions_.push_back(std::move(question));
    evidence_.push_back(std::move(evidence));
  }

  std::string value_type_;
  size_t value_count_;
  std::vector<Needle> needles_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeNiah(const TaskSpec& spec) {
  const bool is_needles = GetText(spec.parameters, "haystack") == "needles";
  Haystack haystack;
  if (!is_needles) {
    ASSIGN_OR_RETURN(haystack, MakeHaystack(spec));
  }
  NativeFamily family;
  family.stop_strings = {"\n\n"};
  family.max_new_tokens = kMaxNewTokens;
  const bool asks_one = GetInteger(spec.parameters, "queries") == 1 && GetInteger(spec.parameters, "values") == 1;
  const std::string noun(Noun(GetText(spec.parameters, "value_type")));
  family.answer_words = asks_one ? absl::StrCat("the ", noun) : absl::StrCat("the ", noun, "s, separated by commas");
  const bool has_others = is_needles || GetInteger(spec.parameters, "keys") >= kQuestionsPerContext;
  family.questions_per_context = asks_one && has_others ? kQuestionsPerContext : 1;
  family.make_plan = [haystack = std::move(haystack)](const TaskSpec& task,
                                                      const GroupSeeds& seeds) -> std::unique_ptr<ContextPlan> {
    return std::make_unique<NiahPlan>(task, seeds, haystack);
  };
  return std::make_unique<NativeTask>(spec, std::move(family));
}

}  // namespace varifocal
