#include "server/model/tensor_prefix.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"

namespace varifocal {

absl::StatusOr<std::string> PrefixOf(const TensorNames& names, const ModelConfig& config, const WeightSource& source) {
  const auto& tensors = source.tensors();
  const Wrapper* wrapper = FindWrapper(config.wrapper);
  if (wrapper == nullptr) {
    const auto with_prefix = tensors.lower_bound(absl::string_view(names.prefix));
    const bool is_body =
        !tensors.empty() && (with_prefix == tensors.end() || !absl::StartsWith(with_prefix->first, names.prefix));
    return std::string(is_body ? "" : names.prefix);
  }
  std::vector<std::string> found, embeddings;
  for (const char* prefix : wrapper->prefixes) {
    if (prefix == nullptr) continue;
    embeddings.push_back(absl::StrCat(prefix, names.embedding, ".weight"));
    if (tensors.contains(embeddings.back())) found.push_back(prefix);
  }
  if (found.size() == 1) return found[0];
  return InvalidArgument("the text part of a ", config.wrapper, " has ", found.size(),
                         " embeddings: it must have one of ", absl::StrJoin(embeddings, ", "));
}

std::string LayerPrefix(const TensorNames& names, const std::string& prefix, int64_t layer) {
  return absl::StrCat(prefix, absl::StrReplaceAll(names.layer, {{"{}", absl::StrCat(layer)}}));
}

}  // namespace varifocal
