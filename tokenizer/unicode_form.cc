#include "tokenizer/unicode_form.h"

#include <algorithm>
#include <cstdlib>

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
  if (size < 0) return absl::InternalError(absl::StrCat("Unicode normalization failed: ", utf8proc_errmsg(size)));
  out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
  std::free(mapped);
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyUnicodeForm(UnicodeForm form, std::string& text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; })) {
    return absl::OkStatus();
  }
  std::string out;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    uint32_t point = 0;
    const int length = ReadValidUtf8(text.data() + at, &point);
    if ((UnicodeClasses()[point] & kInert) != 0) {  // stays as it is, and nothing composes or moves across it
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
