// Streaming access to large files of JSON objects: lines, one array, or an array in a field of one object; and parsing
// of single fields.
//
// Benchmark files have gigabytes and rows of megabytes. A scan holds one row in memory; chosen rows are read again by
// offset. FieldsOf parses selected fields of an object without building the others, in one pass over the bytes.
//
// A byte order mark and CR LF line ends are skipped; NaN and Infinity, which Python writes, are null.
//
// Errors:  of base/files.h for a file that cannot be read; INVALID_ARGUMENT "PATH: row N: ..", rows counted from 1, and for a
//          compressed file, a list that does not end, and a row above kJsonRowBytesMax.
// Threads: const methods from any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/files.h"
#include "base/json.h"

namespace varifocal {

inline constexpr int64_t kJsonRowBytesMax = int64_t{1} << 28;

struct RowPlace {
  int64_t offset = 0;
  int64_t size = 0;
  uint64_t digest = 0;  // the first bytes of the text's SHA-256
};

class JsonRowFile {
 public:
  static absl::StatusOr<std::unique_ptr<JsonRowFile>> Open(const std::string& path);

  // Calls `visit` with every row's number and text and records its offset; sets sha256() and places(). With `rows_field`,
  // the file is one object and the rows are the list in that field.
  absl::Status Scan(const std::function<absl::Status(int64_t row_number, absl::string_view text)>& visit,
                    absl::string_view rows_field = "");

  const std::string& path() const { return file_->path(); }
  const std::vector<RowPlace>& places() const { return places_; }
  const std::string& sha256() const { return sha256_; }  // of the whole file
  // "PATH: row N", for messages; `index` from 0.
  std::string PlaceOf(size_t index) const;

  absl::StatusOr<std::string> ReadText(size_t index) const;
  absl::StatusOr<Json> Read(size_t index) const;  // an object

 private:
  explicit JsonRowFile(std::unique_ptr<InputFile> file) : file_(std::move(file)) {}
  absl::Status Visit(int64_t offset, absl::string_view text,
                     const std::function<absl::Status(int64_t, absl::string_view)>& visit);

  std::unique_ptr<InputFile> file_;
  std::vector<RowPlace> places_;
  std::string sha256_;
};

// Parses the fields of the JSON object `text` that are in `names`; with `all_names`, every field's name is added to it.
// Other fields are only checked for bracket structure.
absl::StatusOr<Json> FieldsOf(absl::string_view text, absl::Span<const std::string> names,
                              std::vector<std::string>* all_names = nullptr);

}  // namespace varifocal
