// sorted(set(adjective + "-" + noun)) by code point, without building it: upstream's six million word keys by index.
//
// Sorted adjectives give one block of nouns each, except where one adjective and its hyphen begin another
// ("well", "well-known"): their pairs interleave and may coincide, so that they are built.
//
// Threads: immutable.
#pragma once

#include <string>
#include <vector>

namespace varifocal::ruler {

class WordPairs {
 public:
  // Any order, repeats allowed; neither is empty.
  WordPairs(const std::vector<std::string>& adjectives, const std::vector<std::string>& nouns);

  size_t size() const { return size_; }
  std::string At(size_t index) const;

 private:
  struct Block {
    size_t first = 0;  // index of its first pair
    std::string prefix;
    std::vector<std::string> pairs;  // empty: prefix + noun
  };
  std::vector<std::string> nouns_;
  std::vector<Block> blocks_;
  size_t size_ = 0;
};

}  // namespace varifocal::ruler
