// The tokenizer classes of two versions of transformers, as far as they change what a directory's files say.
//
// A new class is a row of token_classes.cc, and so is a model type whose directories may name no class or a wrong one.
//
// Threads: any.
// Source:  transformers 4.57.3 and 5.24.0, models/auto/tokenization_auto.py and the classes' __init__.
#pragma once

#include <iterator>

#include "absl/strings/string_view.h"

namespace varifocal {

// The attributes of special tokens, in the order in which they are added.
inline constexpr absl::string_view kNamedTokenKeys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                        "pad_token", "cls_token", "mask_token"};

// One version's class of tokenizer. Null: no default for the attribute.
struct TokenizerClass {
  absl::string_view name;                            // without "Fast"
  const char* defaults[std::size(kNamedTokenKeys)];  // of kNamedTokenKeys
  enum {
    kKept,
    kByFlags,
    kEmpty
  } specials = kKept;             // the post-processor is the file's, rebuilt from the flags, or nothing
  bool add_bos_default = false;   // of kByFlags
  bool rebuilt = false;           // from the vocabulary alone, without tokenizer.json's added tokens
  bool own_prefix_space = false;  // add_prefix_space is the config's, false by default
  bool wraps_names = false;       // named tokens are added with plain flags, whatever they had
};

// What a directory has of its class.
struct ClassHints {
  absl::string_view class_name;      // of tokenizer_config.json or config.json; may be empty
  absl::string_view model_type;      // of config.json, a wrapper's own; may be empty
  bool pre_tokenizer_is_byte_level;  // anywhere in it
};
// A class that no row describes is the generic one. Null where 4.57 asks for a name.
const TokenizerClass* ClassOfTransformers4(const ClassHints& hints);
const TokenizerClass* ClassOfTransformers5(const ClassHints& hints);

// Whether there is a row for directories of this model type that name no class.
bool HasTokenizerClassRow(absl::string_view model_type);  // for tests

}  // namespace varifocal
