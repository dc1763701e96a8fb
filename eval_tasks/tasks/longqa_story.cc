// longqa_story: a long story of people who move, take and leave things; asks a person's final place (docs/tasks.md).
//
// Every sentence is a unit. An asked person has two moves before the last one, which is at the requested depth; filler
// may move that person before the last move, never after it.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/tasks/lexicon.h"
#include "eval_tasks/tasks/native_task.h"

namespace varifocal {
namespace {

constexpr int kSentencesPerParagraph = 8;
constexpr int kMovesPlanted = 3;  // two earlier ones and the last
constexpr int kMoveNote = 1, kOtherNote = 0;

std::string MoveText(int name, int place) {
  return absl::StrCat(TheLexicon().names[name], " went to the ", TheLexicon().places[place], ".");
}

class LongqaStoryPlan : public ContextPlan {
 public:
  LongqaStoryPlan(const TaskSpec& spec, const GroupSeeds& seeds) {
    Random group(seeds.group);
    const size_t name_count = GetInteger(spec.parameters, "names");
    for (size_t name : group.Sample(TheLexicon().names.size(), name_count)) cast_.push_back(name);
    std::vector<Random> items(seeds.items.begin(), seeds.items.end());
    for (size_t i = 0; i < items.size(); ++i) {
      // The cast is in random order already; its first members are asked about.
      Asked asked;
      asked.name = cast_[i];
      const std::vector<size_t> places = items[i].Sample(TheLexicon().places.size(), kMovesPlanted);
      for (int k = 0; k < kMovesPlanted; ++k) asked.places[k] = places[k];
      const double depth = DrawDepth(spec, i, items[i]);
      for (int k = 0; k + 1 < kMovesPlanted; ++k) depths_.push_back(depth * items[i].Uniform());
      std::sort(depths_.end() - (kMovesPlanted - 1), depths_.end());
      depths_.push_back(depth);
      asked_.push_back(asked);

      const std::string& name = TheLexicon().names[asked.name];
      PlannedQuestion question;
      question.line = absl::StrCat("Question: Where is ", name, "?\nAnswer: ", name, " is in the");
      question.gold = {TheLexicon().places[asked.places[kMovesPlanted - 1]]};
      question.depth = depth;
      questions_.push_back(std::move(question));
    }
    if (GetText(spec.parameters, "format") != "multiple_choice") return;
    for (size_t i = 0; i < items.size(); ++i) AddOptions(i, items[i]);
  }

  absl::string_view header() const override { return "Read the story and answer the question.\n\n"; }
  absl::string_view footer() const override { return "\n\n"; }
  absl::string_view SeparatorBefore(int unit_index) const override {
    return unit_index % kSentencesPerParagraph == 0 ? "\n\n" : " ";
  }
  int unit_count_min() const override { return depths_.size(); }
  int unit_count_max() const override { return 1 << 22; }  // sentences may repeat

  std::vector<Unit> Build(int count, Random& filler) const override {
    std::vector<Unit> units(count);
    const std::vector<int> where = PlaceAtDepths(depths_, count);
    std::vector<int> place_of(TheLexicon().names.size(), -1);
    std::vector<int> last_move(TheLexicon().names.size(), count);  // no moves at or after this unit
    for (size_t i = 0; i < where.size(); ++i) {
      const Asked& asked = asked_[i / kMovesPlanted];
      units[where[i]].planted = i;
      last_move[asked.name] = where[i];  // the asked person's planted moves come in order
    }
    for (int i = 0; i < count; ++i) {
      if (units[i].planted >= 0) {
        const Asked& asked = asked_[units[i].planted / kMovesPlanted];
        place_of[asked.name] = asked.places[units[i].planted % kMovesPlanted];
        units[i].text = MoveText(asked.name, place_of[asked.name]);
        continue;
      }
      const int name = filler.Choose(cast_);
      if (filler.Coin() && i < last_move[name]) {
        units[i] = Move(name, place_of, filler);
      } else {
        units[i] = Other(filler);
      }
    }
    return units;
  }

  std::optional<Unit> Alternative(const Unit& unit, Random& filler) const override {
    if (unit.planted >= 0 || unit.notes[0] == kMoveNote) return std::nullopt;
    return Other(filler);
  }

  std::vector<UnitSpan> Evidence(const std::vector<Unit>& units, int question_index) const override {
    const int last = question_index * kMovesPlanted + kMovesPlanted - 1;
    for (size_t i = 0; i < units.size(); ++i) {
      if (units[i].planted == last) return {{static_cast<int>(i), 0, units[i].text.size()}};
    }
    return {};
  }

 private:
  struct Asked {
    int name = 0;
    std::array<int, kMovesPlanted> places{};
  };

  // The last place, the two before it, and one where another asked person goes.
  void AddOptions(int question_index, Random& item) {
    const auto& own = asked_[question_index].places;
    std::vector<int> options(own.begin(), own.end());
    std::vector<int> others;
    for (const Asked& asked : asked_) {
      for (int place : asked.places) {
        if (std::find(own.begin(), own.end(), place) == own.end()) others.push_back(place);
      }
    }
    // If these coincide with others' places, any other place.
    for (int place = 0; others.empty(); ++place) {
      if (std::find(own.begin(), own.end(), place) == own.end()) others.push_back(place);
    }
    options.push_back(item.Choose(others));
    item.Shuffle(options);
    PlannedQuestion& question = questions_[question_index];
    for (int place : options) question.continuations.push_back(absl::StrCat(" ", TheLexicon().places[place]));
    const auto right = std::find(options.begin(), options.end(), own[kMovesPlanted - 1]);
    question.gold_continuation_index = right - options.begin();
  }

  // To a place other than the current one.
  static Unit Move(int name, std::vector<int>& place_of, Random& filler) {
    const int place_count = TheLexicon().places.size();
    place_of[name] = place_of[name] < 0 ? DrawIndex(place_count, filler)
                                        : (place_of[name] + 1 + DrawIndex(place_count - 1, filler)) % place_count;
    return {MoveText(name, place_of[name]), -1, {kMoveNote}};
  }

  // One of the three kinds of event without a move.
  Unit Other(Random& filler) const {
    const std::string& name = TheLexicon().names[filler.Choose(cast_)];
    const std::string& object = filler.Choose(TheLexicon().objects);
    std::string text;
    switch (filler.Below(3)) {
      case 0:
        text = absl::StrCat(name, " took the ", object, ".");
        break;
      case 1:
        text = absl::StrCat(name, " left the ", object, ".");
        break;
      default:
        text = absl::StrCat("The ", object, " was ", filler.Choose(TheLexicon().first), ".");
    }
    return {std::move(text), -1, {kOtherNote}};
  }

  std::vector<int> cast_;  // names in the story
  std::vector<Asked> asked_;
  std::vector<double> depths_;  // of planted moves, kMovesPlanted for each question, in order
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeLongqaStory(const TaskSpec& spec) {
  NativeFamily family;
  family.stop_strings = {".", "\n"};
  family.max_new_tokens = 8;
  family.make_plan = [](const TaskSpec& task, const GroupSeeds& seeds) -> std::unique_ptr<ContextPlan> {
    return std::make_unique<LongqaStoryPlan>(task, seeds);
  };
  return std::make_unique<NativeTask>(spec, std::move(family));
}

}  // namespace varifocal
