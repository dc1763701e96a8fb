// The table of weight formats, and the hash that names weights.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
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
std::string MemoryPath(const MappedFile& file, const std::string& cache_directory) {
  if (cache_directory.empty()) return "";
  std::string absolute = file.path();
  if (char* resolved = realpath(file.path().c_str(), nullptr)) {
    absolute = resolved;
    std::free(resolved);
  }
  const std::string key =
      Sha256Hex(absl::StrCat(absolute, "\n", file.inode(), "\n", file.bytes().size(), "\n", file.modified_ns()));
  return absl::StrCat(cache_directory, "/weights/", key);
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

// Hexadecimal digests of the file and of the tensors in it, which are sorted by place and do not overlap. A piece is
// fed to both while it is near, and given back: memory holds a few of them at a time.
std::vector<std::string> HashFile(const MappedFile& file, const std::vector<const TensorView*>& tensors) {
  constexpr size_t kPieceBytes = 64 << 10, kReleaseBytes = 16 << 20;
  const absl::string_view bytes = file.bytes();
  Sha256Stream whole;
  size_t at = 0, kept = 0;  // bytes before `kept` were given back
  const auto feed = [&](size_t end, Sha256Stream* tensor) {
    while (at < end) {
      const absl::string_view piece = bytes.substr(at, std::min(kPieceBytes, end - at));
      whole.Update(piece);
      if (tensor != nullptr) tensor->Update(piece);
      at += piece.size();
      if (at - kept < kReleaseBytes && at < bytes.size()) continue;
      file.Release(bytes.substr(kept, at - kept));
      kept = at;
    }
  };
  std::vector<std::string> digests = {""};
  for (const TensorView* tensor : tensors) {
    const size_t begin = tensor->bytes.data() - bytes.data();
    VF_CHECK(begin >= at);
    feed(begin, nullptr);
    Sha256Stream stream;
    feed(begin + tensor->bytes.size(), &stream);
    digests.push_back(ToHex(stream.Finish()));
  }
  feed(bytes.size(), nullptr);
  digests[0] = ToHex(whole.Finish());
  return digests;
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

WeightDigests HashWeights(const WeightSource& source, const std::string& cache_directory) {
  WeightDigests digests;
  std::string wholes;
  for (const auto& file : source.files()) {
    const absl::string_view bytes = file->bytes();
    std::vector<const TensorView*> inside;
    for (const auto& [name, tensor] : source.tensors()) {
      if (tensor.bytes.data() >= bytes.data() && tensor.bytes.data() < bytes.data() + bytes.size())
        inside.push_back(&tensor);
    }
    std::sort(inside.begin(), inside.end(), [](const TensorView* a, const TensorView* b) {
      return std::make_pair(a->bytes.data(), a->bytes.size()) < std::make_pair(b->bytes.data(), b->bytes.size());
    });
    const std::string path = MemoryPath(*file, cache_directory);
    std::vector<std::string> hex = Recall(path, 1 + inside.size());
    if (hex.empty()) {
      hex = HashFile(*file, inside);
      Remember(cache_directory, path, hex);
    }
    digests.whole = hex[0];
    absl::StrAppend(&wholes, hex[0], "\n");
    for (size_t i = 0; i < inside.size(); ++i) digests.tensors[inside[i]->name] = FromHex(hex[1 + i]);
  }
  if (source.files().size() != 1) digests.whole = Sha256Hex(wholes);
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
