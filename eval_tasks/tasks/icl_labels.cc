// icl_labels: label a line like the many labelled lines above it (docs/tasks.md).
//
// A class is a few words; its label is an unrelated number, so that it can only be learnt from the lines. Lines are in
// rounds that contain every class once: the labels are balanced wherever the context ends.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/wide_product.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/tasks/lexicon.h"
#include "eval_tasks/tasks/native_task.h"

namespace varifocal {
namespace {

constexpr int kWordsPerClass = 5;
constexpr int kWordsPerLine = 3;

// Three words of the line's class or, with noise, two of them and one of another class; shown in random order.
struct Line {
  int label_class = 0;
  std::vector<int> class_words;  // those of the line's class, as indices into the context's words
  std::vector<int> shown;
};

class IclLabelsPlan : public ContextPlan {
 public:
  IclLabelsPlan(const TaskSpec& spec, const GroupSeeds& seeds)
      : classes_(GetInteger(spec.parameters, "classes")), noise_words_(GetInteger(spec.parameters, "noise_words")) {
    Random group(seeds.group);
    std::vector<std::string> pool = TheLexicon().first;
    pool.insert(pool.end(), TheLexicon().second.begin(), TheLexicon().second.end());
    for (size_t index : group.Sample(pool.size(), WideProduct(classes_, kWordsPerClass))) {
      words_.push_back(pool[index]);
    }
    labels_.resize(classes_);
    std::iota(labels_.begin(), labels_.end(), 0);
    group.Shuffle(labels_);
    for (size_t i = 0; i < seeds.items.size(); ++i) {
      Random item(seeds.items[i]);
      Line line;
      do {
        line = DrawLine(item.Below(classes_), item);
      } while (!asked_sets_.insert(WordSet(line)).second);
      asked_.push_back(line);
      PlannedQuestion question;
      question.line = LineText(line);
      question.chat_line = absl::StrCat("\nWhat is the label of the line \"", question.line, "\"?");
      question.gold = {absl::StrCat(labels_[line.label_class])};
      question.depth = DrawDepth(spec, i, item);
      questions_.push_back(std::move(question));
    }
  }

  absl::string_view header() const override { return "Label the last line like the lines above it.\n\n"; }
  absl::string_view footer() const override { return "\n"; }
  absl::string_view SeparatorBefore(int) const override { return "\n"; }
  int unit_count_min() const override { return classes_; }  // every label occurs
  int unit_count_max() const override { return 1 << 22; }   // lines may repeat

  std::vector<Unit> Build(int count, Random& filler) const override {
    std::vector<Unit> units;
    std::vector<int> round(classes_);
    std::iota(round.begin(), round.end(), 0);
    while (std::ssize(units) < count) {
      filler.Shuffle(round);
      for (int label_class : round) {
        if (std::ssize(units) < count) units.push_back(Demonstration(label_class, filler));
      }
    }
    return units;
  }

  std::optional<Unit> Alternative(const Unit& unit, Random& filler) const override {
    return Demonstration(unit.notes[0], filler);
  }

  // For each class word of the asked line, the line of that class with the word nearest to the requested depth; where the
  // context is too short to have one, the nearest line of the class.
  std::vector<UnitSpan> Evidence(const std::vector<Unit>& units, int question_index) const override {
    const Line& asked = asked_[question_index];
    const int target = questions_[question_index].depth * units.size();
    auto nearest = [&](int word) {
      int best = -1;
      for (int i = 0; i < std::ssize(units); ++i) {
        const std::vector<int>& notes = units[i].notes;
        if (notes[0] != asked.label_class) continue;
        if (word >= 0 && std::find(notes.begin() + 1, notes.end(), word) == notes.end()) continue;
        if (best < 0 || std::abs(i - target) < std::abs(best - target)) best = i;
      }
      return best;
    };
    std::set<int> lines;
    for (int word : asked.class_words) lines.insert(nearest(word));
    lines.erase(-1);
    if (lines.empty()) lines.insert(nearest(-1));
    std::vector<UnitSpan> spans;
    spans.reserve(lines.size());
    for (int line : lines) spans.push_back({line, 0, units[line].text.size()});
    return spans;
  }

 private:
  Line DrawLine(int label_class, Random& random) const {
    Line line;
    line.label_class = label_class;
    for (size_t index : random.Sample(kWordsPerClass, kWordsPerLine - noise_words_)) {
      line.class_words.push_back(label_class * kWordsPerClass + index);
    }
    line.shown = line.class_words;
    if (noise_words_ > 0) {
      const int other = (label_class + 1 + random.Below(classes_ - 1)) % classes_;
      line.shown.push_back(other * kWordsPerClass + random.Below(kWordsPerClass));
    }
    random.Shuffle(line.shown);
    return line;
  }

  static std::vector<int> WordSet(const Line& line) {
    std::vector<int> words = line.shown;
    std::sort(words.begin(), words.end());
    return words;
  }

  std::string LineText(const Line& line) const {
    return absl::StrCat("- ", words_[line.shown[0]], " ", words_[line.shown[1]], " ", words_[line.shown[2]], " =");
  }

  Unit Demonstration(int label_class, Random& filler) const {
    Line line;
    do {
      line = DrawLine(label_class, filler);
    } while (asked_sets_.contains(WordSet(line)));
    std::vector<int> notes = {label_class};
    notes.insert(notes.end(), line.class_words.begin(), line.class_words.end());
    return {absl::StrCat(LineText(line), " ", labels_[label_class]), -1, std::move(notes)};
  }

  int classes_;
  int noise_words_;
  std::vector<std::string> words_;  // kWordsPerClass for each class
  std::vector<int> labels_;         // of each class
  std::vector<Line> asked_;
  std::set<std::vector<int>> asked_sets_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeIclLabels(const TaskSpec& spec) {
  NativeFamily family;
  family.stop_strings = {"\n"};
  family.max_new_tokens = 4;
  family.answer_words = "the label";
  family.make_plan = [](const TaskSpec& task, const GroupSeeds& seeds) -> std::unique_ptr<ContextPlan> {
    return std::make_unique<IclLabelsPlan>(task, seeds);
  };
  return std::make_unique<NativeTask>(spec, std::move(family));
}

}  // namespace varifocal
