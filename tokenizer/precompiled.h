// SentencePiece's "precompiled charsmap": a table of texts and their replacements.
//
// The table is a double-array trie over bytes (recipes/goldens/charsmap.py describes it) followed by the replacements.
// As in the `tokenizers` library, a grapheme of less than six bytes is looked up first and replaced as a whole by the
// entry of its shortest prefix in the table; otherwise each of its characters is looked up separately.
//
// Errors:  INVALID_ARGUMENT when the table is not base64, or contradicts its own sizes.
#pragma once

#include "base/json.h"
#include "tokenizer/normalizer.h"

namespace varifocal {

MadeNormalizer MakePrecompiled(const Json& json);

}  // namespace varifocal
