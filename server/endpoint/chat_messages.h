// The messages of a prompt that was wrapped in a chat format, found again from its token ids: an engine takes ids, and
// the chat API takes messages.
//
// The text of the ids is split at the format's texts, and the messages are right because wrapping them gives the same ids.
//
// Errors:  INVALID_ARGUMENT (ENDPOINT_REFUSED) for ids that are no such prompt.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/endpoint/completion.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

absl::StatusOr<std::vector<ChatTurn>> MessagesOf(const Tokenizer& tokenizer, const ChatFormat& format,
                                                 const std::vector<int32_t>& ids);

// The messages, the marks of the format, and its switch where `thinking` sets it. The messages are `turns` where there are
// some, and found in the ids otherwise.
absl::StatusOr<ChatPart> ToChat(const Tokenizer& tokenizer, const ChatFormat& format, const std::vector<int32_t>& ids,
                                std::optional<bool> thinking, absl::Span<const ChatTurn> turns = {});

// For models whose template is not public: a user message as it is, after a system message and an empty line.
ChatFormat PlainChatFormat();

}  // namespace varifocal
