#include "eval_tasks/ruler/rows.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_roots.h"
#include "base/plural.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/job_spec.h"

namespace varifocal::ruler {
namespace {

const Json* FirstOf(const Json& row, absl::Span<const char* const> names) {
  for (const char* name : names) {
    if (const auto found = row.find(name); found != row.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

absl::StatusOr<RulerRow> ParseRow(absl::string_view text) {
  static constexpr const char* kInputs[] = {"input", "question"};
  static constexpr const char* kPrefixes[] = {"answer_prefix", "generation"};
  static constexpr const char* kOutputs[] = {"outputs", "output", "expected_answer"};
  ASSIGN_OR_RETURN(const Json object, FieldsOf(text, {"input", "question", "answer_prefix", "generation", "outputs",
                                                      "output", "expected_answer", "length"}));
  RulerRow row;
  const Json* input = FirstOf(object, kInputs);
  if (input == nullptr || !input->is_string()) return InvalidArgument("has no text \"input\"");
  row.input = input->get<std::string>();
  if (const Json* prefix = FirstOf(object, kPrefixes); prefix != nullptr) {
    if (!prefix->is_string()) return InvalidArgument("\"answer_prefix\" is not a text");
    row.answer_prefix = prefix->get<std::string>();
  }
  const Json* outputs = FirstOf(object, kOutputs);
  if (outputs == nullptr) return InvalidArgument("has no \"outputs\"");
  for (const Json& output : outputs->is_array() ? *outputs : Json::array({*outputs})) {
    if (!output.is_string()) return InvalidArgument("\"outputs\" is not a list of texts");
    row.outputs.push_back(output.get<std::string>());
    if (row.outputs.back().empty()) {
      return InvalidArgument("\"outputs\" has an empty text, which every answer contains");
    }
  }
  if (row.outputs.empty()) return InvalidArgument("\"outputs\" is empty");
  if (const auto length = object.find("length"); length != object.end() && length->is_number_integer()) {
    row.length = std::clamp<int64_t>(length->get<int64_t>(), 0, kContextLengthMax);
  }
  return row;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowFiles>> RowFiles::Open(const RulerTaskInfo& task, const RowFilesRequest& request) {
  namespace fs = std::filesystem;
  const std::string file = absl::StrCat(task.name, "/", request.subset, ".jsonl");
  std::map<int, std::string> paths;
  ASSIGN_OR_RETURN(const int look, OpenConfined(request.folder, FileUse::kData, O_PATH | O_DIRECTORY));
  close(look);
  std::error_code error;
  for (fs::directory_iterator it(request.folder, error), end; !error && it != end; it.increment(error)) {
    int length = 0;
    if (!absl::SimpleAtoi(it->path().filename().string(), &length) || length < 1 || length > kContextLengthMax)
      continue;
    for (const char* below : {"", "data/"}) {
      const std::string path = absl::StrCat(it->path().string(), "/", below, file);
      if (FileExists(path, FileUse::kData)) paths.emplace(length, path);
    }
  }
  const std::string alone = absl::StrCat(request.folder, "/", file);
  if (paths.empty() && FileExists(alone, FileUse::kData)) {
    if (request.stated_length == 0) {
      return InvalidArgument(alone, " is in no folder named by its length: state it with the parameter rows_length");
    }
    paths.emplace(request.stated_length, alone);
  }
  if (paths.empty()) {
    return NotFound(request.folder, ": has no rows of ", task.name, ", as LENGTH/", file, " or LENGTH/data/", file);
  }
  auto files = std::unique_ptr<RowFiles>(new RowFiles());
  files->name_ = std::string(task.name);
  std::string digests;
  for (const auto& [length, path] : paths) {
    RETURN_IF_ERROR(files->Read(task, length, path, request.expected_rows));
    absl::StrAppend(&digests, length, " ", files->files_.at(length).file->sha256(), "\n");
  }
  files->sha256_ = Sha256Hex(digests);
  return files;
}

absl::Status RowFiles::Read(const RulerTaskInfo& task, int length, const std::string& path, int expected_rows) {
  LengthFile& read = files_[length];
  ASSIGN_OR_RETURN(read.file, JsonRowFile::Open(path));
  std::set<Sha256Digest> seen;
  RETURN_IF_ERROR(read.file->Scan([&](int64_t, absl::string_view text) -> absl::Status {
    const absl::StatusOr<RulerRow> row = ParseRow(text);
    RETURN_IF_ERROR(row.status());
    if (!seen.insert(Sha256(row->input)).second) ++read.repeat_count;
    if (row->length == 0) return absl::OkStatus();
    if (row->length * 10 < length * 9) ++read.short_count;
    read.shortest = read.shortest == 0 ? row->length : std::min(read.shortest, row->length);
    read.longest = std::max(read.longest, row->length);
    return absl::OkStatus();
  }));
  const int64_t count = std::ssize(read.file->places());
  if (count == 0 || (expected_rows > 0 && count != expected_rows)) {
    return InvalidArgument(path, ": has ", count, " ", Plural(count, "row", "rows"), " of ", task.name,
                           expected_rows > 0 ? absl::StrCat(", not ", expected_rows) : "",
                           "; upstream's prepare.py ends without an error where its script failed");
  }
  return absl::OkStatus();
}

std::vector<int> RowFiles::Lengths() const {
  std::vector<int> lengths;
  for (const auto& [length, file] : files_) lengths.push_back(length);
  return lengths;
}

int RowFiles::RowCount(int length) const {
  const auto found = files_.find(length);
  return found == files_.end() ? 0 : std::ssize(found->second.file->places());
}

absl::StatusOr<RulerRow> RowFiles::Row(int length, int index) const {
  const JsonRowFile& file = *files_.at(length).file;
  ASSIGN_OR_RETURN(const std::string text, file.ReadText(index));
  return Annotate(ParseRow(text), file.PlaceOf(index));
}

std::string RowFiles::Note() const {
  std::vector<std::string> parts;
  for (const auto& [length, read] : files_) {
    const int count = RowCount(length);
    if (read.short_count > 0) {
      parts.push_back(absl::StrCat(read.short_count, " of ", count, " rows at ", length, " are below 90 % of it (",
                                   read.shortest, " to ", read.longest, " tokens)"));
    }
    if (read.repeat_count > 0) {
      parts.push_back(absl::StrCat(read.repeat_count, " of ", count, " rows at ", length, " repeat another's prompt"));
    }
  }
  return parts.empty() ? "" : absl::StrCat(name_, ": ", absl::StrJoin(parts, "; "));
}

}  // namespace varifocal::ruler
