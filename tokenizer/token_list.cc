#include "tokenizer/token_list.h"

#include "base/status_macros.h"
#include "tokenizer/component.h"

namespace varifocal {

const Json& MemberOf(const Json& object, absl::string_view key) {
  static const Json& null = *new Json;
  if (!object.is_object()) return null;
  const auto found = object.find(std::string(key));
  return found == object.end() ? null : *found;
}

std::string StringOf(const Json& object, absl::string_view key) {
  if (!object.is_object()) return "";
  const auto found = object.find(std::string(key));
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

absl::StatusOr<FlaggedToken> ReadFlaggedToken(const Json& json, const std::string& place, bool is_special) {
  RETURN_IF_ERROR(
      CheckKeys(json, place, {"content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type", "id"}));
  const auto read = [&]() -> absl::StatusOr<FlaggedToken> {
    FlaggedToken token;
    ASSIGN_OR_RETURN(token.content, GetString(json, "content"));
    const auto flag = [&](const char* key, bool missing, bool& out) -> absl::Status {
      ASSIGN_OR_RETURN(const std::optional<bool> value, FindBool(json, key));
      out = value.value_or(missing);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(flag("special", false, token.special));
    token.special = token.special || is_special;
    RETURN_IF_ERROR(flag("single_word", false, token.single_word));
    RETURN_IF_ERROR(flag("lstrip", false, token.lstrip));
    RETURN_IF_ERROR(flag("rstrip", false, token.rstrip));
    RETURN_IF_ERROR(flag("normalized", !token.special, token.normalized));
    return token;
  };
  return Annotate(read(), place);
}

absl::StatusOr<SpecialToken> ReadSpecialToken(const Json& json, const std::string& place, bool any_object) {
  if (json.is_string()) return SpecialToken{PlainSpecial(json.get<std::string>()), true};
  if (json.is_object() && (any_object || StringOf(json, "__type") == "AddedToken")) {
    ASSIGN_OR_RETURN(FlaggedToken token, ReadFlaggedToken(json, place, any_object));
    return SpecialToken{std::move(token), false};
  }
  return InvalidArgument(place, " is ", json.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60),
                         "; it must be a string or an object with \"__type\": \"AddedToken\"");
}

}  // namespace varifocal
