// The hand-written questions of longqa_novel and rag_novel: novel_questions.jsonl, checked against the text.
//
// A row is {"id", "context", "novel", "chapter" (through all volumes, from 1), "question", "answers" (any is right, the
// first is the one among choices), "wrong" (three), "evidence" (words that occur once in the chapter)}. Four rows in
// sequence share a context.
//
// Errors: INVALID_ARGUMENT with the line.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/novels.h"
#include "eval_tasks/task.h"
#include "eval_tasks/tasks/native_task.h"

namespace varifocal {

struct ChapterText {
  const Novel* novel = nullptr;
  size_t begin = 0;  // bytes of the novel's text
  size_t end = 0;
};

struct NovelQuestion {
  std::string id;
  std::string context;
  std::string novel;
  int chapter = 0;
  std::string question;
  std::vector<std::string> answers;
  std::vector<std::string> wrong;
  std::string evidence;
  size_t evidence_byte = 0;  // of the novel's text

  ChapterText ChapterIn(const Novels& novels) const;
};

absl::StatusOr<std::vector<NovelQuestion>> ParseNovelQuestions(absl::string_view jsonl, const Novels& novels);

absl::string_view EmbeddedNovelQuestions();

// A task that asks the four questions of a context at a time.
using MakeNovelPlan = std::function<std::unique_ptr<ContextPlan>(const TaskSpec& spec, const GroupSeeds& seeds,
                                                                 const std::shared_ptr<const Novels>& novels,
                                                                 absl::Span<const NovelQuestion> rows)>;
absl::StatusOr<std::unique_ptr<Task>> MakeNovelTask(const TaskSpec& spec, std::shared_ptr<const Novels> novels,
                                                    absl::string_view questions, MakeNovelPlan make_plan);

// The tasks on given novels and questions, for tests.
absl::StatusOr<std::unique_ptr<Task>> MakeLongqaNovel(const TaskSpec& spec, std::shared_ptr<const Novels> novels,
                                                      absl::string_view questions);
absl::StatusOr<std::unique_ptr<Task>> MakeRagNovel(const TaskSpec& spec, std::shared_ptr<const Novels> novels,
                                                   absl::string_view questions);

}  // namespace varifocal
