#include "tokenizer/vocabulary.h"

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int64_t kIdMax = (1 << 24) - 1;  // far above any vocabulary; an id is an index into an array

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::FromJson(const Json& json) {
  if (!json.is_object()) return InvalidArgument("\"vocab\" must be an object, not ", json.type_name());
  if (json.empty()) return InvalidArgument("\"vocab\" has no entries");
  Vocabulary out;
  out.Reserve(json.size());
  for (const auto& [token, id] : json.get_ref<const Json::object_t&>()) {
    if (!id.is_number_integer()) {
      return InvalidArgument("the id of \"", token, "\" must be an integer, not ", id.type_name());
    }
    if (id.is_number_unsigned() && id.get<uint64_t>() > kIdMax) {
      return InvalidArgument("the id of \"", token, "\" is ", id.get<uint64_t>(), ", not between 0 and ", kIdMax);
    }
    RETURN_IF_ERROR(out.Add(token, id.get<int64_t>()));
  }
  return out;
}

void Vocabulary::Reserve(size_t count) {
  ids_.reserve(count);
  tokens_.reserve(count);
}

absl::Status Vocabulary::SetToken(absl::string_view token, int64_t id) {
  if (id < 0 || id > kIdMax) {
    return InvalidArgument("the id of \"", token, "\" is ", id, ", not between 0 and ", kIdMax);
  }
  if (static_cast<size_t>(id) >= tokens_.size()) {
    tokens_.resize(id + 1);
    present_.resize(id + 1);
  }
  if (present_[id]) {
    return InvalidArgument("the id ", id, " is given to both \"", tokens_[id], "\" and \"", token, "\"");
  }
  present_[id] = true;
  tokens_[id] = std::string(token);
  ++entry_count_;
  return absl::OkStatus();
}

absl::Status Vocabulary::Add(absl::string_view token, int64_t id) {
  RETURN_IF_ERROR(SetToken(token, id));
  if (!ids_.emplace(token, static_cast<int32_t>(id)).second) {
    return InvalidArgument("\"vocab\" holds \"", token, "\" twice");
  }
  return absl::OkStatus();
}

absl::Status Vocabulary::AddOrReplace(absl::string_view token, int64_t id) {
  RETURN_IF_ERROR(SetToken(token, id));
  ids_[token] = id;
  return absl::OkStatus();
}

std::optional<int32_t> Vocabulary::Find(absl::string_view token) const {
  auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::array<int32_t, 256>> Vocabulary::ByteTokens() const {
  std::array<int32_t, 256> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const auto id = Find(absl::StrFormat("<0x%02X>", byte));
    if (!id.has_value()) return std::nullopt;
    ids[byte] = *id;
  }
  return ids;
}

}  // namespace varifocal
