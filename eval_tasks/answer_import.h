// Answers of another program to our prompts, before scoring.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {

// Of the prompt with these token ids.
inline std::string ImportedAnswerKey(const std::string& token_ids_sha256, int64_t epoch) {
  return epoch == 0 ? token_ids_sha256 : absl::StrCat(token_ids_sha256, "/", epoch);
}

struct AnswerImport {
  std::string database_path;
  JobSpec spec;  // one variant: the name under which the answers are stored
  std::shared_ptr<const TokenCounter> tokenizer, chat_tokenizer;
  std::map<std::string, std::string> answers;  // by ImportedAnswerKey
  std::string answers_sha256;                  // of the source file: used in place of the weights' hash
  std::string source;                          // free text
};

struct AnswerImportResult {
  int64_t job_id = 0;
  int64_t answered_count = 0;
  int64_t failed_count = 0;
  int64_t unused_count = 0;  // answers without a matching sample
};

}  // namespace varifocal
