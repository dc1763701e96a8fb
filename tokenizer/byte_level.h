// The alphabet of byte-level BPE: every byte is represented by a printable character in vocabularies.
//
// Bytes that are printable in Latin-1 represent themselves; the others are numbered from U+0100 on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "tokenizer/alignment.h"

namespace varifocal {

uint32_t ByteToCharacter(uint8_t byte);
void AppendByteLevel(absl::string_view bytes, std::string& out);
// The alignment of AppendByteLevel's output for `bytes`, given the alignment of `bytes`.
Alignment AlignByteLevel(absl::string_view bytes, const TextRange* alignment);
// The bytes that `token` represents; nullopt when one of its characters is not in the alphabet.
std::optional<std::string> FromByteLevel(absl::string_view token);

}  // namespace varifocal
