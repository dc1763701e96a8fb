#include "eval_tasks/tasks/haystack.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "eval_tasks/novels.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/tasks/lexicon.h"

namespace varifocal {
namespace {

constexpr size_t kUnitBytesMax = 16;  // of a unit: indivisible units must be short to fill a length
constexpr absl::string_view kLine =
    "The kettle is warm. The door is shut. The lamp burns low. We wait a while. Nothing is moved.";

SentenceStream OpenLines(Random&) {
  return [] { return absl::StrCat("\n", kLine); };
}

// Sentences of the lexicon: people, places and things that no question is about.
std::string InventedSentence(Random& filler) {
  const Lexicon& words = TheLexicon();
  const std::string& adjective = filler.Choose(words.first);
  const std::string& object = filler.Choose(words.objects);
  const std::string& place = filler.Choose(words.places);
  switch (filler.Below(5)) {
    case 0:
      return absl::StrCat("Behind the ", place, " lay one ", adjective, " ", object, " that nobody had missed.");
    case 1:
      return absl::StrCat("The day was ", adjective, ", and the ", place, " was full of people.");
    case 2:
      return absl::StrCat("They spoke of the ", object, " for an hour, and then of the ", place, ".");
    case 3:
      return absl::StrCat("The ", adjective, " ", object, " was older than the ", place, " itself.");
    default:
      return absl::StrCat("Some said that the ", place, " had once been ", adjective, ".");
  }
}

SentenceStream OpenStory(Random& filler) {
  constexpr int kSentencesPerParagraph = 7;
  return [&filler, count = 0]() mutable {
    const char* separator = count++ % kSentencesPerParagraph == 0 ? "\n\n" : " ";
    return absl::StrCat(separator, InventedSentence(filler));
  };
}

SentenceStream OpenProse(const std::shared_ptr<const Novels>& novels, Random& filler) {
  const std::vector<ProseWord>& words = novels->words();
  size_t at = filler.Below(words.size());
  while (!words[at].begins_paragraph) at = (at + 1) % words.size();
  return [novels, at]() mutable {
    const std::vector<ProseWord>& ring = novels->words();
    std::string sentence;
    for (bool ends = false; !ends; at = (at + 1) % ring.size()) {
      absl::StrAppend(&sentence, ring[at].begins_paragraph ? "\n\n" : " ", ring[at].text);
      ends = ring[at].ends_sentence;
    }
    return sentence;
  };
}

// Words with their leading blanks; long ones in parts, at hyphens if possible.
std::vector<absl::string_view> SplitWords(absl::string_view sentence) {
  std::vector<absl::string_view> words;
  size_t begin = 0;
  for (size_t at = 1; at <= sentence.size(); ++at) {
    const bool is_end = at == sentence.size();
    const bool is_blank = !is_end && (sentence[at] == ' ' || sentence[at] == '\n');
    const bool was_blank = sentence[at - 1] == ' ' || sentence[at - 1] == '\n';
    const bool is_hyphen = !is_end && sentence[at] == '-' && sentence[at - 1] != '-';
    const bool is_long = !is_end && at - begin >= kUnitBytesMax && (sentence[at] & 0xC0) != 0x80;
    if (!is_end && !is_hyphen && !is_long && !(is_blank && !was_blank)) continue;
    words.push_back(sentence.substr(begin, at - begin));
    begin = at;
  }
  return words;
}

size_t BlanksInFront(absl::string_view text) { return std::min(text.find_first_not_of(" \n"), text.size()); }

}  // namespace

absl::StatusOr<Haystack> MakeHaystack(const TaskSpec& spec) {
  const std::string& name = GetText(spec.parameters, "haystack");
  if (name == "lines") return Haystack{&OpenLines, "\n"};
  if (name == "story") return Haystack{&OpenStory, " "};
  ASSIGN_OR_RETURN(std::shared_ptr<const Novels> novels, LoadNovels(GetText(spec.parameters, "novels")));
  return Haystack{[novels = std::move(novels)](Random& filler) { return OpenProse(novels, filler); }, " "};
}

std::vector<Unit> HaystackPlan::Build(int count, Random& filler) const {
  std::vector<int> order(hidden_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return hidden_[a].depth < hidden_[b].depth; });
  const int word_count = count - hidden_.size();
  std::vector<Unit> units;
  units.reserve(count);
  size_t next = 0;
  // Inserts the hidden sentences that precede word `word`.
  auto hide_until = [&](double word) {
    for (; next < order.size() && hidden_[order[next]].depth * word_count < word; ++next) {
      units.push_back({absl::StrCat(haystack_.separator, hidden_[order[next]].text), order[next], {}});
    }
  };
  const SentenceStream stream = haystack_.open(filler);
  for (int written = 0; written < word_count;) {
    const std::string sentence = stream();
    const std::vector<absl::string_view> words = SplitWords(sentence);
    // At the nearer end of the sentence at that depth.
    hide_until(written + words.size() / 2.0);
    for (size_t i = 0; i < words.size() && written < word_count; ++i, ++written) {
      units.push_back({std::string(words[i]), -1, {}});
    }
  }
  hide_until(2.0 * word_count + 1);
  Unit& first = units.front();
  first.text.erase(0, BlanksInFront(first.text));
  return units;
}

std::string HaystackPlan::MoreText(int count, Random& filler) const {
  constexpr size_t kBytes = 256;  // several times the gap when no further word fits
  const int word_count = count - hidden_.size();
  const SentenceStream stream = haystack_.open(filler);
  std::string more;
  for (int written = 0; more.size() < kBytes;) {
    const std::string sentence = stream();
    for (absl::string_view word : SplitWords(sentence)) {
      if (written++ >= word_count) absl::StrAppend(&more, word);
    }
  }
  return more;
}

std::vector<int> HaystackPlan::DistractorUnits(const std::vector<Unit>& units, int question_index) const {
  const std::vector<int>& wanted = evidence_[question_index];
  std::vector<int> others;
  for (size_t i = 0; i < units.size(); ++i) {
    const int planted = units[i].planted;
    const bool is_wanted = std::find(wanted.begin(), wanted.end(), planted) != wanted.end();
    if (planted < 0 ? filler_distracts_ : !is_wanted) others.push_back(i);
  }
  return others;
}

std::vector<UnitSpan> HaystackPlan::Evidence(const std::vector<Unit>& units, int question_index) const {
  const std::vector<int>& wanted = evidence_[question_index];
  std::vector<UnitSpan> spans;
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i].planted < 0 || std::find(wanted.begin(), wanted.end(), units[i].planted) == wanted.end()) continue;
    const size_t blanks = BlanksInFront(units[i].text);
    spans.push_back({static_cast<int>(i), blanks, units[i].text.size() - blanks});
  }
  return spans;
}

}  // namespace varifocal
