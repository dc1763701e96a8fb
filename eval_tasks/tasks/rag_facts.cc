// rag_facts: answer from documents, one or two of them gold among hard distractors (docs/tasks.md).
//
// A document states three attributes of one entity. A hard distractor is about an entity that shares a name word with an
// asked one, and states the asked attribute with another value. One question of a group has two hops, via a friend: one
// gold document names the friend, the other contains the answer. In version 1 it is always the fourth, whose evidence is
// in the last quarter of the context; in version 2 each question in turn, so that depth and kind are independent.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/tasks/lexicon.h"
#include "eval_tasks/tasks/native_task.h"

namespace varifocal {
namespace {

constexpr int kFactsPerDocument = 3;
constexpr int kFriend = -1;  // in place of an attribute

using Entity = std::pair<int, int>;  // indices into the two word lists

struct Fact {
  int attribute = 0;  // or kFriend
  int value = 0;      // index into [second]; of a friend's fact: unused
  Entity whose_friend{};
};

struct Document {
  Entity entity{};
  std::vector<Fact> facts;
};

// The target of a question: an attribute of an entity, and the value that distractors must not have.
struct Target {
  Entity entity{};
  int attribute = 0;
  int value = 0;
};

std::string EntityText(const Entity& entity) {
  return absl::StrCat(TheLexicon().first[entity.first], " ", TheLexicon().second[entity.second]);
}

std::string FactText(const Entity& entity, const Fact& fact) {
  const bool is_friend = fact.attribute == kFriend;
  return absl::StrCat("The ", is_friend ? "friend" : TheLexicon().attributes[fact.attribute], " of ",
                      EntityText(entity), " is ",
                      is_friend ? EntityText(fact.whose_friend) : TheLexicon().second[fact.value], ".");
}

std::string DocumentText(const Document& document) {
  std::string text = absl::StrCat("Document: ", EntityText(document.entity), "\n");
  for (size_t i = 0; i < document.facts.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? " " : "", FactText(document.entity, document.facts[i]));
  }
  return text;
}

Entity DrawEntity(Random& random) {
  const int first = DrawIndex(TheLexicon().first.size(), random);
  return {first, DrawIndex(TheLexicon().second.size(), random)};
}

// Three different attributes with random values; `first_attribute`, when given, is one of them.
std::vector<Fact> DrawFacts(int first_attribute, Random& random) {
  std::vector<Fact> facts;
  for (size_t attribute : random.Sample(TheLexicon().attributes.size(), kFactsPerDocument)) {
    facts.push_back({static_cast<int>(attribute), DrawIndex(TheLexicon().second.size(), random), {}});
  }
  if (first_attribute >= 0) {
    for (const Fact& fact : facts) {
      if (fact.attribute == first_attribute) first_attribute = -1;
    }
    if (first_attribute >= 0) facts[random.Below(facts.size())].attribute = first_attribute;
  }
  return facts;
}

class RagFactsPlan : public ContextPlan {
 public:
  RagFactsPlan(const TaskSpec& spec, const GroupSeeds& seeds) {
    const bool takes_turns = FindNumber(spec.parameters, "version").value_or(1) >= 2;
    const size_t friend_index = takes_turns ? seeds.group_index % seeds.items.size() : seeds.items.size() - 1;
    for (size_t i = 0; i < seeds.items.size(); ++i) {
      Random item(seeds.items[i]);
      const bool through_friend = i == friend_index;
      Document gold = {NewEntity(item), DrawFacts(-1, item)};
      const size_t asked = item.Below(kFactsPerDocument);
      Target target = {gold.entity, gold.facts[asked].attribute, gold.facts[asked].value};
      const double depth = DrawDepth(spec, i, item);
      std::string phrase = absl::StrCat(TheLexicon().attributes[target.attribute], " of ");
      if (through_friend) {
        Document introduction = {NewEntity(item), DrawFacts(-1, item)};
        introduction.facts[item.Below(kFactsPerDocument)] = {kFriend, 0, gold.entity};
        absl::StrAppend(&phrase, "the friend of ", EntityText(introduction.entity));
        Plant(introduction, depth);
        Plant(gold, DrawDepth(spec, i, item));
        evidence_.push_back({PlantedCount() - 2, PlantedCount() - 1});
        targets_.push_back({introduction.entity, target.attribute, target.value});
        target_questions_.push_back(i);
      } else {
        absl::StrAppend(&phrase, EntityText(gold.entity));
        Plant(gold, depth);
        evidence_.push_back({PlantedCount() - 1});
      }
      targets_.push_back(target);
      target_questions_.push_back(i);
      attributes_.push_back(target.attribute);
      PlannedQuestion question;
      question.line = absl::StrCat("Question: What is the ", phrase, "?\nAnswer: The ", phrase, " is");
      question.gold = {TheLexicon().second[target.value]};
      question.depth = depth;
      questions_.push_back(std::move(question));
    }
  }

  absl::string_view header() const override { return "Answer the question from the documents.\n\n"; }
  absl::string_view footer() const override { return "\n\n"; }
  absl::string_view SeparatorBefore(int) const override { return "\n\n"; }
  int unit_count_min() const override { return PlantedCount(); }
  int unit_count_max() const override { return WordPairCountMax(); }

  std::vector<Unit> Build(int count, Random& filler) const override {
    std::vector<Unit> units(count);
    const std::vector<int> places = PlaceAtDepths(depths_, count);
    for (size_t i = 0; i < planted_.size(); ++i) {
      units[places[i]] = {DocumentText(planted_[i]), static_cast<int>(i), {}};
    }
    std::set<Entity> used = planted_entities_;
    std::vector<Entity> entities(count);
    std::vector<int> targets(count, -1);
    bool hard = false;  // every second distractor
    for (int i = 0; i < count; ++i) {
      if (units[i].planted >= 0) {
        entities[i] = planted_[units[i].planted].entity;
        continue;
      }
      hard = !hard;
      if (hard) targets[i] = DrawIndex(targets_.size(), filler);
      entities[i] = NewDistractor(targets[i], used, filler);
    }
    for (int i = 0; i < count; ++i) {
      if (units[i].planted >= 0) continue;
      const Entity& other = entities[(i + 1 + DrawIndex(count - 1, filler)) % count];
      units[i] = Filler({entities[i], targets[i], other}, filler.Below(4) == 0, filler);
    }
    return units;
  }

  std::optional<Unit> Alternative(const Unit& unit, Random& filler) const override {
    if (unit.planted >= 0) return std::nullopt;
    const std::vector<int>& notes = unit.notes;
    return Filler({{notes[0], notes[1]}, notes[2], {notes[3], notes[4]}}, filler.Coin(), filler);
  }

  std::vector<UnitSpan> Evidence(const std::vector<Unit>& units, int question_index) const override {
    std::vector<UnitSpan> spans;
    for (size_t i = 0; i < units.size(); ++i) {
      for (int planted : evidence_[question_index]) {
        if (units[i].planted != planted) continue;
        const Document& document = planted_[planted];
        for (const Fact& fact : document.facts) {
          const bool names_the_friend = fact.attribute == kFriend;
          const bool answers =
              planted == evidence_[question_index].back() && fact.attribute == attributes_[question_index];
          if (!names_the_friend && !answers) continue;
          const std::string sentence = FactText(document.entity, fact);
          spans.push_back({static_cast<int>(i), units[i].text.find(sentence), sentence.size()});
        }
      }
    }
    return spans;
  }

  // The hard distractors of the question: documents of entities that share a word with one it names.
  std::vector<int> DistractorUnits(const std::vector<Unit>& units, int question_index) const override {
    std::vector<int> hard;
    for (size_t i = 0; i < units.size(); ++i) {
      if (units[i].planted >= 0 || units[i].notes[2] < 0) continue;
      if (target_questions_[units[i].notes[2]] == question_index) hard.push_back(i);
    }
    return hard;
  }

 private:
  int PlantedCount() const { return planted_.size(); }

  Entity NewEntity(Random& random) {
    Entity entity;
    do {
      entity = DrawEntity(random);
    } while (!planted_entities_.insert(entity).second);
    return entity;
  }

  void Plant(Document document, double depth) {
    planted_.push_back(std::move(document));
    depths_.push_back(depth);
  }

  // An entity that is in no document yet; for a hard distractor it shares a word with its target's entity.
  Entity NewDistractor(int target, std::set<Entity>& used, Random& filler) const {
    constexpr int kSharedTries = 64;  // then the shareable words are exhausted: take any
    for (int tries = 0;; ++tries) {
      Entity entity = DrawEntity(filler);
      if (target >= 0 && tries < kSharedTries) {
        (filler.Coin() ? entity.first : entity.second) = -1;
        if (entity.first < 0) entity.first = targets_[target].entity.first;
        if (entity.second < 0) entity.second = targets_[target].entity.second;
      }
      if (used.insert(entity).second) return entity;
    }
  }

  struct Distractor {
    Entity entity{};
    int target = -1;           // of a hard one
    Entity possible_friend{};  // another entity of the context
  };

  Unit Filler(const Distractor& what, bool with_friend, Random& filler) const {
    const Target* target = what.target >= 0 ? &targets_[what.target] : nullptr;
    Document document = {what.entity, DrawFacts(target != nullptr ? target->attribute : -1, filler)};
    std::vector<size_t> replaceable;
    for (size_t i = 0; i < document.facts.size(); ++i) {
      Fact& fact = document.facts[i];
      if (target == nullptr || fact.attribute != target->attribute) {
        replaceable.push_back(i);
      } else if (fact.value == target->value) {
        fact.value = (fact.value + 1) % static_cast<int>(TheLexicon().second.size());
      }
    }
    if (with_friend) document.facts[filler.Choose(replaceable)] = {kFriend, 0, what.possible_friend};
    return {
        DocumentText(document),
        -1,
        {what.entity.first, what.entity.second, what.target, what.possible_friend.first, what.possible_friend.second}};
  }

  std::vector<Document> planted_;
  std::vector<double> depths_;              // of planted_
  std::vector<std::vector<int>> evidence_;  // planted documents of each question, the one with the answer last
  std::vector<int> attributes_;             // asked by each question
  std::vector<Target> targets_;             // of hard distractors
  std::vector<int> target_questions_;       // whose targets they are
  std::set<Entity> planted_entities_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeRagFacts(const TaskSpec& spec) {
  NativeFamily family;
  family.stop_strings = {".", "\n"};
  family.max_new_tokens = 8;
  family.make_plan = [](const TaskSpec& task, const GroupSeeds& seeds) -> std::unique_ptr<ContextPlan> {
    return std::make_unique<RagFactsPlan>(task, seeds);
  };
  return std::make_unique<NativeTask>(spec, std::move(family));
}

}  // namespace varifocal
