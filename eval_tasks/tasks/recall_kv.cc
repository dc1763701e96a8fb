// recall_kv: find a key in a JSON object and copy its value (docs/tasks.md).
//
// Every pair is a unit. Keys are pairs of words, so that the words of a key also occur elsewhere in the object, and only
// the pair identifies it.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "eval_tasks/tasks/lexicon.h"
#include "eval_tasks/tasks/native_task.h"

namespace varifocal {
namespace {

using Key = std::pair<size_t, size_t>;  // indices into the two word lists

struct Pair {
  Key key;
  size_t value;
};

std::string KeyText(const Key& key) {
  return absl::StrCat(TheLexicon().first[key.first], " ", TheLexicon().second[key.second]);
}

std::string PairText(const Pair& pair) {
  return absl::StrCat("\"", KeyText(pair.key), "\":\"", TheLexicon().second[pair.value], "\"");
}

Key DrawKey(Random& random) {
  const size_t first = random.Below(TheLexicon().first.size());
  return {first, random.Below(TheLexicon().second.size())};
}

class RecallKvPlan : public ContextPlan {
 public:
  RecallKvPlan(const TaskSpec& spec, const GroupSeeds& seeds) {
    for (size_t i = 0; i < seeds.items.size(); ++i) {
      Random item(seeds.items[i]);
      Pair pair;
      do {
        pair.key = DrawKey(item);
      } while (!planted_keys_.insert(pair.key).second);
      pair.value = item.Below(TheLexicon().second.size());
      planted_.push_back(pair);
      PlannedQuestion question;
      question.line = absl::StrCat("\"", KeyText(pair.key), "\":\"");
      question.chat_line = absl::StrCat("What is the value of the key \"", KeyText(pair.key), "\"?");
      question.gold = {TheLexicon().second[pair.value]};
      question.depth = DrawDepth(spec, i, item);
      depths_.push_back(question.depth);
      questions_.push_back(std::move(question));
    }
  }

  absl::string_view header() const override { return "Find the key in the JSON object and copy its value.\n\n{"; }
  absl::string_view footer() const override { return "}\n\n"; }
  absl::string_view SeparatorBefore(int) const override { return ","; }
  int unit_count_min() const override { return planted_.size(); }
  int unit_count_max() const override { return WordPairCountMax(); }

  std::vector<Unit> Build(int count, Random& filler) const override {
    std::vector<Unit> units(count);
    const std::vector<int> places = PlaceAtDepths(depths_, count);
    for (size_t i = 0; i < planted_.size(); ++i) {
      units[places[i]] = {PairText(planted_[i]), static_cast<int>(i), {}};
    }
    std::set<Key> used = planted_keys_;
    for (Unit& unit : units) {
      if (unit.planted >= 0) continue;
      Pair pair;
      do {
        pair.key = DrawKey(filler);
      } while (!used.insert(pair.key).second);
      unit = Filler(pair.key, filler);
    }
    return units;
  }

  std::optional<Unit> Alternative(const Unit& unit, Random& filler) const override {
    if (unit.planted >= 0) return std::nullopt;
    return Filler({static_cast<size_t>(unit.notes[0]), static_cast<size_t>(unit.notes[1])}, filler);
  }

  std::vector<UnitSpan> Evidence(const std::vector<Unit>& units, int question_index) const override {
    for (size_t i = 0; i < units.size(); ++i) {
      if (units[i].planted == question_index) return {{static_cast<int>(i), 0, units[i].text.size()}};
    }
    return {};
  }

  // Every other pair.
  std::vector<int> DistractorUnits(const std::vector<Unit>& units, int question_index) const override {
    std::vector<int> others;
    for (size_t i = 0; i < units.size(); ++i) {
      if (units[i].planted != question_index) others.push_back(i);
    }
    return others;
  }

 private:
  static Unit Filler(const Key& key, Random& filler) {
    const Pair pair = {key, filler.Below(TheLexicon().second.size())};
    return {PairText(pair), -1, {static_cast<int>(key.first), static_cast<int>(key.second)}};
  }

  std::vector<Pair> planted_;
  std::vector<double> depths_;
  std::set<Key> planted_keys_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeRecallKv(const TaskSpec& spec) {
  NativeFamily family;
  family.stop_strings = {"\"", "\n"};
  family.max_new_tokens = 8;
  family.answer_words = "the value";
  family.make_plan = [](const TaskSpec& task, const GroupSeeds& seeds) -> std::unique_ptr<ContextPlan> {
    return std::make_unique<RecallKvPlan>(task, seeds);
  };
  return std::make_unique<NativeTask>(spec, std::move(family));
}

}  // namespace varifocal
