#include "eval_tasks/ruler/word_pairs.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace varifocal::ruler {
namespace {

// Bytes of UTF-8 sort as code points do.
std::vector<std::string> Sorted(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

}  // namespace

WordPairs::WordPairs(const std::vector<std::string>& adjectives, const std::vector<std::string>& nouns)
    : nouns_(Sorted(nouns)) {
  std::vector<std::string> prefixes;
  for (const std::string& adjective : adjectives) prefixes.push_back(absl::StrCat(adjective, "-"));
  prefixes = Sorted(std::move(prefixes));
  for (size_t i = 0; i < prefixes.size();) {
    size_t end = i + 1;
    while (end < prefixes.size() && absl::StartsWith(prefixes[end], prefixes[i])) ++end;
    Block block{size_, prefixes[i], {}};
    if (end > i + 1) {
      for (size_t k = i; k < end; ++k) {
        for (const std::string& noun : nouns_) block.pairs.push_back(absl::StrCat(prefixes[k], noun));
      }
      block.pairs = Sorted(std::move(block.pairs));
    }
    size_ += end > i + 1 ? block.pairs.size() : nouns_.size();
    blocks_.push_back(std::move(block));
    i = end;
  }
}

std::string WordPairs::At(size_t index) const {
  VF_CHECK(index < size_);
  const auto next =
      std::partition_point(blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.first <= index; });
  const Block& block = *(next - 1);
  if (!block.pairs.empty()) return block.pairs[index - block.first];
  return absl::StrCat(block.prefix, nouns_[index - block.first]);
}

}  // namespace varifocal::ruler
