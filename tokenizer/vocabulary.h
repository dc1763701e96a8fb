// The tokens of a tokenizer and their ids.
//
// Errors:  INVALID_ARGUMENT for an inconsistent vocabulary.
// Threads: const use from any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal {

// Ids may have gaps.
class Vocabulary {
 public:
  // {"token": id, ..}
  static absl::StatusOr<Vocabulary> FromJson(const Json& json);

  absl::Status Add(absl::string_view token, int64_t id);
  // A list may contain duplicate tokens; look-ups find the last one.
  absl::Status AddOrReplace(absl::string_view token, int64_t id);
  void Reserve(size_t count);

  std::optional<int32_t> Find(absl::string_view token) const;
  bool has_id(int32_t id) const { return id >= 0 && id < std::ssize(present_) && present_[id]; }
  // Indexed by id; empty where the vocabulary skips an id.
  const std::vector<std::string>& tokens() const { return tokens_; }
  size_t entry_count() const { return entry_count_; }
  // Ids of <0x00> to <0xFF>; nullopt unless all of them exist.
  std::optional<std::array<int32_t, 256>> ByteTokens() const;

 private:
  absl::Status SetToken(absl::string_view token, int64_t id);
  absl::flat_hash_map<std::string, int32_t> ids_;
  std::vector<std::string> tokens_;
  std::vector<bool> present_;
  size_t entry_count_ = 0;
};

}  // namespace varifocal
