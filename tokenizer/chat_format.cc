#include "tokenizer/chat_format.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr char kFileName[] = "chat_format.json";
constexpr size_t kFileBytesMax = 1 << 20;

std::string Shown(const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); }

// The object under `key` must have exactly these texts.
absl::StatusOr<ChatFormat::Texts> ReadTexts(const Json& value, absl::string_view key,
                                            absl::Span<const absl::string_view> names) {
  if (!value.is_object() || value.size() != names.size() ||
      !std::all_of(names.begin(), names.end(), [&](absl::string_view name) {
        const auto it = value.find(std::string(name));
        return it != value.end() && it->is_string();
      })) {
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is ", Shown(value).substr(0, 200),
                                                   "; it must be an object of the texts ", absl::StrJoin(names, ", ")));
  }
  ChatFormat::Texts texts;
  for (absl::string_view name : names) {
    std::string& text = name == "prefix" ? texts.prefix : name == "between" ? texts.between : texts.suffix;
    text = value.at(std::string(name)).get<std::string>();
  }
  return texts;
}

}  // namespace

absl::StatusOr<std::string> ChatFormat::Wrap(absl::string_view user, const std::optional<std::string>& system) const {
  if (!system.has_value()) return absl::StrCat(without_system.prefix, user, without_system.suffix);
  if (!with_system.has_value()) {
    return absl::FailedPreconditionError("this model's chat template takes no system message");
  }
  return absl::StrCat(with_system->prefix, *system, with_system->between, user, with_system->suffix);
}

absl::StatusOr<ChatFormat> ParseChatFormat(absl::string_view json_text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(json_text));
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("the file holds ", json.type_name(), ", not an object"));
  }
  for (const auto& [key, value] : json.items()) {
    if (key != "template_sha256" && key != "without_system" && key != "with_system") {
      return absl::InvalidArgumentError(absl::StrCat("unknown key \"", key, "\" with value ",
                                                     Shown(value).substr(0, 200)));
    }
  }
  ChatFormat format;
  ASSIGN_OR_RETURN(format.template_sha256, GetString(json, "template_sha256"));
  const bool is_digest = format.template_sha256.size() == 64 &&
                         std::all_of(format.template_sha256.begin(), format.template_sha256.end(), [](char c) {
                           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
                         });
  if (!is_digest) {
    return absl::InvalidArgumentError(absl::StrCat("\"template_sha256\" is \"", format.template_sha256.substr(0, 200),
                                                   "\"; it must be 64 lower-case hexadecimal digits"));
  }
  const auto without = json.find("without_system");
  if (without == json.end()) return absl::InvalidArgumentError("\"without_system\" is missing");
  ASSIGN_OR_RETURN(format.without_system, ReadTexts(*without, "without_system", {"prefix", "suffix"}));
  if (const auto with = json.find("with_system"); with != json.end() && !with->is_null()) {
    ASSIGN_OR_RETURN(format.with_system, ReadTexts(*with, "with_system", {"prefix", "between", "suffix"}));
  }
  return format;
}

absl::StatusOr<std::shared_ptr<const ChatFormat>> ReadChatFormat(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kFileName);
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::shared_ptr<const ChatFormat>();
  std::ostringstream bytes;
  bytes << file.rdbuf();
  const std::string text = std::move(bytes).str();
  if (text.size() > kFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", text.size(), " bytes; the limit is ", kFileBytesMax));
  }
  absl::StatusOr<ChatFormat> format = ParseChatFormat(text);
  if (!format.ok()) return Annotate(format.status(), path);
  return std::make_shared<const ChatFormat>(*std::move(format));
}

absl::Status CheckHasChatFormat(const ChatFormat* format, absl::string_view model) {
  if (format != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("model \"", model, "\" has no ", kFileName,
                                                    ", which a chat prompt needs; `recipes/chat_format.py DIRECTORY` "
                                                    "makes it from the model's chat template"));
}

absl::StatusOr<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, absl::string_view wrapped,
                                                int64_t* invalid_utf8_count) {
  return tokenizer.Encode(wrapped, {.add_special_tokens = false, .invalid_utf8_count = invalid_utf8_count});
}

}  // namespace varifocal
