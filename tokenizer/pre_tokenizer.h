// One step of pre-tokenization: splits a text into words; the model never merges across word boundaries.
//
// A word is a view into the text, so splitting copies nothing; a step that changes characters keeps its own copy.
#pragma once

#include <deque>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tokenizer/alignment.h"

namespace varifocal {

struct Words {
  std::vector<absl::string_view> words;  // none is empty
  std::deque<std::string> changed;       // rewritten texts; views stay valid while it grows
  bool begins_at_start = true;           // the first word begins the whole text
  // By the address of every text that words are views into; empty when not needed.
  std::map<const char*, Alignment> alignments = {};

  // The alignment of a word's bytes, or null when alignments are not kept.
  const TextRange* AlignmentOf(absl::string_view word) const {
    if (alignments.empty()) return nullptr;
    const auto found = std::prev(alignments.upper_bound(word.data()));
    return found->second.data() + (word.data() - found->first);
  }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual absl::Status Apply(Words& words) const = 0;
};

}  // namespace varifocal
