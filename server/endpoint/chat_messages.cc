#include "server/endpoint/chat_messages.h"

#include <string>

#include "absl/strings/strip.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

// Of a text between system and user message: a message may hold it too.
constexpr int kSplitsMax = 16;

bool Gives(const Tokenizer& tokenizer, const ChatFormat& format, absl::string_view user,
           const std::optional<std::string>& system, const std::vector<int32_t>& ids) {
  const absl::StatusOr<ChatText> wrapped = format.Wrap(user, system);
  if (!wrapped.ok()) return false;
  const absl::StatusOr<std::vector<int32_t>> again = EncodeChat(tokenizer, *wrapped);
  return again.ok() && *again == ids;
}

}  // namespace

absl::StatusOr<std::vector<ChatTurn>> MessagesOf(const Tokenizer& tokenizer, const ChatFormat& format,
                                                 const std::vector<int32_t>& ids) {
  ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(ids, {.keep_special_tokens = true}));
  absl::string_view user = text;
  if (absl::ConsumePrefix(&user, format.without_system.prefix) &&
      absl::ConsumeSuffix(&user, format.without_system.suffix) && Gives(tokenizer, format, user, {}, ids)) {
    return std::vector<ChatTurn>{{"user", std::string(user)}};
  }
  absl::string_view both = text;
  if (format.with_system.has_value() && absl::ConsumePrefix(&both, format.with_system->prefix) &&
      absl::ConsumeSuffix(&both, format.with_system->suffix)) {
    const std::string& between = format.with_system->between;
    size_t at = both.find(between);
    for (int i = 0; i < kSplitsMax && at != absl::string_view::npos; ++i, at = both.find(between, at + 1)) {
      const std::string system(both.substr(0, at));
      user = both.substr(at + between.size());
      if (Gives(tokenizer, format, user, system, ids))
        return std::vector<ChatTurn>{{"system", system}, {"user", std::string(user)}};
    }
  }
  return WithReason(
      InvalidArgument("the ", ids.size(),
                      " token ids of this prompt are not messages in the model's chat format, and "
                      "the chat API takes nothing else; give the task `chat: true`, or the request --chat"),
      ErrorReason::kEndpointRefused);
}

absl::StatusOr<ChatPart> ToChat(const Tokenizer& tokenizer, const ChatFormat& format, const std::vector<int32_t>& ids,
                                std::optional<bool> thinking, absl::Span<const ChatTurn> turns) {
  ChatPart chat;
  if (format.thinking.has_value()) {
    chat.thinking_begin = format.thinking->begin;
    chat.thinking_end = format.thinking->end;
  }
  const bool is_set = thinking.has_value() && format.thinking_switch.has_value();
  if (is_set) {
    chat.switch_variable = format.thinking_switch->variable;
    chat.switch_value = *thinking;
  }
  chat.messages.assign(turns.begin(), turns.end());
  if (!turns.empty()) return chat;
  ASSIGN_OR_RETURN(chat.messages, MessagesOf(tokenizer, is_set ? format.WithThinking(*thinking) : format, ids));
  return chat;
}

ChatFormat PlainChatFormat() {
  ChatFormat format;
  format.template_sha256 = Sha256Hex("messages as they are");
  format.turns = ChatFormat::Turns{.to_assistant = "\n\n", .to_user = "\n\n"};
  format.with_system = ChatFormat::Texts{.prefix = "", .between = "\n\n", .suffix = ""};
  return format;
}

}  // namespace varifocal
