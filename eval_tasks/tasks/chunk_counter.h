// Token counts of similar texts, at the cost of their differences.
//
// A text is split by content-defined chunking (before a blank, chosen by the hash of the bytes before it), so that
// texts with a common part have common chunks; each chunk is encoded once. Merges across a boundary are missed: the sum
// is a close estimate, and exact for tokenizers that split at blanks.
//
// Threads: one thread.
// Cost:    a hash of the text, and an encoding of new chunks, about 200 bytes each.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {

class ChunkCounter {
 public:
  explicit ChunkCounter(const TokenCounter& tokenizer) : tokenizer_(tokenizer) {}

  absl::StatusOr<int64_t> Count(absl::string_view text);

 private:
  const TokenCounter& tokenizer_;
  std::unordered_map<std::string, int> counts_;
};

}  // namespace varifocal
