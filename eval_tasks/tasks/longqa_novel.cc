// longqa_novel: hand-written questions on six novels, four on each context (docs/tasks.md).
//
// A context is a window of the ring of novels. It contains the passage that answers the four questions, and its
// surrounding text in the book: the depth is the part of the window before the passage. At the ends of a book the window
// continues in the adjacent one of the ring, so that every depth is possible at every length.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "eval_tasks/novels.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/tasks/native_task.h"
#include "eval_tasks/tasks/novel_questions.h"

namespace varifocal {
namespace {

constexpr absl::string_view kHeader =
    "Read each passage and answer the questions about it with a few words of the passage.\n\n"
    "Passage: Old Mrs. Finch kept three goats behind the mill, and every Friday she sold their cheese at the market of "
    "Harwell. Her nephew Tom drove the cart, and the dog Bess ran before it.\n\n"
    "Question: On which day did Mrs. Finch sell cheese?\nAnswer: Friday\n\n"
    "Question: What was the name of the dog?\nAnswer: Bess\n\n"
    "Passage: ";

// Position of a text in the ring: words [begin, end), and its first byte counted from the start of its first word.
struct Place {
  size_t begin = 0;
  size_t end = 0;
  size_t offset = 0;
  size_t size = 0;
};

Place PlaceOf(const Novels& novels, const NovelQuestion& question) {
  const Novel& novel = *novels.Find(question.novel);
  Place place;
  place.begin = novels.WordAt(novel, question.evidence_byte);
  place.end = novels.WordAt(novel, question.evidence_byte + question.evidence.size() - 1) + 1;
  place.offset = question.evidence_byte - (novels.words()[place.begin].text.data() - novel.text.data());
  place.size = question.evidence.size();
  return place;
}

class LongqaNovelPlan : public ContextPlan {
 public:
  LongqaNovelPlan(const TaskSpec& spec, const GroupSeeds& seeds, const Novels& novels,
                  absl::Span<const NovelQuestion> rows)
      : novels_(novels), chapter_(rows[0].ChapterIn(novels)) {
    Random group(seeds.group);
    depth_ = FindNumber(spec.parameters, "depth").value_or(group.Uniform());
    const bool is_choice = GetText(spec.parameters, "format") == "multiple_choice";
    for (size_t i = 0; i < rows.size(); ++i) {
      places_.push_back(PlaceOf(novels, rows[i]));
      begin_ = i == 0 ? places_[i].begin : std::min(begin_, places_[i].begin);
      end_ = std::max(end_, places_[i].end);
      PlannedQuestion question;
      question.line = absl::StrCat("Question: ", rows[i].question, "\nAnswer:");
      question.gold = rows[i].answers;
      question.depth = depth_;
      if (is_choice) {
        Random item(seeds.items[i]);
        std::vector<std::string> options = rows[i].wrong;
        options.push_back(rows[i].answers[0]);
        item.Shuffle(options);
        for (const std::string& option : options) question.continuations.push_back(absl::StrCat(" ", option));
        const auto right = std::find(options.begin(), options.end(), rows[i].answers[0]);
        question.gold_continuation_index = right - options.begin();
      }
      questions_.push_back(std::move(question));
    }
  }

  absl::string_view header() const override { return kHeader; }
  absl::string_view footer() const override { return "\n\n"; }
  absl::string_view SeparatorBefore(int) const override { return ""; }  // included in the words
  int unit_count_min() const override { return end_ - begin_; }
  int unit_count_max() const override { return novels_.words().size(); }

  std::vector<Unit> Build(int count, Random&) const override {
    const std::vector<ProseWord>& words = novels_.words();
    std::vector<Unit> units(count);
    size_t at = WindowBegin(count);
    for (Unit& unit : units) {
      unit.text = absl::StrCat(&unit == &units[0] ? "" : words[at].begins_paragraph ? "\n\n" : " ", words[at].text);
      at = (at + 1) % words.size();
    }
    return units;
  }

  std::optional<Unit> Alternative(const Unit&, Random&) const override { return std::nullopt; }

  std::vector<UnitSpan> Evidence(const std::vector<Unit>& units, int question_index) const override {
    const Place& place = places_[question_index];
    const size_t ring = novels_.words().size();
    const size_t unit = (place.begin + ring - WindowBegin(units.size())) % ring;
    const size_t separator = units[unit].text.size() - novels_.words()[place.begin].text.size();
    return {{static_cast<int>(unit), separator + place.offset, place.size}};
  }

  // Of the chapter of the passage; the passage itself is never truncated.
  absl::StatusOr<Truncation> MeasureTruncation(int count, const TokenCounter& tokenizer) const override {
    const Novel& novel = *chapter_.novel;
    const size_t passage = novels_.words()[begin_].text.data() - novel.text.data();
    const size_t first_word = novels_.WordAt(novel, chapter_.begin);
    const size_t last_word = novels_.WordAt(novel, chapter_.end - 1);
    const size_t before = BeforePassage(count);
    const size_t after = count - before - (end_ - begin_);
    Truncation truncation;
    auto add = [&](size_t from, size_t to) -> absl::Status {
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                       tokenizer.EncodePiece(absl::string_view(novel.text).substr(from, to - from)));
      truncation.cut_token_count += std::ssize(ids);
      return absl::OkStatus();
    };
    auto byte_of = [&](size_t word) { return novels_.words()[word].text.data() - novel.text.data(); };
    VF_CHECK(chapter_.begin <= passage && passage < chapter_.end);
    if (begin_ - first_word > before) RETURN_IF_ERROR(add(chapter_.begin, byte_of(begin_ - before)));
    if (last_word + 1 - end_ > after) RETURN_IF_ERROR(add(byte_of(end_ + after), chapter_.end));
    return truncation;
  }

 private:
  size_t BeforePassage(int count) const {
    const size_t free = count - (end_ - begin_);
    return static_cast<size_t>(std::llround(depth_ * free));
  }
  size_t WindowBegin(int count) const {
    const size_t ring = novels_.words().size();
    return (begin_ + ring - BeforePassage(count)) % ring;
  }

  const Novels& novels_;
  ChapterText chapter_;
  double depth_ = 0;
  std::vector<Place> places_;  // of the evidence, in question order
  size_t begin_ = 0;           // the passage: words from the first evidence to the last
  size_t end_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeLongqaNovel(const TaskSpec& spec) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Novels> novels, LoadNovels(GetText(spec.parameters, "novels")));
  return MakeLongqaNovel(spec, std::move(novels), EmbeddedNovelQuestions());
}

absl::StatusOr<std::unique_ptr<Task>> MakeLongqaNovel(const TaskSpec& spec, std::shared_ptr<const Novels> novels,
                                                      absl::string_view questions) {
  return MakeNovelTask(spec, std::move(novels), questions,
                       [](const TaskSpec& task, const GroupSeeds& seeds, const std::shared_ptr<const Novels>& texts,
                          absl::Span<const NovelQuestion> rows) -> std::unique_ptr<ContextPlan> {
                         return std::make_unique<LongqaNovelPlan>(task, seeds, *texts, rows);
                       });
}

}  // namespace varifocal
