#include "tokenizer/chat_format.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

constexpr char kFileName[] = "chat_format.json";

std::string Shown(const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); }

struct TrimName {
  absl::string_view name;
  ChatFormat::Trim trim;
};
constexpr TrimName kTrimNames[] = {{"both", {true, true}}, {"start", {true, false}}, {"end", {false, true}}};

bool SetTrim(const Json& value, ChatFormat::Trim& trim) {
  const auto* named = std::find_if(std::begin(kTrimNames), std::end(kTrimNames), [&](const TrimName& known) {
    return value.is_string() && value.get_ref<const std::string&>() == known.name;
  });
  if (named == std::end(kTrimNames)) return false;
  trim = named->trim;
  return true;
}

bool SetStrings(const Json& value, std::vector<std::string>& strings) {
  if (!value.is_array()) return false;
  for (const Json& item : value) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) return false;
    strings.push_back(item.get<std::string>());
  }
  return true;
}

// The object under `key` must have these texts, and may have the options for messages.
absl::StatusOr<ChatFormat::Texts> ReadTexts(const Json& value, absl::string_view key,
                                            absl::Span<const absl::string_view> names) {
  ChatFormat::Texts texts;
  const bool system = names.size() == 3;
  size_t text_count = 0;
  bool good = value.is_object();
  if (good) {
    for (const auto& [name, item] : value.items()) {
      if (std::find(names.begin(), names.end(), name) != names.end()) {
        good = good && item.is_string();
        if (!good) break;
        std::string& text = name == "prefix" ? texts.prefix : name == "between" ? texts.between : texts.suffix;
        text = item.get<std::string>();
        ++text_count;
      } else if (name == "trim_user") {
        good = good && SetTrim(item, texts.trim_user);
      } else if (system && name == "trim_system") {
        good = good && SetTrim(item, texts.trim_system);
      } else if (system && name == "refuses_in_system") {
        good = good && SetStrings(item, texts.refuses_in_system);
      } else {
        good = good && system && name == "omits_empty_system" && item.is_boolean();
        if (good) texts.omits_empty_system = item.get<bool>();
      }
    }
  }
  if (!good || text_count != names.size()) {
    return InvalidArgument(
        "\"", key, "\" is ", Shown(value).substr(0, 200), "; it must be an object of the texts ",
        absl::StrJoin(names, ", "), ", and may have trim_user",
        system ? ", trim_system (\"start\", \"end\" or \"both\"), omits_empty_system (true or false) and "
                 "refuses_in_system (a list of texts)"
               : " (\"start\", \"end\" or \"both\")");
  }
  return texts;
}

absl::Status ReadSides(const Json& object, absl::string_view place, ChatFormat::Texts& without_system,
                       std::optional<ChatFormat::Texts>& with_system) {
  const auto without = object.find("without_system");
  if (without == object.end()) return InvalidArgument("\"", place, "without_system\" is missing");
  ASSIGN_OR_RETURN(without_system, ReadTexts(*without, absl::StrCat(place, "without_system"), {"prefix", "suffix"}));
  const auto with = object.find("with_system");
  if (with == object.end() || with->is_null()) return absl::OkStatus();
  ASSIGN_OR_RETURN(with_system, ReadTexts(*with, absl::StrCat(place, "with_system"), {"prefix", "between", "suffix"}));
  return absl::OkStatus();
}

// The object under `key` has these keys and no others.
absl::Status CheckHasKeys(const Json& value, absl::string_view key, absl::Span<const absl::string_view> names) {
  bool good = value.is_object() && value.size() == names.size();
  for (const absl::string_view name : names) good = good && value.contains(name);
  if (good) return absl::OkStatus();
  return InvalidArgument("\"", key, "\" is ", Shown(value).substr(0, 200), "; it must be an object of ",
                         absl::StrJoin(names, ", "));
}

absl::StatusOr<ThinkingMarkers> ReadMarkers(const Json& value) {
  RETURN_IF_ERROR(CheckHasKeys(value, "thinking", {"begin", "end"}));
  ThinkingMarkers markers;
  ASSIGN_OR_RETURN(markers.begin, GetString(value, "begin"));
  ASSIGN_OR_RETURN(markers.end, GetString(value, "end"));
  RETURN_IF_ERROR(CheckThinkingMarkers(markers));
  return markers;
}

absl::StatusOr<ChatFormat::Switch> ReadSwitch(const Json& value) {
  RETURN_IF_ERROR(CheckHasKeys(value, "thinking_switch", {"variable", "on", "off"}));
  ChatFormat::Switch read;
  ASSIGN_OR_RETURN(read.variable, GetString(value, "variable"));
  for (const auto& [name, side] : {std::pair("on", &read.on), std::pair("off", &read.off)}) {
    const std::string place = absl::StrCat("thinking_switch.", name);
    RETURN_IF_ERROR(CheckHasKeys(value[name], place, {"without_system", "with_system"}));
    RETURN_IF_ERROR(ReadSides(value[name], absl::StrCat(place, "."), side->without_system, side->with_system));
  }
  return read;
}

// White space in Python: the four information separators, which are not White_Space in Unicode, and White_Space.
bool IsSpace(uint32_t point) { return (point >= 0x1C && point <= 0x1F) || (UnicodeClasses()[point] & kSpace) != 0; }

absl::string_view Trimmed(absl::string_view text, const ChatFormat::Trim& trim) {
  uint32_t point = 0;
  while (trim.start) {
    const int size = ReadUtf8(text, &point);
    if (size == 0 || !IsSpace(point)) break;
    text.remove_prefix(size);
  }
  while (trim.end && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
    const int size = ReadUtf8(text.substr(begin), &point);
    if (begin + size != text.size() || !IsSpace(point)) break;
    text = text.substr(0, begin);
  }
  return text;
}

constexpr char kSystemRole[] = "system";

absl::Status CheckHoldsNone(absl::string_view message, const std::vector<std::string>& refused, const char* what) {
  for (const std::string& text : refused) {
    if (!absl::StrContains(message, text)) continue;
    return InvalidArgument(what, " has \"", text,
                           "\", on which this model's chat template switches; chat_format.json has no texts for that");
  }
  return absl::OkStatus();
}

// Appends what is before the first user message; the texts that are used.
absl::StatusOr<const ChatFormat::Texts*> OpenChat(const ChatFormat& format, const std::optional<std::string>& system,
                                                  ChatText& wrapped) {
  if (system.has_value()) {
    if (!format.with_system.has_value()) {
      return FailedPrecondition("this model's chat template takes no system message");
    }
    const ChatFormat::Texts& texts = *format.with_system;
    RETURN_IF_ERROR(CheckHoldsNone(*system, texts.refuses_in_system, "the system message"));
    const absl::string_view text = Trimmed(*system, texts.trim_system);
    if (!text.empty() || !texts.omits_empty_system) {
      wrapped.AppendOwn(texts.prefix);
      wrapped.AppendPlain(text);
      wrapped.AppendOwn(texts.between);
      return &texts;
    }
  }
  wrapped.AppendOwn(format.without_system.prefix);
  return &format.without_system;
}

absl::StatusOr<ChatFormat::Turns> ReadTurns(const Json& value) {
  ChatFormat::Turns turns;
  bool good = value.is_object() && value.contains("to_assistant") && value.contains("to_user") &&
              value["to_assistant"].is_string() && value["to_user"].is_string() &&
              value.size() == 2 + value.count("trim_assistant") + value.count("refuses_in_assistant");
  if (good && value.contains("refuses_in_assistant")) {
    good = SetStrings(value["refuses_in_assistant"], turns.refuses_in_assistant);
  }
  if (good && value.contains("trim_assistant")) good = SetTrim(value["trim_assistant"], turns.trim_assistant);
  if (!good) {
    return InvalidArgument(
        "\"turns\" is ", Shown(value).substr(0, 200),
        "; it must be an object of the texts to_assistant, to_user, and may have trim_assistant (\"start\", "
        "\"end\" or \"both\") and refuses_in_assistant (a list of texts)");
  }
  turns.to_assistant = value["to_assistant"].get<std::string>();
  turns.to_user = value["to_user"].get<std::string>();
  return turns;
}

}  // namespace

absl::Status CheckTurns(absl::Span<const ChatTurn> turns) {
  const auto bad = [](size_t i, absl::string_view problem) { return InvalidArgument("message ", i + 1, " ", problem); };
  if (turns.empty()) return InvalidArgument("there are no messages; there must be at least 1");
  const size_t first = turns[0].role == kSystemRole ? 1 : 0;
  for (size_t i = first; i < turns.size(); ++i) {
    const std::string& role = turns[i].role;
    if (role != "user" && role != "assistant" && role != kSystemRole) {
      return bad(i, absl::StrCat("has the role \"", role, "\"; it must be system, user or assistant"));
    }
    if (role == kSystemRole) return bad(i, "is of the system, which only the first can be");
    const char* due = (i - first) % 2 == 0 ? "user" : "assistant";
    if (role != due) return bad(i, absl::StrCat("is of the ", role, "; user and assistant take turns, user first"));
  }
  if (turns.back().role == "user") return absl::OkStatus();
  return bad(turns.size() - 1, absl::StrCat("is the last and of the ", turns.back().role,
                                            "; the last must be of the user, whom the model answers"));
}

void ChatText::AppendOwn(absl::string_view own) { absl::StrAppend(&text, own); }

void ChatText::AppendPlain(absl::string_view plain) {
  if (plain.empty()) return;
  plain_parts.push_back({text.size(), text.size() + plain.size()});
  absl::StrAppend(&text, plain);
}

absl::StatusOr<ChatText> ChatFormat::Wrap(absl::string_view user, const std::optional<std::string>& system) const {
  ChatText wrapped;
  ASSIGN_OR_RETURN(const Texts* texts, OpenChat(*this, system, wrapped));
  wrapped.AppendPlain(Trimmed(user, texts->trim_user));
  wrapped.AppendOwn(texts->suffix);
  return wrapped;
}

absl::StatusOr<ChatText> ChatFormat::WrapTurns(absl::Span<const ChatTurn> conversation) const {
  std::optional<std::string> system;
  if (conversation.front().role == kSystemRole) {
    system = conversation.front().content;
    conversation.remove_prefix(1);
  }
  if (conversation.size() > 1 && !turns.has_value()) {
    return FailedPrecondition(
        "a conversation of ", conversation.size(),
        " messages needs \"turns\" in this model's chat_format.json; recipes/chat_format.py writes them "
        "where the chat template has them");
  }
  ChatText wrapped;
  ASSIGN_OR_RETURN(const Texts* texts, OpenChat(*this, system, wrapped));
  for (size_t i = 0; i < conversation.size(); ++i) {
    const bool is_user = i % 2 == 0;
    if (i > 0) wrapped.AppendOwn(is_user ? turns->to_user : turns->to_assistant);
    if (!is_user) RETURN_IF_ERROR(CheckHoldsNone(conversation[i].content, turns->refuses_in_assistant, "a reply"));
    wrapped.AppendPlain(Trimmed(conversation[i].content, is_user ? texts->trim_user : turns->trim_assistant));
  }
  wrapped.AppendOwn(texts->suffix);
  return wrapped;
}

ChatText ChatFormat::WrapStart(absl::string_view user) const {
  ChatText wrapped;
  wrapped.AppendOwn(without_system.prefix);
  wrapped.AppendPlain(Trimmed(user, {without_system.trim_user.start, false}));
  return wrapped;
}

ChatFormat ChatFormat::WithThinking(bool is_on) const {
  ChatFormat format = *this;
  const Switch::Side& side = is_on ? thinking_switch->on : thinking_switch->off;
  format.without_system = side.without_system;
  format.with_system = side.with_system;
  format.thinking_switch.reset();
  return format;
}

std::optional<bool> ChatFormat::DefaultThinking() const {
  if (!thinking_switch.has_value()) return std::nullopt;
  const Switch::Side own = {without_system, with_system};
  if (own == thinking_switch->on) return true;
  return own == thinking_switch->off ? std::optional(false) : std::nullopt;
}

std::string ChatFormat::ContentSha256() const {
  const auto json_of = [](const Texts& texts) {
    Json json = {texts.prefix,        texts.between,           texts.suffix,          texts.trim_user.start,
                 texts.trim_user.end, texts.trim_system.start, texts.trim_system.end, texts.omits_empty_system};
    if (!texts.refuses_in_system.empty()) json.push_back(texts.refuses_in_system);
    return json;
  };
  Json content = {json_of(without_system), with_system.has_value() ? json_of(*with_system) : Json()};
  if (turns.has_value()) {  // that of a format without stays as it was
    content.push_back({turns->to_assistant, turns->to_user, turns->trim_assistant.start, turns->trim_assistant.end,
                       turns->refuses_in_assistant});
  }
  return Sha256Hex(content.dump(-1, ' ', true, Json::error_handler_t::replace));
}

std::string ChatFormat::Identity() const {
  std::string identity = template_sha256;
  const auto add = [&](absl::string_view what, const Trim& trim) {
    for (const TrimName& known : kTrimNames) {
      if (trim == known.trim) absl::StrAppend(&identity, " ", what, "=", known.name);
    }
  };
  add("without_system.trim_user", without_system.trim_user);
  if (with_system.has_value()) {
    add("with_system.trim_user", with_system->trim_user);
    add("with_system.trim_system", with_system->trim_system);
    if (with_system->omits_empty_system) absl::StrAppend(&identity, " with_system.omits_empty_system");
    for (const std::string& refused : with_system->refuses_in_system) {
      absl::StrAppend(&identity, " with_system.refuses_in_system=", refused);
    }
  }
  if (turns.has_value()) {
    add("turns.trim_assistant", turns->trim_assistant);
    for (const std::string& refused : turns->refuses_in_assistant) {
      absl::StrAppend(&identity, " turns.refuses_in_assistant=", refused);
    }
  }
  return identity;
}

absl::StatusOr<ChatFormat> ParseChatFormat(absl::string_view json_text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(json_text));
  if (!json.is_object()) return InvalidArgument("the file holds ", json.type_name(), ", not an object");
  for (const auto& [key, value] : json.items()) {
    if (key != "template_sha256" && key != "without_system" && key != "with_system" && key != "thinking" &&
        key != "thinking_switch" && key != "turns") {
      return InvalidArgument("unknown key \"", key, "\" with value ", Shown(value).substr(0, 200));
    }
  }
  ChatFormat format;
  ASSIGN_OR_RETURN(format.template_sha256, GetString(json, "template_sha256"));
  const bool is_digest = format.template_sha256.size() == 64 &&
                         std::all_of(format.template_sha256.begin(), format.template_sha256.end(),
                                     [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); });
  if (!is_digest) {
    return InvalidArgument("\"template_sha256\" is \"", format.template_sha256.substr(0, 200),
                           "\"; it must be 64 lower-case hexadecimal digits");
  }
  RETURN_IF_ERROR(ReadSides(json, "", format.without_system, format.with_system));
  if (const auto turns = json.find("turns"); turns != json.end()) {
    ASSIGN_OR_RETURN(format.turns, ReadTurns(*turns));
  }
  if (const auto thinking = json.find("thinking"); thinking != json.end()) {
    ASSIGN_OR_RETURN(format.thinking, ReadMarkers(*thinking));
  }
  if (const auto both = json.find("thinking_switch"); both != json.end()) {
    ASSIGN_OR_RETURN(format.thinking_switch, ReadSwitch(*both));
  }
  return format;
}

absl::StatusOr<std::shared_ptr<const ChatFormat>> ReadChatFormat(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kFileName);
  if (!FileExists(path, FileUse::kModel)) return std::shared_ptr<const ChatFormat>();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kChatFormatFile));
  ASSIGN_OR_RETURN(ChatFormat format, Annotate(ParseChatFormat(text), path));
  return std::make_shared<const ChatFormat>(std::move(format));
}

absl::Status CheckHasChatFormat(const ChatFormat* format, absl::string_view model) {
  if (format != nullptr) return absl::OkStatus();
  return FailedPrecondition("model \"", model, "\" has no ", kFileName,
                            ", which a chat prompt needs; `recipes/chat_format.py DIRECTORY` "
                            "makes it from the model's chat template");
}

absl::StatusOr<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, const ChatText& wrapped,
                                                int64_t* invalid_utf8_count) {
  return tokenizer.Encode(
      wrapped.text,
      {.add_special_tokens = false, .plain_parts = wrapped.plain_parts, .invalid_utf8_count = invalid_utf8_count});
}

}  // namespace varifocal
