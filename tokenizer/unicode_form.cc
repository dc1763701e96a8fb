#include "tokenizer/unicode_form.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <vector>

#include <utf8proc.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

utf8proc_option_t Options(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::kNfc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    case UnicodeForm::kNfd:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    case UnicodeForm::kNfkc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case UnicodeForm::kNfkd:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  }
  return UTF8PROC_STABLE;
}

absl::Status Append(absl::string_view stretch, utf8proc_option_t options, std::string& out) {
  if (stretch.empty()) return absl::OkStatus();
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(stretch.data()),
                                             static_cast<utf8proc_ssize_t>(stretch.size()), &mapped, options);
  if (size < 0) return Internal("Unicode normalization failed: ", utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(mapped), size);
  std::free(mapped);
  return absl::OkStatus();
}

// A character during normalization, and its origin in the text (alignment.h).
struct Mapped {
  uint32_t point;
  int combining_class;
  int32_t change;
};

bool IsInert(uint32_t point) { return (UnicodeClasses()[point] & kInert) != 0; }

int CombiningClass(uint32_t point) {
  return IsInert(point) ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(point))->combining_class;
}

// In canonical order. The first part of a decomposed character replaces it.
absl::StatusOr<std::vector<Mapped>> Decompose(absl::string_view text, utf8proc_option_t options) {
  std::vector<Mapped> out;
  out.reserve(text.size());
  size_t sorted = 0;
  const auto sort_pending = [&] {
    std::stable_sort(out.begin() + sorted, out.end(),
                     [](const Mapped& a, const Mapped& b) { return a.combining_class < b.combining_class; });
    sorted = out.size();
  };
  for (size_t at = 0; at < text.size();) {
    uint32_t point = 0;
    at += ReadValidUtf8(text.data() + at, &point);
    utf8proc_int32_t parts[32] = {static_cast<utf8proc_int32_t>(point)};  // the longest decomposition has 18
    utf8proc_ssize_t count = 1;
    if (point >= 0x80 && !IsInert(point)) {
      int ignored = 0;
      count = utf8proc_decompose_char(parts[0], parts, std::size(parts), options, &ignored);
      if (count < 0 || count > static_cast<utf8proc_ssize_t>(std::size(parts))) {
        return Internal("Unicode normalization of U+", absl::Hex(point), " failed");
      }
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<uint32_t>(parts[i]);
      const int combining_class = part < 0x80 ? 0 : CombiningClass(part);
      if (combining_class == 0) sort_pending();
      out.push_back({part, combining_class, i == 0 ? 0 : 1});
    }
  }
  sort_pending();
  return out;
}

// The composition of two characters, or 0.
uint32_t ComposePair(uint32_t left, uint32_t right, utf8proc_option_t options) {
  if (right < 0x80 || IsInert(left) || IsInert(right)) return 0;
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(left), static_cast<utf8proc_int32_t>(right)};
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? static_cast<uint32_t>(pair[0]) : 0;
}

// A composed character replaces all of its parts.
std::vector<Mapped> Compose(const std::vector<Mapped>& decomposed, utf8proc_option_t options) {
  std::vector<Mapped> out;
  out.reserve(decomposed.size());
  constexpr size_t kNoBase = -1;
  size_t base = kNoBase;  // the last character of class 0, in `out`
  int last_class = -1;    // of the character after it; -1: none
  for (const Mapped& next : decomposed) {
    if (base != kNoBase && last_class < next.combining_class) {
      if (const uint32_t composed = ComposePair(out[base].point, next.point, options); composed != 0) {
        out[base].point = composed;
        out[base].change += next.change - 1;
        continue;
      }
    }
    if (next.combining_class == 0) {
      base = out.size();
      last_class = -1;
    } else if (base != kNoBase) {
      last_class = next.combining_class;
    }
    out.push_back(next);
  }
  return out;
}

absl::Status ApplyAligned(utf8proc_option_t options, std::string& text, Alignment& alignment) {
  const auto for_decomposing = static_cast<utf8proc_option_t>((options & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE);
  ASSIGN_OR_RETURN(std::vector<Mapped> mapped, Decompose(text, for_decomposing));
  if ((options & UTF8PROC_COMPOSE) != 0) mapped = Compose(mapped, options);
  std::string out;
  out.reserve(text.size());
  Changes changes;
  changes.reserve(mapped.size());
  for (const Mapped& character : mapped) {
    AppendUtf8(character.point, out);
    changes.push_back(character.change);
  }
  alignment = AlignChanges(text, alignment, out, changes);
  text = std::move(out);
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyUnicodeForm(UnicodeForm form, std::string& text, std::optional<Alignment>& alignment) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; })) {
    return absl::OkStatus();
  }
  if (alignment.has_value()) return ApplyAligned(Options(form), text, *alignment);
  std::string out;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    uint32_t point = 0;
    const int length = ReadValidUtf8(text.data() + at, &point);
    if (IsInert(point)) {  // unchanged, and no character composes with or reorders across it
      RETURN_IF_ERROR(Append(absl::string_view(text).substr(done, at - done), Options(form), out));
      out.append(text, at, length);
      done = at + length;
    }
    at += length;
  }
  RETURN_IF_ERROR(Append(absl::string_view(text).substr(done), Options(form), out));
  text = std::move(out);
  return absl::OkStatus();
}

}  // namespace varifocal
