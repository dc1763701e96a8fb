// Shared helpers of task tests: tokenizers, construction of tasks and samples, synthetic novels.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/random.h"
#include "eval_tasks/novels.h"
#include "eval_tasks/task.h"
#include "eval_tasks/tasks/lexicon.h"
#include "eval_tasks/tasks/novel_questions.h"
#include "eval_tasks/testing_jobs.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

inline constexpr int64_t kSeed = 20261121;

inline const TokenCounter& Shipped() {
  static const auto counter = MakeTokenCounter(Tokenizer::Load("models/baseline/tokenizer.json").value());
  return *counter;
}
// The shipped tokenizer inside a chat format: ten tokens and more before the prompt, and some after it.
inline const ChatFormat& Chat() {
  static const ChatFormat format = {std::string(64, '0'),
                                    {"<|begin|>a line for the one who asks:\n", "", "<|end|>\nanswer:\n"}};
  return format;
}
inline const TokenCounter& ShippedChat() {
  static const auto counter = MakeTokenCounter(Tokenizer::Load("models/baseline/tokenizer.json").value(),
                                               std::make_shared<const ChatFormat>(Chat()));
  return *counter;
}
inline const TokenCounter& Bytes() {
  static const FakeTokenizer tokenizer = FakeTokenizer::Bytes();
  return tokenizer;
}
inline const TokenCounter& Words() {
  static const FakeTokenizer tokenizer = FakeTokenizer::Words();
  return tokenizer;
}
inline const TokenCounter& Triples() {
  static const FakeTokenizer tokenizer = FakeTokenizer::Triples();
  return tokenizer;
}

// Its N-th call fails.
class FailingTokenizer : public TokenCounter {
 public:
  explicit FailingTokenizer(const TokenCounter& under) : under_(under) {}

  void FailAt(int64_t call) { left_ = call; }
  bool HasFailed() const { return left_ <= 0; }

  absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const override {
    return Fails() ? Failure() : under_.EncodePrompt(text);
  }
  absl::StatusOr<std::vector<int32_t>> EncodeConversation(const std::string& system,
                                                          absl::string_view text) const override {
    return Fails() ? Failure() : under_.EncodeConversation(system, text);
  }
  absl::StatusOr<std::vector<int32_t>> EncodePromptStart(absl::string_view text) const override {
    return Fails() ? Failure() : under_.EncodePromptStart(text);
  }
  absl::StatusOr<std::vector<int32_t>> EncodePiece(absl::string_view text) const override {
    return Fails() ? Failure() : under_.EncodePiece(text);
  }
  absl::StatusOr<std::string> DecodePiece(absl::Span<const int32_t> ids) const override {
    return Fails() ? absl::StatusOr<std::string>(Failure().status()) : under_.DecodePiece(ids);
  }
  absl::StatusOr<std::vector<TextRange>> TokenOffsets(absl::string_view text) const override {
    return Fails() ? absl::StatusOr<std::vector<TextRange>>(Failure().status()) : under_.TokenOffsets(text);
  }
  const std::string& sha256() const override { return under_.sha256(); }

 private:
  bool Fails() const { return --left_ == 0; }
  static absl::StatusOr<std::vector<int32_t>> Failure() { return absl::AbortedError("the tokenizer failed"); }

  const TokenCounter& under_;
  mutable int64_t left_ = 0;
};

// Counts the bytes encoded.
class CountingTokenizer : public TokenCounter {
 public:
  explicit CountingTokenizer(const TokenCounter& counted) : counted_(counted) {}
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const override {
    byte_count_ += std::ssize(text);
    return counted_.EncodePrompt(text);
  }
  absl::StatusOr<std::vector<int32_t>> EncodePiece(absl::string_view text) const override {
    byte_count_ += std::ssize(text);
    return counted_.EncodePiece(text);
  }
  const std::string& sha256() const override { return counted_.sha256(); }
  int64_t byte_count() const { return byte_count_; }

 private:
  const TokenCounter& counted_;
  mutable int64_t byte_count_ = 0;
};

inline constexpr int kInventedChapters = 20;

// Two novels of twenty chapters, 120,000 words in all, sentences of six words from the lexicon.
inline std::shared_ptr<const Novels> InventedNovels() {
  static const auto novels = [] {
    std::vector<Novel> made;
    for (const char* title : {"The Lamp", "The Oar"}) {
      Random random(absl::StrCat("invented novel ", title));
      std::string raw = absl::StrCat(title, "\n\nby Nobody\n\n");
      for (int chapter = 1; chapter <= kInventedChapters; ++chapter) {
        absl::StrAppend(&raw, "CHAPTER ", chapter, "\n\n");
        for (int sentence = 0; sentence < 500; ++sentence) {
          for (int word = 0; word < 6; ++word) {
            absl::StrAppend(&raw, random.Choose(TheLexicon().first), word < 5 ? " " : ".");
          }
          absl::StrAppend(&raw, sentence % 8 == 7 ? "\n\n" : "\n");
        }
        absl::StrAppend(&raw, "\n\n");
      }
      made.push_back(ParseNovel(title, raw).value());
    }
    return std::make_shared<const Novels>(std::move(made));
  }();
  return novels;
}

// Four questions in the first and in the last chapter of each, on adjacent sentences near its start or end.
inline std::string InventedQuestions() {
  std::string jsonl;
  for (const Novel& novel : InventedNovels()->novels()) {
    for (int chapter : {1, kInventedChapters}) {
      const Chapter& where = novel.chapters[chapter - 1];
      size_t at = chapter == 1 ? where.begin + 40 : where.end - 400;
      for (int i = 0; i < 4; ++i) {
        const size_t begin = novel.text.find_first_not_of(" \n", novel.text.find('.', at) + 1);
        const size_t end = novel.text.find('.', begin);
        const std::string id = absl::StrCat(novel.title, " ", chapter);
        const Json row = {{"id", absl::StrCat(id, " ", i)},
                          {"context", id},
                          {"novel", novel.title},
                          {"chapter", chapter},
                          {"question", absl::StrCat("What is sentence ", i, "?")},
                          {"answers", {novel.text.substr(begin, novel.text.find(' ', begin) - begin), "or so"}},
                          {"wrong", {"x", "y", "z"}},
                          {"evidence", novel.text.substr(begin, end - begin)}};
        absl::StrAppend(&jsonl, DumpJson(row).value(), "\n");
        at = end;
      }
    }
  }
  return jsonl;
}

// A task by the name of its kind; those on novels use the synthetic ones.
inline std::unique_ptr<Task> Make(const std::string& kind, std::map<std::string, std::string> parameters = {},
                                  const AnswerSpec& answer = {}, const std::string& form = "") {
  const TaskSpec spec =
      Completed({.kind = kind, .parameters = std::move(parameters), .answer = answer, .form = form}).value();
  if (kind == "longqa_novel") return MakeLongqaNovel(spec, InventedNovels(), InventedQuestions()).value();
  if (kind == "rag_novel") return MakeRagNovel(spec, InventedNovels(), InventedQuestions()).value();
  return MakeTask(spec).value();
}

inline std::vector<Sample> Group(const Task& task, int length, const TokenCounter& tokenizer, int index = 0) {
  std::vector<Sample> samples;
  for (auto& sample : task.MakeGroup({kSeed, length, index}, tokenizer)) samples.push_back(std::move(sample).value());
  return samples;
}

// The evidence of a sample, spans joined by bars.
inline std::string EvidenceText(const Sample& sample) {
  std::string text;
  for (const PromptSpan& span : sample.evidence) {
    absl::StrAppend(&text, text.empty() ? "" : "|",
                    sample.prompt.substr(span.byte_begin, span.byte_end - span.byte_begin));
  }
  return text;
}

}  // namespace varifocal
