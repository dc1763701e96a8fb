#include "server/model/weight_file.h"

#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<WeightFile>> WeightFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<InputFile> input, InputFile::Open(path, FileUse::kModel));
  auto file = std::unique_ptr<WeightFile>(new WeightFile(std::move(input)));
  if (file->input_->size() > 0 && file->range_.is_empty()) return FileError(path, "reserve memory for", errno);
  return file;
}

absl::Status WeightFile::Load(absl::string_view part) const {
  VF_CHECK(Holds(part), "a part of the file is loaded");
  if (part.empty()) return absl::OkStatus();
  char* to = range_.Commit(part);
  if (to == nullptr) return FileError(path(), "get memory for", errno);
  return input_->ReadAt(to - range_.bytes().data(), part.size(), to);
}

}  // namespace varifocal
