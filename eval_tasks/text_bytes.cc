#include "eval_tasks/text_bytes.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

// Of a literal, NULs included.
template <size_t size>
constexpr absl::string_view Bytes(const char (&literal)[size]) {
  return {literal, size - 1};
}

struct FileStart {
  absl::string_view bytes;
  const char* what;
};

// UTF-32's mark before UTF-16's, which it begins with.
constexpr FileStart kFileStarts[] = {
    {Bytes("\x1F\x8B"), "is compressed (gzip); unpack it first"},
    {Bytes("BZh91AY&SY"), "is compressed (bzip2); unpack it first"},
    {Bytes("\xFD\x37zXZ\0"), "is compressed (xz); unpack it first"},
    {Bytes("\x28\xB5\x2F\xFD"), "is compressed (zstd); unpack it first"},
    {Bytes("PK\x03\x04"), "is a ZIP archive; unpack it first"},
    {Bytes("\xFF\xFE\0\0"), "is UTF-32; convert it to UTF-8 first"},
    {Bytes("\0\0\xFE\xFF"), "is UTF-32; convert it to UTF-8 first"},
    {Bytes("\xFF\xFE"), "is UTF-16; convert it to UTF-8 first"},
    {Bytes("\xFE\xFF"), "is UTF-16; convert it to UTF-8 first"},
};

constexpr size_t kStartBytes = 4;  // of a file without a mark: in UTF-16 and UTF-32, one of them is NUL

std::string HasNul(size_t offset) {
  return absl::StrCat("has a NUL byte at offset ", offset, ", which no text has; is it UTF-16, or not text at all?");
}

}  // namespace

std::string WhyNotText(absl::string_view bytes) {
  for (const FileStart& start : kFileStarts) {
    if (absl::StartsWith(bytes, start.bytes)) return start.what;
  }
  const size_t nul = bytes.substr(0, kStartBytes).find('\0');
  return nul == absl::string_view::npos ? "" : HasNul(nul);
}

absl::Status CheckBeginsText(absl::string_view path, absl::string_view bytes) {
  const std::string why = WhyNotText(bytes);
  return why.empty() ? absl::OkStatus() : InvalidArgument(path, ": ", why);
}

absl::Status CheckIsText(absl::string_view path, absl::string_view bytes) {
  RETURN_IF_ERROR(CheckBeginsText(path, bytes));
  const size_t nul = bytes.find('\0'), bad = ValidUtf8Prefix(bytes);
  if (nul < bad) return InvalidArgument(path, ": ", HasNul(nul));
  if (bad == bytes.size()) return absl::OkStatus();
  return InvalidArgument(path, ": is not UTF-8: no character begins at offset ", bad, "; convert it to UTF-8 first");
}

}  // namespace varifocal
