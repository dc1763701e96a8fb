#include "client/prompt_ends.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::client {
namespace {

constexpr size_t kShownTokens = 500;

}  // namespace

absl::StatusOr<PromptEnds> PromptEnds::Open(const std::vector<std::string>& tokenizer_directories,
                                            TokenizerRules rules) {
  PromptEnds ends;
  for (const std::string& directory : tokenizer_directories) {
    ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::Load(directory, rules));
    ASSIGN_OR_RETURN(const std::shared_ptr<const ChatFormat> format, ReadChatFormat(directory));
    Counters& counters = ends.counters_[tokenizer->sha256()];
    counters.plain = MakeTokenCounter(tokenizer);
    if (format != nullptr) counters.chat = MakeTokenCounter(tokenizer, format);
  }
  return ends;
}

absl::StatusOr<std::optional<std::string>> PromptEnds::Of(const TaskSpec& task, int64_t seed,
                                                          const db::SampleRecord& sample) {
  const auto found = counters_.find(sample.tokenizer_sha256);
  if (found == counters_.end() || !sample.token_ids_sha256.has_value()) return std::optional<std::string>();
  const std::shared_ptr<const TokenCounter>& counter = task.chat ? found->second.chat : found->second.plain;
  if (counter == nullptr) {
    return FailedPrecondition("the task ", task.name,
                              " used a chat format, and no --tokenizer directory has its chat_format.json.");
  }
  std::unique_ptr<Task>& made = tasks_[task.name];
  if (made == nullptr) {
    ASSIGN_OR_RETURN(made, MakeTask(task));
  }
  const SampleRequest request = {.seed = seed,
                                 .context_length = static_cast<int>(sample.context_length),
                                 .index = static_cast<int>(sample.sample_index)};
  ASSIGN_OR_RETURN(const Sample again, made->MakeSample(request, *counter));
  if (again.TokenIdsSha256() != *sample.token_ids_sha256) {
    return FailedPrecondition("sample ", sample.sample_index, " of ", task.name, " at ", sample.context_length,
                              " has the token ids ", again.TokenIdsSha256(), " now, and was recorded with ",
                              *sample.token_ids_sha256, ".");
  }
  const absl::Span<const int32_t> ids = again.token_ids;
  const size_t shown = std::min(kShownTokens, ids.size());
  ASSIGN_OR_RETURN(const std::string head, counter->DecodePiece(ids.first(shown)));
  ASSIGN_OR_RETURN(const std::string tail, counter->DecodePiece(ids.last(shown)));
  return std::optional<std::string>(absl::StrCat(head, " <skip> ", tail));
}

}  // namespace varifocal::client
