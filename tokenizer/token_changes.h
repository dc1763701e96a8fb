// What the files beside a tokenizer.json change in it, by the rules of token_rules.h.
//
// The pipeline (normalizer, pre-tokenizer, model) is always the file's, but for add_prefix_space of a ByteLevel
// pre-tokenizer. Ids of new tokens are those that the library gives.
//
// Errors:  INVALID_ARGUMENT with the file and the key: a malformed entry, or one about which the versions disagree.
// Source:  transformers 4.57.3 and 5.24.0, `_from_pretrained` of the tokenizers' base class and the classes' __init__.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/post_processors.h"
#include "tokenizer/token_rules.h"
#include "tokenizer/vocabulary.h"

namespace varifocal {

// Differences to tokenizer.json alone; unset where there are none.
struct TokenChanges {
  std::optional<Json> added_tokens;  // the whole list, as in tokenizer.json
  std::optional<std::vector<int32_t>> before, behind;
  std::optional<bool> add_prefix_space;  // of the pre-tokenizer
  bool splits_special_tokens = false;    // special tokens in a text are text

  // Canonical JSON; "" when nothing changes.
  std::string Identity() const;
};
absl::StatusOr<TokenChanges> ReadTokenChanges(const SideFiles& files, const Json& tokenizer,
                                              const Vocabulary& vocabulary, const PostProcessor& own,
                                              TokenizerRules rules);

}  // namespace varifocal
