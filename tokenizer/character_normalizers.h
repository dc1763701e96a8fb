// Normalizers of single characters: Lowercase, StripAccents, Nmt, ByteLevel, BertNormalizer.
#pragma once

#include "base/json.h"
#include "tokenizer/normalizer.h"

namespace varifocal {

MadeNormalizer MakeLowercase(const Json& json);
MadeNormalizer MakeStripAccents(const Json& json);
MadeNormalizer MakeNmt(const Json& json);
MadeNormalizer MakeByteLevelNormalizer(const Json& json);
MadeNormalizer MakeBertNormalizer(const Json& json);

}  // namespace varifocal
