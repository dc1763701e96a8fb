// Whose reading of a tokenizer's directory holds: tokenizer.json, and tokenizer_config.json, special_tokens_map.json and
// added_tokens.json beside it.
//
// The library reads tokenizer.json alone; transformers then adds tokens, changes their flags and may replace the tokens
// around a text. Its versions disagree: 4.57 rebuilds the post-processor of some classes from add_bos_token and
// add_eos_token, 5.24 keeps the file's; classes have other defaults. Both readings are computed (token_changes.h). Where
// they agree, that is the tokenizer; where not, the user chooses.
//
// Errors: INVALID_ARGUMENT with the file, or the value.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal {

// Whose rules hold where they differ.
enum class TokenizerRules { kAgreed, kTransformers4, kTransformers5 };

// "4", "5", or "" for kAgreed.
absl::StatusOr<TokenizerRules> ParseTokenizerRules(absl::string_view text);

// Parsed; null where there is no such file.
struct SideFiles {
  Json config;              // tokenizer_config.json
  Json special_tokens_map;  // special_tokens_map.json
  Json added_tokens;        // added_tokens.json
  Json model;               // config.json, for the class of tokenizer that its model type has

  bool empty() const { return config.is_null() && special_tokens_map.is_null() && added_tokens.is_null(); }
};
absl::StatusOr<SideFiles> ReadSideFiles(const std::string& directory);

}  // namespace varifocal
