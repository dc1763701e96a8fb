// The beginning and end of a job's prompts, as in HELMET's result files: 500 tokens, " <skip> ", and the last 500.
// Prompts are not stored; they are rebuilt, and must have the token ids that the job recorded.
//
// Errors: FAILED_PRECONDITION when a rebuilt prompt differs from the recorded one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/records.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"
#include "eval_tasks/token_counter.h"
#include "tokenizer/token_rules.h"

namespace varifocal::client {

class PromptEnds {
 public:
  // Directories with a tokenizer.json, and a chat_format.json for chat tasks.
  static absl::StatusOr<PromptEnds> Open(const std::vector<std::string>& tokenizer_directories, TokenizerRules rules);

  // nullopt when the sample was built with none of the tokenizers.
  absl::StatusOr<std::optional<std::string>> Of(const TaskSpec& task, int64_t seed, const db::SampleRecord& sample);

 private:
  struct Counters {
    std::shared_ptr<const TokenCounter> plain, chat;  // chat: null without a chat format
  };

  std::map<std::string, Counters> counters_;            // by the tokenizer's digest
  std::map<std::string, std::unique_ptr<Task>> tasks_;  // by name
};

}  // namespace varifocal::client
