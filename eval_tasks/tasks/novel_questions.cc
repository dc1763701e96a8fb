#include "eval_tasks/tasks/novel_questions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/embedded.h"
#include "base/json.h"
#include "base/json_strings.h"
#include "base/status_macros.h"
#include "base/wide_product.h"

namespace varifocal {

EmbeddedFiles Embedded_NovelQuestions();

namespace {

constexpr size_t kWrongCount = 3;

// Locates the evidence, which must be unique.
absl::Status Locate(const Novels& novels, NovelQuestion& question) {
  const Novel* novel = novels.Find(question.novel);
  if (novel == nullptr) return InvalidArgument("unknown novel \"", question.novel, "\"");
  const int chapter_count = novel->chapters.size();
  if (question.chapter < 1 || question.chapter > chapter_count) {
    return InvalidArgument("chapter is ", question.chapter, "; ", novel->title, " has chapters 1 to ", chapter_count);
  }
  const Chapter& chapter = novel->chapters[question.chapter - 1];
  const absl::string_view text = absl::string_view(novel->text).substr(chapter.begin, chapter.end - chapter.begin);
  const size_t at = text.find(question.evidence);
  if (question.evidence.empty() || at == absl::string_view::npos ||
      text.find(question.evidence, at + 1) != absl::string_view::npos) {
    return InvalidArgument("the evidence \"", question.evidence, "\" must occur exactly once in chapter ",
                           question.chapter, " of ", novel->title);
  }
  question.evidence_byte = chapter.begin + at;
  return absl::OkStatus();
}

absl::StatusOr<NovelQuestion> ParseRow(absl::string_view line, const Novels& novels) {
  ASSIGN_OR_RETURN(const Json row, ParseJson(line));
  if (!row.is_object()) return InvalidArgument("a row must be an object");
  NovelQuestion question;
  ASSIGN_OR_RETURN(question.id, GetString(row, "id"));
  ASSIGN_OR_RETURN(question.context, GetString(row, "context"));
  ASSIGN_OR_RETURN(question.novel, GetString(row, "novel"));
  ASSIGN_OR_RETURN(const int64_t chapter, GetInt(row, "chapter"));
  question.chapter = std::clamp<int64_t>(chapter, 0, INT32_MAX);
  ASSIGN_OR_RETURN(question.question, GetString(row, "question"));
  ASSIGN_OR_RETURN(question.evidence, GetString(row, "evidence"));
  ASSIGN_OR_RETURN(question.answers, GetNonEmptyStrings(row, "answers"));
  ASSIGN_OR_RETURN(question.wrong, GetNonEmptyStrings(row, "wrong"));
  if (question.wrong.size() != kWrongCount) {
    return InvalidArgument("\"wrong\" has ", question.wrong.size(), " texts; it must have ", kWrongCount);
  }
  RETURN_IF_ERROR(Locate(novels, question));
  return question;
}

}  // namespace

ChapterText NovelQuestion::ChapterIn(const Novels& novels) const {
  const Novel* found = novels.Find(novel);
  return {found, found->chapters[chapter - 1].begin, found->chapters[chapter - 1].end};
}

absl::StatusOr<std::vector<NovelQuestion>> ParseNovelQuestions(absl::string_view jsonl, const Novels& novels) {
  std::vector<NovelQuestion> questions;
  std::set<std::string> ids;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(jsonl, '\n')) {
    ++line_number;
    if (line.empty()) continue;
    auto refuse = [&](absl::string_view why) {
      return InvalidArgument("line ", line_number, " of the questions on novels: ", why);
    };
    absl::StatusOr<NovelQuestion> row = ParseRow(line, novels);
    if (!row.ok()) return refuse(row.status().message());
    if (!ids.insert(row->id).second) return refuse(absl::StrCat("the id \"", row->id, "\" is given twice"));
    if (questions.size() % kQuestionsPerContext != 0) {
      const NovelQuestion& before = questions.back();
      if (row->context != before.context || row->novel != before.novel || row->chapter != before.chapter) {
        return refuse(absl::StrCat("the context \"", row->context, "\" interrupts the four questions on \"",
                                   before.context, "\""));
      }
    }
    questions.push_back(*std::move(row));
  }
  if (questions.empty() || questions.size() % kQuestionsPerContext != 0) {
    return InvalidArgument("there are ", questions.size(), " questions on novels; there must be a multiple of ",
                           kQuestionsPerContext);
  }
  return questions;
}

absl::string_view EmbeddedNovelQuestions() {
  const EmbeddedFile& file = *Embedded_NovelQuestions().begin();
  return absl::string_view(file.data, file.size);
}

absl::StatusOr<std::unique_ptr<Task>> MakeNovelTask(const TaskSpec& spec, std::shared_ptr<const Novels> novels,
                                                    absl::string_view questions, MakeNovelPlan make_plan) {
  ASSIGN_OR_RETURN(std::vector<NovelQuestion> parsed, ParseNovelQuestions(questions, *novels));
  const auto rows = std::make_shared<const std::vector<NovelQuestion>>(std::move(parsed));
  NativeFamily family;
  family.stop_strings = {"\n"};
  family.max_new_tokens = 16;
  family.answer_words = "a few words of the text";
  family.question_count = rows->size();
  for (const NovelQuestion& row : *rows) family.row_ids.push_back(row.id);
  family.make_plan = [novels = std::move(novels), rows, make_plan = std::move(make_plan)](const TaskSpec& task,
                                                                                          const GroupSeeds& seeds) {
    const size_t first = WideProduct(seeds.group_index, kQuestionsPerContext);
    return make_plan(task, seeds, novels, absl::MakeSpan(*rows).subspan(first, kQuestionsPerContext));
  };
  return std::make_unique<NativeTask>(spec, std::move(family));
}

}  // namespace varifocal
