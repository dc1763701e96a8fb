// The added tokens that one version of transformers makes of the files beside a tokenizer.json.
//
// Errors:  INVALID_ARGUMENT with the file and the key: what this version refuses, and what it leaves to chance.
// Threads: any.
// Source:  transformers 4.57.3 and 5.24.0, `_from_pretrained` of the tokenizers' base class.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/post_processors.h"
#include "tokenizer/token_classes.h"
#include "tokenizer/token_list.h"
#include "tokenizer/token_rules.h"
#include "tokenizer/vocabulary.h"

namespace varifocal {

inline constexpr char kTokenizerConfigName[] = "tokenizer_config.json";
inline constexpr char kTokensMapName[] = "special_tokens_map.json";
inline constexpr char kAddedTokensName[] = "added_tokens.json";

struct VersionTokens {
  const TokenizerClass* row;
  TokenList tokens, file_tokens;         // file_tokens: tokenizer.json's own
  std::vector<int32_t> before, behind;   // a text
  std::optional<bool> add_prefix_space;  // where it is not tokenizer.json's
};

// `is_4`: by 4.57.3, else by 5.24.0. The arguments outlive the call, the vocabulary the result.
absl::StatusOr<VersionTokens> ApplyVersionRules(bool is_4, const SideFiles& files, const Json& tokenizer,
                                                const Vocabulary& vocabulary, const PostProcessor& own);

}  // namespace varifocal
