// Shared by all components of a tokenizer.json: strict reading of their JSON, with the position in every message.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "tokenizer/regex.h"

namespace varifocal {

// INVALID_ARGUMENT when `object` is not an object, or has a key that is not in `known` ("type" always is).
absl::Status CheckKeys(const Json& object, absl::string_view place, std::initializer_list<absl::string_view> known);

// object[key], or INVALID_ARGUMENT naming the key.
absl::StatusOr<const Json*> GetMember(const Json& object, absl::string_view key);

// object["type"], e.g. "ByteLevel", as a view into the object.
absl::StatusOr<absl::string_view> GetComponentType(const Json& object, absl::string_view place);

// {"Regex": ".."} or {"String": ".."}.
struct TextPattern {
  bool is_regex = false;
  std::string text;
};
absl::StatusOr<TextPattern> GetPattern(const Json& object, absl::string_view key);
absl::StatusOr<std::shared_ptr<const Regex>> CompilePattern(const TextPattern& pattern);

// "normalizer: the type "BertNormalizer" is not supported; supported are NFC, NFD".
absl::Status UnsupportedType(absl::string_view place, absl::string_view type, absl::string_view supported);

}  // namespace varifocal
