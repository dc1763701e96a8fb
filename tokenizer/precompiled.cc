#include "tokenizer/precompiled.h"

#include <algorithm>
#include <optional>

#include <utf8proc.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/component.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

int32_t CountCharacters(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

constexpr size_t kWholeGraphemeBytesMax = 5;

uint32_t ReadUint32(absl::string_view bytes) {
  const auto* b = reinterpret_cast<const uint8_t*>(bytes.data());
  return b[0] | b[1] << 8 | b[2] << 16 | static_cast<uint32_t>(b[3]) << 24;
}

class Precompiled : public Normalizer {
 public:
  Precompiled(std::vector<uint32_t> units, std::string replacements)
      : units_(std::move(units)), replacements_(std::move(replacements)) {}

  absl::Status Apply(NormalizedText& text) const override {
    std::string out;
    out.reserve(text.text.size());
    Changes changes;
    const auto replace = [&](absl::string_view old_part, absl::string_view new_part) {
      absl::StrAppend(&out, new_part);
      if (text.alignment.has_value()) AddChanges(CountCharacters(old_part), CountCharacters(new_part), changes);
    };
    for (absl::string_view rest = text.text; !rest.empty();) {
      const absl::string_view grapheme = rest.substr(0, GraphemeLength(rest));
      rest.remove_prefix(grapheme.size());
      if (grapheme.size() <= kWholeGraphemeBytesMax) {
        if (const auto replaced = Find(grapheme); replaced.has_value()) {
          replace(grapheme, *replaced);
          continue;
        }
      }
      for (size_t at = 0; at < grapheme.size();) {
        uint32_t ignored = 0;
        const int length = ReadValidUtf8(grapheme.data() + at, &ignored);
        const absl::string_view character = grapheme.substr(at, length);
        replace(character, Find(character).value_or(character));
        at += length;
      }
    }
    if (text.alignment.has_value()) text.alignment = AlignChanges(text.text, *text.alignment, out, changes);
    text.text = std::move(out);
    return absl::OkStatus();
  }

 private:
  // As the library records them: removed characters are recorded with the last one before them, if there is any.
  static void AddChanges(int32_t old_count, int32_t new_count, Changes& changes) {
    for (int32_t i = 0; i < new_count; ++i) changes.push_back(i < old_count ? 0 : 1);
    if (new_count < old_count && !changes.empty()) changes.back() -= old_count - new_count;
  }

  // Bytes up to the next grapheme boundary. The library's tables are newer than utf8proc's: a mark that is unassigned in
  // utf8proc counts as a mark.
  static size_t GraphemeLength(absl::string_view text) {
    const auto is_plain = [&](size_t at) { return static_cast<uint8_t>(text[at]) < 0x80 && text[at] != '\n'; };
    if (text.size() == 1 || (static_cast<uint8_t>(text[0]) < 0x80 && is_plain(1))) return 1;
    utf8proc_int32_t state = 0, previous = 0;
    for (size_t at = 0; at < text.size();) {
      uint32_t point = 0;
      const int length = ReadValidUtf8(text.data() + at, &point);
      auto next = static_cast<utf8proc_int32_t>(point);
      if ((UnicodeClasses()[point] & kJoining) != 0 &&
          utf8proc_get_property(next)->boundclass == UTF8PROC_BOUNDCLASS_OTHER) {
        next = 0x301;
      }
      if (at > 0 && utf8proc_grapheme_break_stateful(previous, next, &state)) return at;
      previous = next;
      at += length;
    }
    return text.size();
  }

  // The replacement of the shortest prefix of `text` that is in the table.
  std::optional<absl::string_view> Find(absl::string_view text) const {
    uint32_t at = Offset(units_[0]);
    for (char byte : text) {
      const auto label = static_cast<uint8_t>(byte);
      if (label == 0) break;
      at ^= label;
      if (at >= units_.size() || Label(units_[at]) != label) break;
      const uint32_t unit = units_[at];
      at ^= Offset(unit);
      if ((unit & 0x100) == 0) continue;
      if (at >= units_.size()) break;
      const size_t begin = units_[at] & 0x7FFFFFFF;
      if (begin >= replacements_.size() || (replacements_[begin] & 0xC0) == 0x80) break;
      return absl::string_view(replacements_.c_str() + begin);  // up to the NUL
    }
    return std::nullopt;
  }
  static uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }
  static uint32_t Label(uint32_t unit) { return unit & 0x800000FF; }

  const std::vector<uint32_t> units_;
  const std::string replacements_;
};

}  // namespace

MadeNormalizer MakePrecompiled(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "Precompiled", {"precompiled_charsmap"}));
  ASSIGN_OR_RETURN(std::string encoded, GetString(json, "precompiled_charsmap"));
  std::string bytes;
  if (!absl::Base64Unescape(encoded, &bytes)) return InvalidArgument("\"precompiled_charsmap\" is not base64");
  const absl::string_view view = bytes;
  const size_t array_bytes = view.size() < 4 ? 0 : ReadUint32(view);
  if (array_bytes == 0 || array_bytes % 4 != 0 || array_bytes > view.size() - 4) {
    return InvalidArgument("\"precompiled_charsmap\" declares a table of ", array_bytes, " bytes, but has ",
                           view.size(), " bytes");
  }
  std::vector<uint32_t> units;
  for (size_t at = 4; at < 4 + array_bytes; at += 4) units.push_back(ReadUint32(view.substr(at)));
  std::string replacements(view.substr(4 + array_bytes));
  if (ValidUtf8Prefix(replacements) != replacements.size()) {
    return InvalidArgument("\"precompiled_charsmap\" has replacements that are not UTF-8");
  }
  return std::make_unique<Precompiled>(std::move(units), std::move(replacements));
}

}  // namespace varifocal
