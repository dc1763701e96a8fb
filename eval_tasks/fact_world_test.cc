// Worlds of facts against an independent interpreter: it parses the facts in order and answers every candidate; then the
// evidence alone must give the same answer. Many seeds and sizes.
#include "eval_tasks/tasks/fact_world.h"

#include <map>
#include <regex>
#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

bool Matches(const std::string& text, const char* pattern, std::smatch& match) {
  static std::map<std::string, std::regex> compiled;
  const auto [it, is_new] = compiled.emplace(pattern, std::regex());
  if (is_new) it->second = std::regex(pattern);
  return std::regex_match(text, match, it->second);
}

// Interprets the facts; unknown values are "".
struct Reader {
  std::map<std::string, std::string> place_of, holder_of, thing_at, giver, beside;
  std::map<std::string, std::vector<std::string>> places_of_thing;

  void Read(const std::string& fact) {
    std::smatch m;
    if (Matches(fact, "(\\w+) went to the (\\w+)\\.", m)) {
      place_of[m[1]] = m[2];
      for (const auto& [thing, holder] : holder_of) {
        if (holder == m[1].str()) Came(thing, m[2]);
      }
    } else if (Matches(fact, "(\\w+) picked up the (\\w+)\\.", m)) {
      holder_of[m[2]] = m[1];
      Came(m[2], place_of[m[1]]);
    } else if (Matches(fact, "(\\w+) left the (\\w+) there\\.", m)) {
      holder_of.erase(m[2]);
      Came(m[2], place_of[m[1]]);
    } else if (Matches(fact, "(\\w+) handed the (\\w+) to (\\w+)\\.", m)) {
      holder_of[m[2]] = m[3];
      giver[absl::StrCat(m[2].str(), " to ", m[3].str())] = m[1];
    } else if (Matches(fact, "The (\\w+) lies (\\w+) of the (\\w+)\\.", m)) {
      beside[absl::StrCat(m[2].str(), " of ", m[3].str())] = m[1];
    } else {
      ADD_FAILURE() << fact;
    }
  }
  void Came(const std::string& thing, const std::string& place) {
    std::vector<std::string>& places = places_of_thing[thing];
    if (!place.empty() && (places.empty() || places.back() != place)) places.push_back(place);
  }

  std::string Answer(const std::string& line) {
    std::smatch m;
    const std::string question = line.substr(0, line.find('\n'));
    if (Matches(question, "Question: Where is the (\\w+)\\?", m)) {
      return places_of_thing[m[1]].empty() ? "" : places_of_thing[m[1]].back();
    }
    if (Matches(question, "Question: Where is (\\w+)\\?", m)) return place_of[m[1]];
    if (Matches(question, "Question: Where was the (\\w+) just before it came to the (\\w+)\\?", m)) {
      const std::vector<std::string>& places = places_of_thing[m[1]];
      std::string answer;
      for (size_t i = 1; i < places.size(); ++i) {
        if (places[i] != m[2].str()) continue;
        EXPECT_EQ(answer, "") << "moved there once";
        answer = places[i - 1];
      }
      return answer;
    }
    if (Matches(question, "Question: What lies (\\w+) of the (\\w+)\\?", m)) {
      return beside[absl::StrCat(m[1].str(), " of ", m[2].str())];
    }
    if (Matches(question, "Question: Who handed the (\\w+) to (\\w+)\\?", m)) {
      return giver[absl::StrCat(m[1].str(), " to ", m[2].str())];
    }
    ADD_FAILURE() << question;
    return "";
  }
};

TEST(FactWorldTest, EveryQuestionFollowsFromTheFactsAndFromItsEvidence) {
  for (const FactKind& kind : FactKinds()) {
    for (int fact_count : {kFactCountMin, 32, kind.fact_count_max}) {
      for (int seed = 0; seed < 20; ++seed) {
        Random random(absl::StrCat("world ", seed));
        const FactWorld world = kind.make(fact_count, random);
        // Events are generated until there are enough facts: the last event is one fact.
        ASSERT_EQ(std::ssize(world.facts), fact_count) << kind.name;
        ASSERT_GE(std::ssize(world.candidates), kFactCandidatesMin);
        Reader all;
        for (const std::string& fact : world.facts) all.Read(fact);
        std::set<std::string> lines;
        for (const FactQuestion& question : world.candidates) {
          SCOPED_TRACE(absl::StrCat(kind.name, " ", fact_count, " ", seed, " ", question.line));
          EXPECT_TRUE(lines.insert(question.line).second);
          EXPECT_EQ(all.Answer(question.line), question.answer);
          EXPECT_FALSE(question.answer.empty());
          Reader alone;
          for (size_t i = 0; i < question.evidence.size(); ++i) {
            EXPECT_TRUE(i == 0 || question.evidence[i - 1] < question.evidence[i]);
            alone.Read(world.facts[question.evidence[i]]);
          }
          EXPECT_EQ(alone.Answer(question.line), question.answer) << "the evidence alone";
        }
      }
    }
  }
}

TEST(FactWorldTest, ExamplesAreRight) {
  for (const FactKind& kind : FactKinds()) {
    const std::string example(kind.example);
    const size_t question = example.find("\nQuestion: ");
    Reader reader;
    std::string fact;
    for (char c : example.substr(0, question)) {
      if (c == ' ' && fact.empty()) continue;
      fact.push_back(c);
      if (c == '.') {
        reader.Read(fact);
        fact.clear();
      }
    }
    const std::string answer = reader.Answer(example.substr(question + 1));
    EXPECT_FALSE(answer.empty());
    EXPECT_EQ(example.substr(example.size() - answer.size() - 2), absl::StrCat(" ", answer, ".")) << example;
  }
}

}  // namespace
}  // namespace varifocal
