// Token counts of texts that are nearly alike, at the cost of what differs.
//
// A text is cut where its own words say so (before a blank, when the bytes in front of it hash to a border), so that
// two texts with a stretch in common have its chunks in common as well; each chunk is encoded once. What a tokenizer
// does across a border is not seen: the sum is a close estimate, and exact for tokenizers that split at blanks.
//
// Threads: one thread.
// Cost:    a hash of the text, and an encoding of the chunks not met before, about 200 bytes each.
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
