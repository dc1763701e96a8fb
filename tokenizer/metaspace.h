// Metaspace, SentencePiece's handling of spaces: every space becomes a visible character (U+2581), one more is
// prepended, and words begin with it; decoding reverses this.
#pragma once

#include <memory>

#include "base/json.h"
#include "tokenizer/decoder.h"
#include "tokenizer/pre_tokenizer.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<const PreTokenizer>> MakeMetaspacePreTokenizer(const Json& json);
MadeDecoder MakeMetaspaceDecoder(const Json& json);

}  // namespace varifocal
