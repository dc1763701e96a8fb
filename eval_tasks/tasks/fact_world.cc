#include "eval_tasks/tasks/fact_world.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "eval_tasks/tasks/lexicon.h"

namespace varifocal {
namespace {

constexpr int kPeople = 6;
constexpr int kThings = 6;
constexpr int kPlaces = 8;
constexpr int kNobody = -1;
// At least half of the simulated worlds, more of longer ones, have enough candidates (measured on 2,000 of each length
// from 24 facts on): this many failures have probability 10^-300.
constexpr int kLivesMax = 1000;

std::vector<std::string> DrawNames(int count, Random& random) {
  std::vector<std::string> names;
  for (size_t i : random.Sample(kFactNames.size(), count)) names.emplace_back(kFactNames[i]);
  return names;
}

std::vector<std::string> DrawWords(const std::vector<std::string>& words, int count, Random& random) {
  std::vector<std::string> drawn;
  for (size_t i : random.Sample(words.size(), count)) drawn.push_back(words[i]);
  return drawn;
}

// A simulation of people who move, pick up, leave and hand over things; records a fact per event.
class Household {
 public:
  struct Stay {
    int place;
    std::vector<int> evidence;  // supporting facts
  };
  struct Thing {
    int holder = kNobody;
    int taken_by = -1;  // fact; -1: never picked up
    std::vector<Stay> stays;
  };
  struct Gift {
    int giver, thing, receiver, fact;
  };

  explicit Household(Random& random)
      : random_(random),
        names_(DrawNames(kPeople, random)),
        places_(DrawWords(TheLexicon().places, kPlaces, random)),
        things_(DrawWords(TheLexicon().objects, kThings, random)),
        where_(kPeople, -1),
        moved_by_(kPeople, -1),
        state_(kThings) {}

  int fact_count() const { return facts.size(); }
  const std::string& name(int person) const { return names_[person]; }
  const std::string& place(int place) const { return places_[place]; }
  const std::string& thing(int thing) const { return things_[thing]; }
  const Thing& state(int thing) const { return state_[thing]; }
  int where(int person) const { return where_[person]; }
  int moved_by(int person) const { return moved_by_[person]; }

  void Move(int person) {
    const int to = where_[person] < 0 ? Draw(kPlaces) : (where_[person] + 1 + Draw(kPlaces - 1)) % kPlaces;
    where_[person] = to;
    moved_by_[person] = fact_count();
    facts.push_back(absl::StrCat(name(person), " went to the ", place(to), "."));
    for (Thing& thing : state_) {
      if (thing.holder == person) thing.stays.push_back({to, {thing.taken_by, fact_count() - 1}});
    }
  }

  // Only at the person's place; a thing that was never picked up may be anywhere.
  bool CanTake(int person, int thing) const {
    const Thing& it = state_[thing];
    return it.holder == kNobody && where_[person] >= 0 && (it.stays.empty() || it.stays.back().place == where_[person]);
  }
  void Take(int person, int thing) {
    Thing& it = state_[thing];
    it.holder = person;
    it.taken_by = fact_count();
    facts.push_back(absl::StrCat(name(person), " picked up the ", things_[thing], "."));
    if (it.stays.empty()) it.stays.push_back({where_[person], {moved_by_[person], it.taken_by}});
  }
  void Leave(int thing) {
    Thing& it = state_[thing];
    it.stays.back().evidence.push_back(fact_count());
    facts.push_back(absl::StrCat(name(it.holder), " left the ", things_[thing], " there."));
    it.holder = kNobody;
  }
  // Receivers are identified by name only; their place does not matter.
  void Give(int thing, int receiver) {
    Thing& it = state_[thing];
    gifts.push_back({it.holder, thing, receiver, fact_count()});
    facts.push_back(absl::StrCat(name(it.holder), " handed the ", things_[thing], " to ", name(receiver), "."));
    it.holder = receiver;
    it.taken_by = fact_count() - 1;
  }

  int Draw(int bound) { return random_.Below(bound); }

  std::vector<std::string> facts;
  std::vector<Gift> gifts;

 private:
  Random& random_;
  std::vector<std::string> names_, places_, things_;
  std::vector<int> where_;     // of each person; -1: unknown
  std::vector<int> moved_by_;  // the supporting fact
  std::vector<Thing> state_;
};

std::vector<int> Ascending(std::vector<int> facts) {
  std::sort(facts.begin(), facts.end());
  facts.erase(std::unique(facts.begin(), facts.end()), facts.end());
  return facts;
}

FactWorld MakeWherePerson(int fact_count, Random& random) {
  Household house(random);
  for (int person = 0; person < kPeople; ++person) house.Move(person);
  while (house.fact_count() < fact_count) house.Move(house.Draw(kPeople));
  FactWorld world;
  for (int person = 0; person < kPeople; ++person) {
    world.candidates.push_back(
        {absl::StrCat("Question: Where is ", house.name(person), "?\nAnswer: ", house.name(person), " is in the"),
         house.place(house.where(person)),
         {house.moved_by(person)}});
  }
  world.facts = std::move(house.facts);
  return world;
}

// First every person moves and every thing is picked up, then random events.
void LiveWithThings(Household& house, int fact_count) {
  for (int person = 0; person < kPeople; ++person) house.Move(person);
  for (int thing = 0; thing < kThings; ++thing) house.Take(house.Draw(kPeople), thing);
  while (house.fact_count() < fact_count) {
    const int thing = house.Draw(kThings);
    const int person = house.Draw(kPeople);
    switch (house.Draw(4)) {
      case 0:
        if (house.state(thing).holder != kNobody) house.Leave(thing);
        break;
      case 1:
        if (house.CanTake(person, thing)) house.Take(person, thing);
        break;
      default:
        house.Move(person);
    }
  }
}

FactWorld MakeWhereThing(int fact_count, Random& random) {
  Household house(random);
  LiveWithThings(house, fact_count);
  FactWorld world;
  for (int thing = 0; thing < kThings; ++thing) {
    const Household::Stay& last = house.state(thing).stays.back();
    std::vector<int> evidence = last.evidence;
    if (house.state(thing).holder != kNobody) evidence.push_back(house.state(thing).taken_by);
    world.candidates.push_back({absl::StrCat("Question: Where is the ", house.thing(thing), "?\nAnswer: The ",
                                             house.thing(thing), " is in the"),
                                house.place(last.place), Ascending(std::move(evidence))});
  }
  world.facts = std::move(house.facts);
  return world;
}

FactWorld MakeWhereBefore(int fact_count, Random& random) {
  for (int lives = 0; lives < kLivesMax; ++lives) {
    Household house(random);
    LiveWithThings(house, fact_count);
    FactWorld world;
    for (int thing = 0; thing < kThings; ++thing) {
      const std::vector<Household::Stay>& stays = house.state(thing).stays;
      // The latest place that the thing came to only once.
      for (size_t i = stays.size() - 1; i > 0; --i) {
        const auto times = std::count_if(stays.begin(), stays.end(),
                                         [&](const Household::Stay& stay) { return stay.place == stays[i].place; });
        if (times != 1) continue;
        std::vector<int> evidence = stays[i].evidence;
        evidence.insert(evidence.end(), stays[i - 1].evidence.begin(), stays[i - 1].evidence.end());
        const std::string& what = house.thing(thing);
        const std::string& then = house.place(stays[i].place);
        world.candidates.push_back(
            {absl::StrCat("Question: Where was the ", what, " just before it came to the ", then,
                          "?\nAnswer: Just before it came to the ", then, ", the ", what, " was in the"),
             house.place(stays[i - 1].place), Ascending(std::move(evidence))});
        break;
      }
    }
    if (world.candidates.size() < kFactCandidatesMin) continue;  // too few candidates: simulate again
    world.facts = std::move(house.facts);
    return world;
  }
  VF_CHECK(false, "at least half of the worlds have enough candidates");
}

FactWorld MakeWhichSide(int fact_count, Random& random) {
  static constexpr std::array<absl::string_view, 4> kSides = {"north", "south", "east", "west"};
  FactWorld world;
  // Each place is named once on either side of a fact, so each question has one answer.
  const std::vector<std::string> places = DrawWords(TheLexicon().places, fact_count, random);
  std::vector<int> beside(fact_count);
  std::iota(beside.begin(), beside.end(), 0);
  random.Shuffle(beside);
  for (int i = 0; i < fact_count; ++i) {
    const std::string& here = places[beside[i]];
    const std::string& there = places[beside[(i + 1) % fact_count]];
    const absl::string_view side = kSides[random.Below(kSides.size())];
    std::string capital(side);
    capital[0] = capital[0] - 'a' + 'A';
    world.facts.push_back(absl::StrCat("The ", here, " lies ", side, " of the ", there, "."));
    world.candidates.push_back({absl::StrCat("Question: What lies ", side, " of the ", there, "?\nAnswer: ", capital,
                                             " of the ", there, " lies the"),
                                here,
                                {i}});
  }
  return world;
}

FactWorld MakeWhoGave(int fact_count, Random& random) {
  for (int lives = 0; lives < kLivesMax; ++lives) {
    Household house(random);
    for (int person = 0; person < kPeople; ++person) house.Move(person);
    for (int thing = 0; thing < kThings; ++thing) house.Take(house.Draw(kPeople), thing);
    while (house.fact_count() < fact_count) {
      const int thing = house.Draw(kThings);
      const int person = house.Draw(kPeople);
      if (house.Draw(2) == 0 && house.state(thing).holder != person) {
        house.Give(thing, person);
      } else {
        house.Move(person);
      }
    }
    std::map<std::pair<int, int>, int> times;  // a person received a thing
    for (const Household::Gift& gift : house.gifts) ++times[{gift.thing, gift.receiver}];
    FactWorld world;
    for (const Household::Gift& gift : house.gifts) {
      if (times[{gift.thing, gift.receiver}] != 1) continue;
      const std::string& what = house.thing(gift.thing);
      const std::string& whom = house.name(gift.receiver);
      world.candidates.push_back({absl::StrCat("Question: Who handed the ", what, " to ", whom, "?\nAnswer: The ", what,
                                               " was handed to ", whom, " by"),
                                  house.name(gift.giver),
                                  {gift.fact}});
    }
    if (world.candidates.size() < kFactCandidatesMin) continue;
    world.facts = std::move(house.facts);
    return world;
  }
  VF_CHECK(false, "at least half of the worlds have enough candidates");
}

constexpr int kManyFacts = 400;

}  // namespace

absl::Span<const FactKind> FactKinds() {
  static const std::array<FactKind, 5> kinds = {{
      {"where_person",
       "Lukas went to the loft. Lukas went to the yard.\n"
       "Question: Where is Lukas?\nAnswer: Lukas is in the yard.",
       kManyFacts, &MakeWherePerson},
      {"where_thing",
       "Lukas went to the loft. Lukas picked up the drum. Lukas went to the yard. Lukas left the drum there.\n"
       "Question: Where is the drum?\nAnswer: The drum is in the yard.",
       kManyFacts, &MakeWhereThing},
      {"where_before",
       "Lukas went to the loft. Lukas picked up the drum. Lukas went to the yard.\n"
       "Question: Where was the drum just before it came to the yard?\n"
       "Answer: Just before it came to the yard, the drum was in the loft.",
       kManyFacts, &MakeWhereBefore},
      {"which_side",
       "The moor lies north of the quarry. The quarry lies east of the dam.\n"
       "Question: What lies east of the dam?\nAnswer: East of the dam lies the quarry.",
       40, &MakeWhichSide},
      {"who_gave",
       "Lukas picked up the drum. Lukas handed the drum to Sofia.\n"
       "Question: Who handed the drum to Sofia?\nAnswer: The drum was handed to Sofia by Lukas.",
       100, &MakeWhoGave},
  }};
  return kinds;
}

}  // namespace varifocal
