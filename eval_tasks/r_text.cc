#include "eval_tasks/r_text.h"

#include <zlib.h>

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr uint32_t kRecordBytesMax = 64u << 20;
constexpr uint32_t kStringVector = 16;
constexpr uint32_t kTypeMask = 0xFF;
constexpr uint32_t kMissing = 0xFFFFFFFF;  // the length of NA

absl::Status Malformed(size_t at, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the record at byte ", at, " ", what));
}

// Takes big-endian numbers and bytes from the front; says so when there are too few.
class Reader {
 public:
  Reader(absl::string_view bytes, size_t at) : bytes_(bytes), at_(at) {}

  absl::StatusOr<absl::string_view> Bytes(size_t count) {
    if (count > bytes_.size()) {
      return Malformed(at_, absl::StrCat("ends after ", bytes_.size(), " bytes where ", count, " more should follow"));
    }
    const absl::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  absl::StatusOr<uint32_t> Number() {
    ASSIGN_OR_RETURN(const absl::string_view bytes, Bytes(4));
    uint32_t value = 0;
    for (char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }

 private:
  absl::string_view bytes_;
  size_t at_;
};

// Inflates the stream at the front of `bytes` and says how many bytes it took.
absl::StatusOr<std::string> Inflate(absl::string_view bytes, uint32_t size, size_t at, size_t* taken) {
  std::string out(size, '\0');
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) return absl::ResourceExhaustedError("zlib cannot start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = size;
  const int result = inflate(&stream, Z_FINISH);
  *taken = bytes.size() - stream.avail_in;
  const size_t inflated = stream.total_out;
  inflateEnd(&stream);
  if (result != Z_STREAM_END || inflated != size) {
    return Malformed(at, absl::StrCat("does not inflate to ", size, " bytes"));
  }
  return out;
}

// Nothing for a record of another type.
absl::StatusOr<std::optional<std::string>> ParseRecord(absl::string_view record, size_t at) {
  if (!absl::ConsumePrefix(&record, "X\n")) return Malformed(at, "is not in R's portable format");
  Reader reader(record, at);
  ASSIGN_OR_RETURN(const uint32_t version, reader.Number());
  if (version != 3) return Malformed(at, absl::StrCat("has format version ", version, "; 3 is read"));
  RETURN_IF_ERROR(reader.Bytes(8).status());  // versions of the writer, and of the oldest reader
  ASSIGN_OR_RETURN(const uint32_t encoding_size, reader.Number());
  RETURN_IF_ERROR(reader.Bytes(encoding_size).status());
  ASSIGN_OR_RETURN(const uint32_t flags, reader.Number());
  if ((flags & kTypeMask) != kStringVector) return std::optional<std::string>();
  ASSIGN_OR_RETURN(const uint32_t count, reader.Number());
  std::string text;
  for (uint32_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(reader.Number().status());  // the string's flags
    ASSIGN_OR_RETURN(const uint32_t size, reader.Number());
    if (i > 0) text.push_back('\n');
    if (size == kMissing) continue;
    ASSIGN_OR_RETURN(const absl::string_view line, reader.Bytes(size));
    absl::StrAppend(&text, line);
  }
  return std::optional<std::string>(std::move(text));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadTextVectors(absl::string_view rdb) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < rdb.size();) {
    Reader header(rdb.substr(at), at);
    ASSIGN_OR_RETURN(const uint32_t size, header.Number());
    if (size > kRecordBytesMax) {
      return Malformed(at, absl::StrCat("says it has ", size, " bytes; the limit is ", kRecordBytesMax));
    }
    size_t taken = 0;
    ASSIGN_OR_RETURN(const std::string record, Inflate(rdb.substr(at + 4), size, at, &taken));
    ASSIGN_OR_RETURN(std::optional<std::string> text, ParseRecord(record, at));
    if (text.has_value()) texts.push_back(*std::move(text));
    at += 4 + taken;
  }
  return texts;
}

}  // namespace varifocal
