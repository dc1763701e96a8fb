// Answers of another program to our prompts, before scoring.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "eval_tasks/job_spec.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {

struct AnswerImport {
  std::string database_path;
  JobSpec spec;  // one variant: the name under which the answers are stored
  std::shared_ptr<const TokenCounter> tokenizer, chat_tokenizer;
  std::map<std::string, std::string> answers;  // by digest of the prompt's token ids
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
