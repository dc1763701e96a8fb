// SentencePiece's "precompiled charsmap": a table of texts and what replaces them.
//
// The table is a double array over bytes (recipes/goldens/charsmap.py describes it) with the replacements behind it. As
// in the `tokenizers` library, a grapheme of less than six bytes is looked up first and replaced whole by what the
// shortest beginning that the table knows gives; otherwise each of its characters is looked up by itself.
//
// Errors:  INVALID_ARGUMENT when the table is not base64, or contradicts its own sizes.
#pragma once

#include "base/json.h"
#include "tokenizer/normalizer.h"

namespace varifocal {

MadeNormalizer MakePrecompiled(const Json& json);

}  // namespace varifocal
