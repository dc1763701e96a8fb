// rag_novel: the hand-written questions on six novels, answered from documents (docs/tasks.md).
//
// A document is a passage of about a hundred words under the title of its novel. Each of the four questions of a context
// has one gold document, at its own depth; the others are random passages of the six novels.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "eval_tasks/novels.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/tasks/haystack.h"
#include "eval_tasks/tasks/native_task.h"
#include "eval_tasks/tasks/novel_questions.h"

namespace varifocal {
namespace {

constexpr size_t kDocumentWords = 100;  // as in HELMET

constexpr absl::string_view kDocumentsHeader =
    "Answer each question from the documents above it with a few words of theirs.\n\n"
    "Document: The Mill\nOld Mrs. Finch kept three goats behind the mill, and every Friday she sold their cheese at "
    "the market of Harwell.\n\n"
    "Document: The Coach\nTom drove to Harwell with his sister, and the dog Bess ran before the coach.\n\n"
    "Question about The Mill: On which day did Mrs. Finch sell cheese?\nAnswer: Friday\n\n"
    "Question about The Coach: What was the name of the dog?\nAnswer: Bess\n\n";

// Words [begin, begin + count) of the ring under the title of the first one's novel.
std::string DocumentText(const Novels& novels, size_t begin, size_t count) {
  const std::vector<ProseWord>& words = novels.words();
  std::string text = absl::StrCat("Document: ", novels.NovelOf(begin).title, "\n");
  for (size_t i = 0; i < count; ++i) {
    absl::StrAppend(&text, i > 0 ? " " : "", words[(begin + i) % words.size()].text);
  }
  return text;
}

// The beginning of the sentence that contains `word`.
size_t SentenceBegin(const Novels& novels, size_t word) {
  const std::vector<ProseWord>& words = novels.words();
  while (!words[(word + words.size() - 1) % words.size()].ends_sentence)
    word = (word + words.size() - 1) % words.size();
  return word;
}

class RagNovelPlan : public HaystackPlan {
 public:
  RagNovelPlan(const TaskSpec& spec, const GroupSeeds& seeds, const std::shared_ptr<const Novels>& novels,
               absl::Span<const NovelQuestion> rows) {
    header_ = std::string(kDocumentsHeader);
    std::vector<std::pair<size_t, size_t>> gold;  // words that no other document may have
    for (size_t i = 0; i < rows.size(); ++i) {
      Random item(seeds.items[i]);
      const Novel& novel = *novels->Find(rows[i].novel);
      const size_t first = novels->WordAt(novel, rows[i].evidence_byte);
      const size_t last = novels->WordAt(novel, rows[i].evidence_byte + rows[i].evidence.size() - 1);
      // The evidence begins within the first 20 words of the document, so that it is complete.
      const size_t begin = std::max(SentenceBegin(*novels, first), first > 20 ? first - 20 : 0);
      const size_t count = std::max(kDocumentWords, last + 1 - begin);
      gold.push_back({begin, begin + count});
      hidden_.push_back({DocumentText(*novels, begin, count), DrawDepth(spec, i, item)});
      evidence_.push_back({static_cast<int>(i)});
      PlannedQuestion question;
      question.line = absl::StrCat("Question about ", rows[i].novel, ": ", rows[i].question, "\nAnswer:");
      question.gold = rows[i].answers;
      question.depth = hidden_.back().depth;
      questions_.push_back(std::move(question));
    }
    haystack_.separator = "\n\n";
    haystack_.open = [novels, gold = std::move(gold)](Random& filler) -> SentenceStream {
      return [novels, gold, &filler] {
        for (;;) {
          const size_t begin = SentenceBegin(*novels, filler.Below(novels->words().size()));
          const bool overlaps = std::any_of(gold.begin(), gold.end(), [&](const auto& span) {
            return begin < span.second && span.first < begin + kDocumentWords;
          });
          if (!overlaps) return absl::StrCat("\n\n", DocumentText(*novels, begin, kDocumentWords));
        }
      };
    };
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeRagNovel(const TaskSpec& spec) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Novels> novels, LoadNovels(GetText(spec.parameters, "novels")));
  return MakeRagNovel(spec, std::move(novels), EmbeddedNovelQuestions());
}

absl::StatusOr<std::unique_ptr<Task>> MakeRagNovel(const TaskSpec& spec, std::shared_ptr<const Novels> novels,
                                                   absl::string_view questions) {
  return MakeNovelTask(spec, std::move(novels), questions,
                       [](const TaskSpec& task, const GroupSeeds& seeds, const std::shared_ptr<const Novels>& texts,
                          absl::Span<const NovelQuestion> rows) -> std::unique_ptr<ContextPlan> {
                         return std::make_unique<RagNovelPlan>(task, seeds, texts, rows);
                       });
}

}  // namespace varifocal
