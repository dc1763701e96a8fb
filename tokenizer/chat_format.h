// The prompt format of a chat model: the fixed texts around a user message.
//
// `recipes/chat_format.py` renders a model's chat template on sentinel messages and writes `chat_format.json` next to
// tokenizer.json, so that no template engine is needed here:
//
//   {"template_sha256": "..", "without_system": {"prefix", "suffix"}, "with_system": {"prefix", "between", "suffix"}}
//
// A prompt is prefix + user + suffix, or prefix + system + between + user + suffix, encoded without adding special
// tokens: the texts contain them (BOS and turn marks) as added tokens. `with_system` is null where a template rejects a
// system message. An object may also have "trim_user" and "trim_system" ("start", "end" or "both") where the template
// strips white space of messages, "omits_empty_system" where it omits an empty system message, and "refuses_in_system",
// strings in a system message on which it switches.
//
// "turns": {"to_assistant", "to_user"} are the texts between a user message and the reply to it, and between a reply and the
// next user message, of conversations of several turns; "trim_assistant" is of replies as "trim_user" of user messages, and
// "refuses_in_assistant" of replies as "refuses_in_system" of system messages.
//
// "thinking": {"begin", "end"} are the markers of the model's thinking block (thinking.h). "thinking_switch": {"variable",
// "on", "off"} are the texts, an object of "without_system" and "with_system" each, that the template renders with its own
// switch set.
//
// Errors:  INVALID_ARGUMENT with the file, the key and the value, or with such a string of a system message;
//          FAILED_PRECONDITION for a system message that the template refuses, and for several turns without "turns".
// Threads: immutable once read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tokenizer/thinking.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

// A text to encode, and its untrusted parts: special tokens in them are text, so that no message ends a turn or begins
// another.
struct ChatText {
  std::string text;
  std::vector<TextRange> plain_parts;

  void AppendOwn(absl::string_view own);
  void AppendPlain(absl::string_view plain);
  friend bool operator==(const ChatText& a, const ChatText& b) { return a.text == b.text; }
  friend bool operator==(const ChatText& a, absl::string_view b) { return a.text == b; }
};

// A message of a conversation.
struct ChatTurn {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
  friend bool operator==(const ChatTurn&, const ChatTurn&) = default;
};

// "system" first or not at all, then "user" and "assistant" in turn, "user" last; INVALID_ARGUMENT naming the message.
absl::Status CheckTurns(absl::Span<const ChatTurn> turns);

struct ChatFormat {
  // The ends of a message that are stripped of white space, as by Python's str.strip().
  struct Trim {
    bool start = false;
    bool end = false;
    friend bool operator==(const Trim&, const Trim&) = default;
  };
  struct Texts {
    std::string prefix;
    std::string between;  // system and user; empty without a system message
    std::string suffix;
    Trim trim_user = {};
    Trim trim_system = {};
    bool omits_empty_system = false;  // a system message that is empty after stripping is omitted
    std::vector<std::string> refuses_in_system = {};
    friend bool operator==(const Texts&, const Texts&) = default;
  };
  struct Switch {
    std::string variable;  // of the template, "enable_thinking"
    struct Side {
      Texts without_system;
      std::optional<Texts> with_system;
      friend bool operator==(const Side&, const Side&) = default;
    };
    Side on, off;
  };
  struct Turns {
    std::string to_assistant;
    std::string to_user;
    Trim trim_assistant = {};
    std::vector<std::string> refuses_in_assistant = {};
    friend bool operator==(const Turns&, const Turns&) = default;
  };
  std::string template_sha256;  // of the template that the texts were rendered from
  Texts without_system;
  std::optional<Texts> with_system;
  std::optional<Turns> turns;  // none: a conversation of several turns is refused
  std::optional<ThinkingMarkers> thinking;
  std::optional<Switch> thinking_switch;  // none: the template has no switch

  // The whole text to encode.
  absl::StatusOr<ChatText> Wrap(absl::string_view user, const std::optional<std::string>& system = {}) const;
  // Of a conversation that has passed CheckTurns.
  absl::StatusOr<ChatText> WrapTurns(absl::Span<const ChatTurn> conversation) const;
  // The beginning of the text to encode, for a user message that begins with `user`.
  ChatText WrapStart(absl::string_view user) const;
  // With the texts of one side of the switch, which it must have, and without the switch.
  ChatFormat WithThinking(bool is_on) const;
  // The side of the switch that the template has by default; none without a switch, and where it is neither.
  std::optional<bool> DefaultThinking() const;
  // Identifies the format: the template's hash, and the options for messages where set.
  std::string Identity() const;
  // Of all texts and options but the thinking ones, 64 hexadecimal characters: equal formats wrap equally.
  std::string ContentSha256() const;
};

absl::StatusOr<ChatFormat> ParseChatFormat(absl::string_view json_text);
// Null when the directory has no chat_format.json.
absl::StatusOr<std::shared_ptr<const ChatFormat>> ReadChatFormat(const std::string& directory);

// `format`, or FAILED_PRECONDITION stating how to create the missing file of `model`.
absl::Status CheckHasChatFormat(const ChatFormat* format, absl::string_view model);

// The ids of a wrapped prompt.
absl::StatusOr<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, const ChatText& wrapped,
                                                int64_t* invalid_utf8_count = nullptr);

}  // namespace varifocal
