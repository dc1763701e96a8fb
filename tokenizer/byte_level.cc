#include "tokenizer/byte_level.h"

#include <array>

#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

constexpr uint32_t kCharacterEnd = 0x144;  // 256 + 68 remapped bytes

bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<uint32_t, 256> character;
  std::array<int, kCharacterEnd> byte;
};

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet = [] {
    Alphabet a;
    a.byte.fill(-1);
    uint32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      a.character[byte] = StandsForItself(byte) ? byte : next++;
      a.byte[a.character[byte]] = byte;
    }
    return a;
  }();
  return alphabet;
}

}  // namespace

uint32_t ByteToCharacter(uint8_t byte) { return TheAlphabet().character[byte]; }

void AppendByteLevel(absl::string_view bytes, std::string& out) {
  for (char byte : bytes) AppendUtf8(ByteToCharacter(byte), out);
}

Alignment AlignByteLevel(absl::string_view bytes, const TextRange* alignment) {
  Alignment out;
  out.reserve(bytes.size() * 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint32_t character = ByteToCharacter(bytes[i]);
    out.insert(out.end(), character < 0x80 ? 1 : 2, alignment[i]);
  }
  return out;
}

std::optional<std::string> FromByteLevel(absl::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    uint32_t point = 0;
    const int length = ReadUtf8(token, &point);
    if (length == 0 || point >= kCharacterEnd || TheAlphabet().byte[point] < 0) return std::nullopt;
    bytes.push_back(TheAlphabet().byte[point]);
    token.remove_prefix(length);
  }
  return bytes;
}

}  // namespace varifocal
