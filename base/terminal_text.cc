#include "base/terminal_text.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace varifocal {
namespace {

// The length of the character that begins so: 0 for none.
size_t CharacterBytes(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

bool IsEscaped(uint32_t character) {
  if (character < 0x20) return character != '\n' && character != '\t';
  if (character >= 0x7f && character < 0xa0) return true;
  return character == 0x061c || character == 0x200e || character == 0x200f ||
         (character >= 0x202a && character <= 0x202e) || (character >= 0x2066 && character <= 0x2069) ||
         character == 0x2028 || character == 0x2029;
}

}  // namespace

std::string TerminalText(absl::string_view text, std::string* rest) {
  std::string safe;
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
    size_t size = CharacterBytes(byte(0));
    uint32_t character = size == 1 ? byte(0) : byte(0) & (0x7f >> size);
    size_t good = size == 0 ? 0 : 1;
    for (; good > 0 && good < size && at + good < text.size() && (byte(good) & 0xc0) == 0x80; ++good) {
      character = character << 6 | (byte(good) & 0x3f);
    }
    if (size > 1 && good < size && at + good == text.size() && rest != nullptr) {
      *rest = std::string(text.substr(at));
      return safe;
    }
    if (good == 0 || good < size) {
      absl::StrAppend(&safe, "\\x", absl::Hex(byte(0), absl::kZeroPad2));
      ++at;
      continue;
    }
    if (IsEscaped(character)) {
      absl::StrAppend(&safe, "\\u", absl::Hex(character, absl::kZeroPad4));
    } else {
      safe.append(text.data() + at, size);
    }
    at += size;
  }
  return safe;
}

}  // namespace varifocal
