// The table of weight formats, and the hash that names weights.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/model/safetensors.h"
#include "server/model/weight_source.h"

namespace varifocal {
namespace {

constexpr WeightFormat kFormats[] = {
    {"safetensors", "model.safetensors or model.safetensors.index.json", HasSafetensors, OpenSafetensors},
};

// mkdir -p; failures show when the file is opened.
void MakeDirectories(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at == path.size() || path[at] == '/') mkdir(path.substr(0, at).c_str(), 0755);
  }
}

// What is remembered about a file as it is now stands here; "" when nothing is.
std::string MemoryPath(const MappedFile& file, const std::string& cache_directory, absl::string_view what) {
  if (cache_directory.empty()) return "";
  std::string absolute = file.path();
  if (char* resolved = realpath(file.path().c_str(), nullptr)) {
    absolute = resolved;
    std::free(resolved);
  }
  const std::string key =
      Sha256Hex(absl::StrCat(absolute, "\n", file.inode(), "\n", file.bytes().size(), "\n", file.modified_ns()));
  return absl::StrCat(cache_directory, "/weights/", key, what);
}

// Exactly `count` digests, or none.
std::vector<std::string> Recall(const std::string& path, size_t count) {
  std::vector<std::string> digests;
  std::ifstream in(path);
  for (std::string hex; in >> hex;) {
    if (!IsSha256Hex(hex)) return {};
    digests.push_back(hex);
  }
  if (digests.size() != count) digests.clear();
  return digests;
}

void Remember(const std::string& cache_directory, const std::string& path, const std::vector<std::string>& digests) {
  if (path.empty()) return;
  MakeDirectories(absl::StrCat(cache_directory, "/weights"));
  const std::string temporary = absl::StrCat(path, ".", getpid());
  std::ofstream out(temporary);
  for (const std::string& hex : digests) out << hex << "\n";
  out.close();
  // Renamed when whole, so that a reader never sees half of it.
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
}

// Read once, in pieces that are given back: memory holds one of them at a time.
Sha256Digest HashPart(const MappedFile& file, absl::string_view part) {
  constexpr size_t kPieceBytes = 16 << 20;
  Sha256Stream stream;
  for (size_t at = 0; at < part.size(); at += kPieceBytes) {
    const absl::string_view piece = part.substr(at, kPieceBytes);
    stream.Update(piece);
    file.Release(piece);
  }
  return stream.Finish();
}

std::string HashFile(const MappedFile& file, const std::string& cache_directory) {
  const std::string path = MemoryPath(file, cache_directory, "");
  if (const std::vector<std::string> known = Recall(path, 1); !known.empty()) return known[0];
  const std::string hex = ToHex(HashPart(file, file.bytes()));
  Remember(cache_directory, path, {hex});
  return hex;
}

Sha256Digest FromHex(const std::string& hex) {
  const std::string bytes = absl::HexStringToBytes(hex);
  Sha256Digest digest;
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
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

TensorDigests HashTensors(const WeightSource& source, const std::string& cache_directory) {
  TensorDigests digests;
  for (const auto& file : source.files()) {
    std::vector<const TensorView*> inside;  // in the order of their names
    for (const auto& [name, tensor] : source.tensors()) {
      const char* begin = file->bytes().data();
      if (tensor.bytes.data() >= begin && tensor.bytes.data() < begin + file->bytes().size()) inside.push_back(&tensor);
    }
    const std::string path = MemoryPath(*file, cache_directory, ".tensors");
    std::vector<std::string> hex = Recall(path, inside.size());
    const bool is_known = !hex.empty();
    for (size_t i = 0; i < inside.size(); ++i) {
      if (!is_known) hex.push_back(ToHex(HashPart(*file, inside[i]->bytes)));
      digests[inside[i]->name] = FromHex(hex[i]);
    }
    if (!is_known) Remember(cache_directory, path, hex);
  }
  return digests;
}

std::string DefaultCacheDirectory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/')
    return absl::StrCat(cache, "/varifocal");
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    return absl::StrCat(home, "/.cache/varifocal");
  return "";
}

}  // namespace varifocal
