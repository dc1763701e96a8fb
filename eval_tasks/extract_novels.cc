// varifocal_novels RDB DIR: writes the six novels of eval_tasks/novels.h from an R data file into DIR, digests checked.
// deploy/get_novels.sh calls it.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/novels.h"
#include "eval_tasks/r_text.h"

namespace varifocal {
namespace {

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  const bool written = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed) return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  return absl::OkStatus();
}

absl::Status Extract(const std::string& rdb_path, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string rdb, ReadFile(rdb_path, kDataFile));
  absl::StatusOr<std::vector<std::string>> texts = ReadTextVectors(rdb);
  if (!texts.ok()) return absl::Status(texts.status().code(), absl::StrCat(rdb_path, ": ", texts.status().message()));
  for (const NovelFile& file : NovelFiles()) {
    const std::string* found = nullptr;
    for (const std::string& text : *texts) {
      if (Sha256Hex(text) == file.sha256) found = &text;
    }
    if (found == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(rdb_path, ": none of its ", texts->size(),
                                                        " texts has the SHA-256 of ", file.title, ", ", file.sha256));
    }
    RETURN_IF_ERROR(WriteFile(absl::StrCat(directory, "/", file.file_name), *found));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: varifocal_novels RDB DIR\n";
    return 2;
  }
  const absl::Status extracted = varifocal::Extract(argv[1], argv[2]);
  if (extracted.ok()) return 0;
  std::cerr << "varifocal_novels: " << extracted.message() << "\n";
  return 1;
}
