#include "tokenizer/subword_model.h"

#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr size_t kCachedWordCountMax = 16384;  // about 2 MB per cache

}  // namespace

absl::Status SubwordModel::Encode(absl::string_view word, WordCache& cache, std::vector<int32_t>& ids) const {
  if (word.size() == 1 && single_byte_ids_[static_cast<uint8_t>(word[0])] >= 0) {
    ids.push_back(single_byte_ids_[static_cast<uint8_t>(word[0])]);
    return absl::OkStatus();
  }
  return word.size() > kCachedWordBytesMax ? EncodeLong(word, cache, ids) : EncodeCached(word, cache, ids);
}

absl::Status SubwordModel::EncodeCached(absl::string_view word, WordCache& cache, std::vector<int32_t>& ids) const {
  auto found = cache.find(word);
  if (found == cache.end()) {
    std::vector<int32_t> fresh;
    RETURN_IF_ERROR(EncodeUncached(word, fresh));
    if (cache.size() >= kCachedWordCountMax) cache.clear();
    found = cache.emplace(std::string(word), absl::InlinedVector<int32_t, 4>(fresh.begin(), fresh.end())).first;
  }
  ids.insert(ids.end(), found->second.begin(), found->second.end());
  return absl::OkStatus();
}

}  // namespace varifocal
