// Fakes for tests: minimal tokenizers, a generator controlled by the test, a sink that is a map.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "eval_tasks/generator.h"
#include "eval_tasks/sample_sink.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {

// A tokenizer defined by a function that splits a text into pieces; ids are digests of the pieces, 0 is the leading
// special token.
class FakeTokenizer : public TokenCounter {
 public:
  using Cut = std::function<size_t(absl::string_view)>;  // bytes of the first piece, at least 1
  FakeTokenizer(const std::string& name, Cut cut) : sha256_(Sha256Hex(name)), cut_(std::move(cut)) {}

  // One token a byte.
  static FakeTokenizer Bytes() {
    return FakeTokenizer("bytes", [](absl::string_view) { return 1; });
  }
  // A word with the space before it, a digit, or a run of anything else.
  static FakeTokenizer Words() {
    return FakeTokenizer("words", [](absl::string_view text) {
      auto is_letter = [&](size_t i) { return i < text.size() && absl::ascii_isalpha(text[i]); };
      size_t size = text[0] == ' ' && is_letter(1) ? 1 : 0;
      if (is_letter(size)) {
        while (is_letter(size)) ++size;
        return size;
      }
      if (absl::ascii_isdigit(text[0])) return size_t{1};
      while (size < text.size() && !absl::ascii_isalnum(text[size]) && text[size] != ' ') ++size;
      return std::max<size_t>(size, 1);
    });
  }
  // Three bytes a token from the start of the text: the boundaries depend on everything before them.
  static FakeTokenizer Triples() {
    return FakeTokenizer("triples", [](absl::string_view text) { return std::min<size_t>(3, text.size()); });
  }

  absl::StatusOr<std::vector<int32_t>> EncodePiece(absl::string_view text) const override {
    std::vector<int32_t> ids;
    while (!text.empty()) {
      const size_t size = cut_(text);
      uint32_t id = 2166136261u;
      for (char c : text.substr(0, size)) id = (id ^ static_cast<unsigned char>(c)) * 16777619u;
      ids.push_back(id >> 1);
      text.remove_prefix(size);
    }
    return ids;
  }
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const override {
    auto ids = EncodePiece(text);
    ids->insert(ids->begin(), 0);
    return ids;
  }
  const std::string& sha256() const override { return sha256_; }

 private:
  std::string sha256_;
  Cut cut_;
};

// Holds requests until a test releases them, in any order.
class FakeGenerator : public Generator {
 public:
  struct Held {
    Id id;
    GenerationRequest request;
    Done done;
  };

  Id Start(const GenerationRequest& request, Done done) override {
    const Id id = ++last_id_;
    ++started_count_;
    held_.push_back({id, request, std::move(done)});
    if (on_start) on_start(*this);
    return id;
  }
  void Cancel(Id id) override {
    for (Held& held : held_) {
      if (held.id == id) Release(held.id, absl::CancelledError("cancelled"));
    }
  }
  void Release(Id id, absl::StatusOr<Generation> result) {
    for (size_t i = 0; i < held_.size(); ++i) {
      if (held_[i].id != id) continue;
      const Held held = std::move(held_[i]);
      held_.erase(held_.begin() + i);
      held.done(std::move(result));
      return;
    }
  }
  // An answer that depends on the question only: right for even indices.
  static Generation Answer(const GenerationRequest& request) {
    const Sample& sample = *request.sample;
    Generation generation;
    generation.prompt_token_count = sample.prompt_token_count();
    generation.finish_reason = FinishReason::kStop;
    const bool right = sample.index % 2 == 0;
    if (sample.continuations.empty()) {
      generation.text = right ? absl::StrCat(" ", sample.gold[0], sample.stop_strings[0], " and more") : "nothing";
      generation.token_ids = {1, 2};
      const int gold_count = sample.gold_token_ids.size();
      if (gold_count > 0) generation.gold_score = {right ? -0.5 : -3.0, gold_count, right};
    }
    for (size_t i = 0; i < sample.continuations.size(); ++i) {
      const bool gold = sample.gold_continuation_indices[0] == static_cast<int>(i);
      generation.continuation_scores.push_back({gold == right ? -1.0 : -2.0, 1, false});
    }
    return generation;
  }

  std::vector<Held>& held() { return held_; }
  int started_count() const { return started_count_; }
  std::function<void(FakeGenerator&)>
      on_start;  // may release held requests, so that done is called before Start returns

 private:
  std::vector<Held> held_;
  Id last_id_ = 0;
  int started_count_ = 0;
};

class FakeSink : public SampleSink {
 public:
  using Key = std::pair<CellKey, int>;
  absl::StatusOr<bool> IsPending(const CellKey& cell, int index) override {
    const auto it = records.find({cell, index});
    return it == records.end() || !it->second.error.ok();
  }
  absl::Status Record(absl::Span<const SampleResult> added) override {
    batch_sizes.push_back(added.size());
    for (const SampleResult& record : added) {
      const bool fails = std::ssize(order) >= fail_after;
      if (fails && out_of_memory) throw std::bad_alloc();
      if (fails && !failure.ok()) return failure;
      records[{record.cell, record.sample->index}] = record;
      order.push_back({record.cell, record.sample->index});
    }
    return absl::OkStatus();
  }

  std::map<Key, SampleResult> records;
  std::vector<Key> order;
  std::vector<size_t> batch_sizes;  // of the calls of Record
  absl::Status failure;             // of Record, after this many records
  bool out_of_memory = false;       // as std::bad_alloc
  int fail_after = 0;
};

}  // namespace varifocal
