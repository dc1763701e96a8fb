#include "tokenizer/utf8.h"

#include <cstring>

namespace varifocal {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

// Valid range of the second byte, which excludes overlong forms, surrogates and code points above 0x10FFFF.
struct LeadByte {
  int length;
  uint8_t second_low, second_high;
};

LeadByte Classify(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Bytes of the character: `length` of Classify when it is complete, else the maximal subpart (at least 1).
int WellFormedBytes(absl::string_view text, int* length) {
  const LeadByte lead = Classify(text[0]);
  *length = lead.length;
  int have = 1;
  for (; have < lead.length && have < std::ssize(text); ++have) {
    const auto byte = static_cast<uint8_t>(text[have]);
    const uint8_t low = have == 1 ? lead.second_low : 0x80;
    const uint8_t high = have == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) break;
  }
  return have;
}

}  // namespace

int ReadUtf8(absl::string_view text, uint32_t* code_point) {
  if (text.empty()) return 0;
  int length = 0;
  if (WellFormedBytes(text, &length) != length) return 0;
  return ReadValidUtf8(text.data(), code_point);
}

void AppendUtf8(uint32_t point, std::string& out) {
  if (point < 0x80) {
    out.push_back(point);
  } else if (point < 0x800) {
    out.push_back(0xC0 | point >> 6);
    out.push_back(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    out.push_back(0xE0 | point >> 12);
    out.push_back(0x80 | (point >> 6 & 0x3F));
    out.push_back(0x80 | (point & 0x3F));
  } else {
    out.push_back(0xF0 | point >> 18);
    out.push_back(0x80 | (point >> 12 & 0x3F));
    out.push_back(0x80 | (point >> 6 & 0x3F));
    out.push_back(0x80 | (point & 0x3F));
  }
}

size_t ValidUtf8Prefix(absl::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;
    if (at + 8 <= text.size() && (std::memcpy(&eight, text.data() + at, 8), (eight & 0x8080808080808080u) == 0)) {
      at += 8;
      continue;
    }
    int length = 0;
    if (WellFormedBytes(text.substr(at), &length) != length) break;
    at += length;
  }
  return at;
}

int64_t AppendRepairedUtf8(absl::string_view text, std::string& out) {
  int64_t replaced_count = 0;
  while (true) {
    const size_t good = ValidUtf8Prefix(text);
    out.append(text.data(), good);
    text.remove_prefix(good);
    if (text.empty()) return replaced_count;
    int length = 0;
    text.remove_prefix(WellFormedBytes(text, &length));
    out.append(kReplacement);
    ++replaced_count;
  }
}

}  // namespace varifocal
