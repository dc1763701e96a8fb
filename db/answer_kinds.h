// Kinds of answers that are scored as they are and are a reason to look: a difference may rest on them.
//
// A row of the table is counted per cell, has a second outcome over the questions without it (db/stats/inference.h), and
// keys of its own in the rows for programs. Failed answers are no kind: they have no text and count as the worst value.
#pragma once

#include <cstdint>

#include "db/reader.h"

namespace varifocal::db {

inline constexpr uint32_t kEmptyAnswer = 1, kRefusedAnswer = 2, kCutAnswer = 4, kTruncatedPrompt = 8,
                          kUnfinishedThinking = 16, kScoredThinking = 32, kNothingExtracted = 64;

struct AnswerKind {
  uint32_t mark;
  int64_t AnswerCounts::*count;
  const char* name;     // "3 empty"
  const char* answers;  // "rests on empty answers"
  const char* meaning;  // a noun phrase, without a capital letter and a period
  // The headline names it where the outcome without it is another one and the shares of the two sides differ by so much:
  // a limit on new tokens that ends nearly every answer of both sides explains no difference.
  double imbalance_min;
};

inline constexpr AnswerKind kAnswerKinds[] = {
    {kEmptyAnswer, &AnswerCounts::empty_count, "empty", "empty answers", "answers of nothing but white space", 0},
    {kRefusedAnswer, &AnswerCounts::refused_count, "refused", "refusals",
     "wrong answers that begin like a refusal (\u201CI cannot\u201D, \u201Cnot mentioned\u201D, ..)", 0},
    {kCutAnswer, &AnswerCounts::cut_count, "cut", "cut answers", "answers that the limit on new tokens ended", 0.1},
    {kTruncatedPrompt, &AnswerCounts::truncated_count, "truncated", "truncated prompts",
     "prompts that the task truncated to the context length, perhaps without what was needed", 0.1},
    {kUnfinishedThinking, &AnswerCounts::unfinished_count, "unfinished", "unfinished answers",
     "answers that end inside a thinking block, which are wrong", 0},
    {kScoredThinking, &AnswerCounts::scored_thinking_count, "thinking", "thinking scored as the answer",
     "answers that begin with a thinking block, which was scored as the answer: the suite has no "
     "thinking_max_tokens",
     0},
    {kNothingExtracted, &AnswerCounts::unextracted_count, "unextracted", "answers of which nothing was extracted",
     "answers in which the filters of their task found nothing, which are wrong", 0},
};

inline constexpr char kSeveralKinds[] = "several";  // the name of kinds that explain an outcome together

}  // namespace varifocal::db
