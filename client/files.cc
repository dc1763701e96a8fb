#include "client/files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file_error.h"
#include "base/json_strings.h"
#include "base/status_macros.h"
#include "eval_tasks/text_bytes.h"

namespace varifocal::client {
namespace {

absl::Status PathError(const std::string& path, int error) {
  std::string sentence = absl::StrCat("Cannot read ", path, ": ", std::strerror(error), ".");
  if (error == ENOENT || error == ENOTDIR) {
    sentence.pop_back();
    return NotFound(sentence, TildeHint(path), ".");
  }
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(sentence);
  return absl::UnknownError(sentence);
}

struct CloseUnlessStandard {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, CloseUnlessStandard>;

File Open(const std::string& path) { return File(path == "-" ? stdin : std::fopen(path.c_str(), "rb")); }

}  // namespace

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const File file = Open(path);
  if (file == nullptr) return PathError(path, errno);
  std::string bytes;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), file.get())) bytes.append(buffer, count);
  if (std::ferror(file.get())) return PathError(path, errno);  // opening a directory succeeds, reading it fails
  return bytes;
}

absl::Status ForEachJsonLine(const std::string& path, const std::function<absl::Status(const Json&)>& visit) {
  return ForEachJsonLine(path, [&](int64_t, const Json& object) { return visit(object); });
}

absl::Status ForEachJsonLine(const std::string& path,
                             const std::function<absl::Status(int64_t line_number, const Json&)>& visit) {
  return ForEachLine(path, [&](int64_t line_number, absl::string_view line) -> absl::Status {
    ASSIGN_OR_RETURN(const Json object, ParseJsonObject(line));
    return visit(line_number, object);
  });
}

absl::StatusOr<Json> ParseJsonObject(absl::string_view line) {
  ASSIGN_OR_RETURN(Json object, ParseJson(line));
  if (object.is_object()) return object;
  return InvalidArgument("must be a JSON object, not ", JsonKind(object), ".");
}

absl::Status ForEachLine(const std::string& path,
                         const std::function<absl::Status(int64_t line_number, absl::string_view line)>& visit,
                         const std::function<void(const absl::Status&)>& on_error) {
  const File file = Open(path);
  if (file == nullptr) return PathError(path, errno);
  struct Buffer {
    char* text = nullptr;
    size_t capacity = 0;
    ~Buffer() { std::free(text); }
  } buffer;
  for (int64_t line_number = 1;; ++line_number) {
    errno = 0;
    const ssize_t size = getline(&buffer.text, &buffer.capacity, file.get());
    if (size < 0) {
      if (std::ferror(file.get())) return PathError(path, errno);
      return absl::OkStatus();
    }
    const absl::string_view line = absl::StripAsciiWhitespace(absl::string_view(buffer.text, size));
    if (line_number == 1) {
      if (const std::string why = WhyNotText(absl::string_view(buffer.text, size)); !why.empty()) {
        return InvalidArgument(path, ": ", why, ".");
      }
    }
    if (line.empty()) continue;
    const absl::Status status = Annotate(visit(line_number, line), absl::StrCat(path, ":", line_number));
    if (status.ok()) continue;
    if (!on_error) return status;
    on_error(status);
  }
}

absl::StatusOr<std::vector<int32_t>> TokenIdsOfJson(const Json& value) {
  if (!value.is_array()) return InvalidArgument("token ids must be a JSON array, not ", JsonKind(value), ".");
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const Json& item : value) {
    if (!item.is_number_integer() || item.get<double>() < 0 ||
        item.get<double>() > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("token id ", ids.size(), " is ", item.dump(),
                             "; an id is a whole number from 0 to 2147483647.");
    }
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

absl::StatusOr<std::vector<int32_t>> ReadTokenIds(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  ASSIGN_OR_RETURN(const Json value, Annotate(ParseJson(text), path));
  return Annotate(TokenIdsOfJson(value), path);
}

}  // namespace varifocal::client
