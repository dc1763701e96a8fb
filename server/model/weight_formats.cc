// The table of weight formats, and the hash that identifies weights.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/check.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "server/model/safetensors.h"
#include "server/model/weight_source.h"

namespace varifocal {
namespace {

struct WeightFormat {
  const char* name;
  const char* file_names;  // expected files, for the error message
  bool (*present)(const std::string& directory);
  absl::StatusOr<std::unique_ptr<WeightSource>> (*open)(const std::string& directory);
};

constexpr WeightFormat kFormats[] = {
    {"safetensors", "model.safetensors or model.safetensors.index.json", HasSafetensors, OpenSafetensors},
};

// mkdir -p; errors are detected when the file is opened.
void MakeDirectories(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at == path.size() || path[at] == '/') mkdir(path.substr(0, at).c_str(), 0755);
  }
}

// The cache entry of a file in its current state; "" without a cache.
std::string MemoryPath(const WeightFile& file, const std::string& cache_directory) {
  if (cache_directory.empty()) return "";
  std::string absolute = file.path();
  if (char* resolved = realpath(file.path().c_str(), nullptr)) {
    absolute = resolved;
    std::free(resolved);
  }
  const FileIdentity& is = file.input().identity();
  const std::string key = Sha256Hex(absl::StrCat(absolute, "\n", is.device, "\n", is.inode, "\n", is.size, "\n",
                                                 is.modified_ns, "\n", is.changed_ns));
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
  // Written to a temporary file and renamed, so that readers never see a partial entry.
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
}

// Hexadecimal digests of the file and of the tensors in it, which are sorted by offset and disjoint. A block is hashed
// for both while it is in the CPU cache.
absl::StatusOr<std::vector<std::string>> HashFile(const WeightFile& file,
                                                  const std::vector<const TensorView*>& tensors) {
  constexpr size_t kPieceBytes = 256 << 10;
  const absl::string_view bytes = file.bytes();
  std::vector<char> buffer(kPieceBytes);
  Sha256Stream whole;
  size_t at = 0;
  const auto feed = [&](size_t end, Sha256Stream* tensor) -> absl::Status {
    while (at < end) {
      const size_t size = std::min(kPieceBytes, end - at);
      RETURN_IF_ERROR(file.input().ReadAt(at, size, buffer.data()));
      const absl::string_view piece(buffer.data(), size);
      whole.Update(piece);
      if (tensor != nullptr) tensor->Update(piece);
      at += size;
    }
    return absl::OkStatus();
  };
  std::vector<std::string> digests = {""};
  for (const TensorView* tensor : tensors) {
    const size_t begin = tensor->bytes.data() - bytes.data();
    VF_CHECK(begin >= at);
    RETURN_IF_ERROR(feed(begin, nullptr));
    Sha256Stream stream;
    RETURN_IF_ERROR(feed(begin + tensor->bytes.size(), &stream));
    digests.push_back(ToHex(stream.Finish()));
  }
  RETURN_IF_ERROR(feed(bytes.size(), nullptr));
  digests[0] = ToHex(whole.Finish());
  RETURN_IF_ERROR(file.input().CheckUnchanged());
  return digests;
}

// Whether any later change gives the file another ctime, even on file systems with coarse timestamps.
bool IsSettled(const FileIdentity& is, const Clock& clock) {
  constexpr int64_t kCoarsestMicros = 2'000'000;
  return std::max(is.changed_ns, is.modified_ns) / 1000 + kCoarsestMicros <= clock.WallMicros();
}

Sha256Digest FromHex(const std::string& hex) {
  const std::string bytes = absl::HexStringToBytes(hex);
  Sha256Digest digest;
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& directory) {
  std::string looked_for;
  for (const WeightFormat& format : kFormats) {
    if (format.present(directory)) return format.open(directory);
    absl::StrAppend(&looked_for, looked_for.empty() ? "" : ", ", format.file_names);
  }
  // PyTorch's own files run code when they are read.
  const bool has_pickle = FileExists(absl::StrCat(directory, "/pytorch_model.bin"), FileUse::kModel) ||
                          FileExists(absl::StrCat(directory, "/pytorch_model.bin.index.json"), FileUse::kModel);
  return NotFound(
      directory, " has no weights: looked for ", looked_for,
      has_pickle ? "; it has pytorch_model.bin: save it again with transformers, which writes safetensors" : "");
}

absl::StatusOr<WeightDigests> HashWeights(const WeightSource& source, const std::string& cache_directory,
                                          const Clock& clock) {
  WeightDigests digests;
  std::string wholes;
  for (const auto& file : source.files()) {
    std::vector<const TensorView*> inside;
    for (const auto& [name, tensor] : source.tensors()) {
      if (file->Holds(tensor.bytes)) inside.push_back(&tensor);
    }
    std::sort(inside.begin(), inside.end(), [](const TensorView* a, const TensorView* b) {
      return std::make_pair(a->bytes.data(), a->bytes.size()) < std::make_pair(b->bytes.data(), b->bytes.size());
    });
    const std::string path = MemoryPath(*file, cache_directory);
    std::vector<std::string> hex = Recall(path, 1 + inside.size());
    if (hex.empty()) {
      const bool is_settled = IsSettled(file->input().identity(), clock);
      ASSIGN_OR_RETURN(hex, HashFile(*file, inside));
      if (is_settled) Remember(cache_directory, path, hex);
    }
    digests.whole = hex[0];
    absl::StrAppend(&wholes, hex[0], "\n");
    for (size_t i = 0; i < inside.size(); ++i) digests.tensors[inside[i]->name] = FromHex(hex[1 + i]);
  }
  if (source.files().size() != 1) digests.whole = Sha256Hex(wholes);
  return digests;
}

void ForgetHashes(const WeightSource& source, const std::string& cache_directory) {
  for (const auto& file : source.files()) {
    if (const std::string path = MemoryPath(*file, cache_directory); !path.empty()) std::remove(path.c_str());
  }
}

std::string DefaultCacheDirectory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/')
    return absl::StrCat(cache, "/varifocal");
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    return absl::StrCat(home, "/.cache/varifocal");
  return "";
}

}  // namespace varifocal
