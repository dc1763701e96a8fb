#include "server/model/safetensors.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

// A name from a file, made printable and short for error messages.
std::string Quoted(absl::string_view name) {
  std::string text = absl::CHexEscape(name.substr(0, 80));
  return absl::StrCat("\"", text, name.size() > 80 ? "..\"" : "\"");
}

absl::StatusOr<int64_t> NonNegative(const Json& value, absl::string_view what) {
  if (!value.is_number_integer()) return InvalidArgument(what, " is not an integer but ", value.type_name());
  if (value.is_number_unsigned() ? value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
                                 : value.get<int64_t>() < 0) {
    return InvalidArgument(what, " is ", value.dump(), "; it must lie in 0..2^63-1");
  }
  return value.get<int64_t>();
}

struct StoredType {
  absl::string_view name;
  int64_t bytes;
  std::optional<kernels::DType> ours;
};
// The format's types of whole bytes. Unsupported ones may be present (masks of old exports) but not used.
constexpr StoredType kTypes[] = {
    {"F32", 4, kernels::DType::kF32}, {"F16", 2, kernels::DType::kF16}, {"BF16", 2, kernels::DType::kBF16},
    {"BOOL", 1, std::nullopt},        {"U8", 1, std::nullopt},          {"I8", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt},     {"F8_E4M3", 1, std::nullopt},     {"F8_E8M0", 1, std::nullopt},
    {"I16", 2, std::nullopt},         {"U16", 2, std::nullopt},         {"I32", 4, std::nullopt},
    {"U32", 4, std::nullopt},         {"F64", 8, std::nullopt},         {"I64", 8, std::nullopt},
    {"U64", 8, std::nullopt},
};

absl::StatusOr<const StoredType*> FindType(const Json& dtype, const std::string& who) {
  for (const StoredType& type : kTypes) {
    if (dtype == type.name.data()) return &type;
  }
  return InvalidArgument(who, " has dtype ", Quoted(dtype.is_string() ? dtype.get<std::string>() : dtype.type_name()),
                         "; F32, F16 and BF16 are supported");
}

absl::StatusOr<TensorView> ReadTensor(const std::string& name, const Json& entry, absl::string_view data,
                                      int64_t* begin) {
  const std::string who = absl::StrCat("tensor ", Quoted(name));
  if (!entry.is_object()) return InvalidArgument(who, " is described by ", entry.type_name(), ", not by an object");
  for (const auto& [key, value] : entry.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return InvalidArgument(who, " has the unknown key ", Quoted(key));
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) return InvalidArgument(who, " has no ", key);
  }
  TensorView tensor;
  tensor.name = name;
  ASSIGN_OR_RETURN(const StoredType* type, FindType(entry["dtype"], who));
  if (type->ours.has_value()) {
    tensor.type = *type->ours;
  } else {
    tensor.other_type = std::string(type->name);
  }
  const Json& shape = entry["shape"];
  if (!shape.is_array()) return InvalidArgument(who, " has a shape that is not a list but ", shape.type_name());
  if (shape.size() > 8) return InvalidArgument(who, " has ", shape.size(), " axes; the limit is 8");
  int64_t byte_count = type->bytes;
  for (const Json& extent : shape) {
    ASSIGN_OR_RETURN(const int64_t value, NonNegative(extent, absl::StrCat(who, ": an extent of its shape")));
    tensor.shape.push_back(value);
    if (__builtin_mul_overflow(byte_count, value, &byte_count))
      return InvalidArgument(who, " has a shape whose size overflows 2^63 bytes");
  }
  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) return InvalidArgument(who, " has data_offsets that are not a pair");
  ASSIGN_OR_RETURN(*begin, NonNegative(offsets[0], absl::StrCat(who, ": data_offsets[0]")));
  ASSIGN_OR_RETURN(const int64_t end, NonNegative(offsets[1], absl::StrCat(who, ": data_offsets[1]")));
  if (end < *begin) return InvalidArgument(who, " ends at byte ", end, " before it begins at ", *begin);
  if (end > std::ssize(data))
    return InvalidArgument(who, " ends at byte ", end, "; the file has ", data.size(), " bytes of data");
  if (end - *begin != byte_count) {
    return InvalidArgument(who, " has ", end - *begin, " bytes; its shape ", ShapeToString(tensor.shape), " of ",
                           type->name, " needs ", byte_count);
  }
  tensor.bytes = data.substr(*begin, byte_count);
  return tensor;
}

// Of a file of at least eight bytes.
uint64_t HeaderBytes(absl::string_view file) {
  uint64_t header_bytes = 0;
  for (size_t i = 8; i-- > 0;) header_bytes = header_bytes << 8 | static_cast<uint8_t>(file[i]);
  return header_bytes;
}

// Null counts as absent, as in the reference implementation.
absl::Status CheckMetadata(const Json& metadata) {
  if (metadata.is_null()) return absl::OkStatus();
  if (!metadata.is_object()) return InvalidArgument("__metadata__ is not an object but ", metadata.type_name());
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string())
      return InvalidArgument("__metadata__ entry ", Quoted(key), " is not a string but ", value.type_name());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TensorView>> ParseSafetensors(absl::string_view file) {
  if (file.size() < 8)
    return InvalidArgument("the file has ", file.size(), " bytes; a safetensors file has at least 8");
  const uint64_t header_bytes = HeaderBytes(file);
  if (header_bytes > kSafetensorsHeaderBytesMax)
    return InvalidArgument("the header length is above the limit of ", kSafetensorsHeaderBytesMax, " bytes");
  if (header_bytes > file.size() - 8)
    return InvalidArgument("the header is longer than the ", file.size() - 8, " bytes after its length");
  const absl::string_view header = file.substr(8, header_bytes);
  const absl::string_view data = file.substr(8 + header_bytes);
  if (header.empty() || header[0] != '{') return InvalidArgument("the header does not start with {");
  ASSIGN_OR_RETURN(Json json, Annotate(ParseJson(header), "the header"));
  if (!json.is_object()) return InvalidArgument("the header is not an object");

  std::vector<std::pair<int64_t, TensorView>> found;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      RETURN_IF_ERROR(CheckMetadata(entry));
      continue;
    }
    int64_t begin = 0;
    ASSIGN_OR_RETURN(TensorView tensor, ReadTensor(name, entry, data, &begin));
    found.emplace_back(begin, std::move(tensor));
  }
  // Empty tensors sort before the one that begins at the same byte.
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second.bytes.size()) < std::pair(b.first, b.second.bytes.size());
  });
  int64_t covered = 0;
  std::vector<TensorView> tensors;
  for (auto& [begin, tensor] : found) {
    if (begin != covered) {
      return InvalidArgument("tensor ", Quoted(tensor.name), " begins at byte ", begin, "; the one before it ends at ",
                             covered, begin < covered ? " (overlap)" : " (gap)");
    }
    covered += std::ssize(tensor.bytes);
    tensors.push_back(std::move(tensor));
  }
  if (covered != std::ssize(data))
    return InvalidArgument("the tensors cover ", covered, " bytes; the file has ", data.size(), " bytes of data");
  return tensors;
}

bool HasSafetensors(const std::string& directory) {
  return FileExists(absl::StrCat(directory, "/", kSingleFile), FileUse::kModel) ||
         FileExists(absl::StrCat(directory, "/", kIndexFile), FileUse::kModel);
}

namespace {

// File name -> names of its tensors, from the index.
absl::StatusOr<std::map<std::string, std::set<std::string>>> ReadIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kWeightIndexFile));
  ASSIGN_OR_RETURN(Json json, Annotate(ParseJson(text), path));
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return InvalidArgument(path, ": there is no object weight_map");
  std::map<std::string, std::set<std::string>> shards;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string()) return InvalidArgument(path, ": weight_map entry ", Quoted(tensor), " is not a string");
    const std::string name = file.get<std::string>();
    if (name.find('/') != std::string::npos || !absl::EndsWith(name, ".safetensors") ||
        name.find('\0') != std::string::npos) {
      return InvalidArgument(path, ": weight_map names the file ", Quoted(name),
                             "; shards are *.safetensors files in the directory of the index");
    }
    shards[name].insert(tensor);
  }
  if (shards.empty()) return InvalidArgument(path, ": weight_map is empty");
  return shards;
}

// Reads the bytes used by ParseSafetensors: the length, and the header if the length is valid.
absl::Status LoadHeader(const WeightFile& file) {
  const absl::string_view bytes = file.bytes();
  if (bytes.size() < 8) return absl::OkStatus();
  RETURN_IF_ERROR(file.Load(bytes.substr(0, 8)));
  const uint64_t header_bytes = HeaderBytes(bytes);
  if (header_bytes > kSafetensorsHeaderBytesMax || header_bytes > bytes.size() - 8) return absl::OkStatus();
  return file.Load(bytes.substr(8, header_bytes));
}

// Opens the shards: file name -> names of its tensors by the index, where there is one.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenShards(const std::string& directory,
                                                         const std::map<std::string, std::set<std::string>>& shards,
                                                         bool sharded) {
  std::map<std::string, TensorView, std::less<>> tensors;
  std::vector<std::unique_ptr<WeightFile>> files;
  for (const auto& [file_name, expected] : shards) {
    const std::string path = absl::StrCat(directory, "/", file_name);
    ASSIGN_OR_RETURN(std::unique_ptr<WeightFile> file, WeightFile::Open(path));
    RETURN_IF_ERROR(LoadHeader(*file));
    ASSIGN_OR_RETURN(std::vector<TensorView> views, Annotate(ParseSafetensors(file->bytes()), path));
    size_t matched = 0;
    for (TensorView& view : views) {
      if (sharded && !expected.contains(view.name))
        return InvalidArgument(path, ": tensor ", Quoted(view.name), " is not in the index for this file");
      ++matched;
      const std::string name = view.name;
      if (!tensors.emplace(name, std::move(view)).second)
        return InvalidArgument(path, ": tensor ", Quoted(name), " is in two shards");
    }
    if (sharded && matched != expected.size()) {
      for (const std::string& name : expected) {
        if (!tensors.contains(name))
          return InvalidArgument(path, ": tensor ", Quoted(name), " of the index is missing");
      }
    }
    files.push_back(std::move(file));
  }
  return std::make_unique<WeightSource>(std::move(tensors), std::move(files));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenSafetensorsFile(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == path.npos ? "." : path.substr(0, slash);
  return OpenShards(directory, {{path.substr(slash == path.npos ? 0 : slash + 1), {}}}, false);
}

absl::StatusOr<std::unique_ptr<WeightSource>> OpenSafetensors(const std::string& directory) {
  const std::string index_path = absl::StrCat(directory, "/", kIndexFile);
  const bool sharded = !FileExists(absl::StrCat(directory, "/", kSingleFile), FileUse::kModel);
  std::map<std::string, std::set<std::string>> shards;
  if (sharded) {
    ASSIGN_OR_RETURN(shards, ReadIndex(index_path));
  } else {
    shards[kSingleFile];
  }
  return OpenShards(directory, shards, sharded);
}

}  // namespace varifocal
