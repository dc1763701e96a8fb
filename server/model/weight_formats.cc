// The table of weight formats, and the hash that names weights.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/model/safetensors.h"
#include "server/model/weight_source.h"

namespace varifocal {
namespace {

constexpr WeightFormat kFormats[] = {
    {"safetensors", "model.safetensors or model.safetensors.index.json", HasSafetensors, OpenSafetensors},
};

bool IsHexDigest(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isxdigit(c); });
}

// mkdir -p; failures show when the file is opened.
void MakeDirectories(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at == path.size() || path[at] == '/') mkdir(path.substr(0, at).c_str(), 0755);
  }
}

std::string HashFile(const MappedFile& file, const std::string& cache_directory) {
  std::string entry_path;
  if (!cache_directory.empty()) {
    std::string absolute = file.path();
    if (char* resolved = realpath(file.path().c_str(), nullptr)) {
      absolute = resolved;
      std::free(resolved);
    }
    const std::string key =
        Sha256Hex(absl::StrCat(absolute, "\n", file.inode(), "\n", file.bytes().size(), "\n", file.modified_ns()));
    entry_path = absl::StrCat(cache_directory, "/weights/", key);
    std::string hex;
    if (std::ifstream(entry_path) >> hex && IsHexDigest(hex)) return hex;
  }
  // Read once, in pieces that are given back: memory holds one of them at a time.
  constexpr size_t kPieceBytes = 16 << 20;
  Sha256Stream stream;
  for (size_t at = 0; at < file.bytes().size(); at += kPieceBytes) {
    const absl::string_view piece = file.bytes().substr(at, kPieceBytes);
    stream.Update(piece);
    file.Release(piece);
  }
  const std::string hex = ToHex(stream.Finish());
  if (!entry_path.empty()) {
    MakeDirectories(absl::StrCat(cache_directory, "/weights"));
    const std::string temporary = absl::StrCat(entry_path, ".", getpid());
    std::ofstream out(temporary);
    out << hex << "\n";
    out.close();
    // Renamed when whole, so that a reader never sees half a digest.
    if (!out || std::rename(temporary.c_str(), entry_path.c_str()) != 0) std::remove(temporary.c_str());
  }
  return hex;
}

}  // namespace

absl::Span<const WeightFormat> WeightFormats() { return kFormats; }

absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& directory) {
  std::string looked_for;
  for (const WeightFormat& format : kFormats) {
    if (format.present(directory)) return format.open(directory);
    absl::StrAppend(&looked_for, looked_for.empty() ? "" : ", ", format.file_names);
  }
  return absl::NotFoundError(absl::StrCat(directory, " has no weights: looked for ", looked_for));
}

std::string HashWeights(const WeightSource& source, const std::string& cache_directory) {
  if (source.files().size() == 1) return HashFile(*source.files()[0], cache_directory);
  std::string digests;
  for (const auto& file : source.files()) absl::StrAppend(&digests, HashFile(*file, cache_directory), "\n");
  return Sha256Hex(digests);
}

std::string DefaultCacheDirectory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/')
    return absl::StrCat(cache, "/varifocal");
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    return absl::StrCat(home, "/.cache/varifocal");
  return "";
}

}  // namespace varifocal
