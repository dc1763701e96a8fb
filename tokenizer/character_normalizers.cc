#include "tokenizer/character_normalizers.h"

#include "base/status_macros.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/unicode_form.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

// Appends the replacement of a character: none, itself, or others.
using CharacterMap = void (*)(uint32_t point, std::string& out);

void MapCharacters(CharacterMap map, NormalizedText& text) {
  std::string out;
  out.reserve(text.text.size());
  Alignment alignment;
  for (size_t at = 0; at < text.text.size();) {
    uint32_t point = 0;
    const int length = ReadValidUtf8(text.text.data() + at, &point);
    map(point, out);
    if (text.alignment.has_value()) alignment.resize(out.size(), (*text.alignment)[at]);
    if (at == 0 && out.empty()) text.is_start = false;  // the first character was removed
    at += length;
  }
  text.text = std::move(out);
  if (text.alignment.has_value()) text.alignment = std::move(alignment);
}

bool Is(uint32_t point, uint16_t classes) { return (UnicodeClasses()[point] & classes) != 0; }

void Lower(uint32_t point, std::string& out) {
  if (point == 0x130) {  // capital I with dot: the only character whose lower case is two characters
    out += "i\u0307";
  } else {
    AppendUtf8(ToLowercase(point), out);
  }
}

void DropMark(uint32_t point, std::string& out) {
  if (!Is(point, kMark)) AppendUtf8(point, out);
}

void DropNonspacing(uint32_t point, std::string& out) {
  if (!Is(point, kNonspacing)) AppendUtf8(point, out);
}

// Removes control characters and replaces those that SentencePiece's nmt rules treat as spaces.
void CleanNmt(uint32_t point, std::string& out) {
  const bool is_control = (point >= 0x01 && point <= 0x08) || point == 0x0B || (point >= 0x0E && point <= 0x1F) ||
                          point == 0x7F || point == 0x8F || point == 0x9F;
  if (is_control) return;
  const bool is_space = (point >= 0x09 && point <= 0x0D) || point == 0x1680 || (point >= 0x200B && point <= 0x200F) ||
                        point == 0x2028 || point == 0x2029 || point == 0x2581 || point == 0xFEFF || point == 0xFFFD;
  AppendUtf8(is_space ? ' ' : point, out);
}

void CleanBert(uint32_t point, std::string& out) {
  if (!Is(point, kControl)) AppendUtf8(Is(point, kSpace) ? ' ' : point, out);
}

bool IsIdeograph(uint32_t p) {
  return (p >= 0x4E00 && p <= 0x9FFF) || (p >= 0x3400 && p <= 0x4DBF) || (p >= 0x20000 && p <= 0x2A6DF) ||
         (p >= 0x2A700 && p <= 0x2B73F) || (p >= 0x2B740 && p <= 0x2B81F) || (p >= 0x2B920 && p <= 0x2CEAF) ||
         (p >= 0xF900 && p <= 0xFAFF) || (p >= 0x2F800 && p <= 0x2FA1F);
}

void SpaceIdeograph(uint32_t point, std::string& out) {
  const bool spaced = IsIdeograph(point);
  if (spaced) out += ' ';
  AppendUtf8(point, out);
  if (spaced) out += ' ';
}

void SpellBytes(uint32_t point, std::string& out) {
  std::string character;
  AppendUtf8(point, character);
  AppendByteLevel(character, out);
}

class ByCharacter : public Normalizer {
 public:
  explicit ByCharacter(CharacterMap map) : map_(map) {}
  absl::Status Apply(NormalizedText& text) const override {
    MapCharacters(map_, text);
    return absl::OkStatus();
  }

 private:
  const CharacterMap map_;
};

class BertNormalizer : public Normalizer {
 public:
  BertNormalizer(bool clean, bool space_ideographs, bool strip_accents, bool lowercase)
      : clean_(clean), space_ideographs_(space_ideographs), strip_accents_(strip_accents), lowercase_(lowercase) {}
  absl::Status Apply(NormalizedText& text) const override {
    if (clean_) MapCharacters(CleanBert, text);
    if (space_ideographs_) MapCharacters(SpaceIdeograph, text);
    if (strip_accents_) {
      RETURN_IF_ERROR(ApplyUnicodeForm(UnicodeForm::kNfd, text.text, text.alignment));
      MapCharacters(DropNonspacing, text);
    }
    if (lowercase_) MapCharacters(Lower, text);
    return absl::OkStatus();
  }

 private:
  const bool clean_, space_ideographs_, strip_accents_, lowercase_;
};

MadeNormalizer MakeByCharacter(const Json& json, CharacterMap map) {
  RETURN_IF_ERROR(CheckKeys(json, "normalizer", {}));
  return std::make_unique<ByCharacter>(map);
}

}  // namespace

MadeNormalizer MakeLowercase(const Json& json) { return MakeByCharacter(json, Lower); }
MadeNormalizer MakeStripAccents(const Json& json) { return MakeByCharacter(json, DropMark); }
MadeNormalizer MakeNmt(const Json& json) { return MakeByCharacter(json, CleanNmt); }
MadeNormalizer MakeByteLevelNormalizer(const Json& json) { return MakeByCharacter(json, SpellBytes); }

MadeNormalizer MakeBertNormalizer(const Json& json) {
  RETURN_IF_ERROR(
      CheckKeys(json, "BertNormalizer", {"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
  ASSIGN_OR_RETURN(bool clean, GetBool(json, "clean_text"));
  ASSIGN_OR_RETURN(bool space_ideographs, GetBool(json, "handle_chinese_chars"));
  ASSIGN_OR_RETURN(std::optional<bool> strip_accents, FindBool(json, "strip_accents"));
  ASSIGN_OR_RETURN(bool lowercase, GetBool(json, "lowercase"));
  return std::make_unique<BertNormalizer>(clean, space_ideographs, strip_accents.value_or(lowercase), lowercase);
}

}  // namespace varifocal
