// Answers that another program gave to our prompts, before they are judged.
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
  JobSpec spec;  // one variant: the name that the answers are filed under
  std::shared_ptr<const TokenCounter> tokenizer, chat_tokenizer;
  std::map<std::string, std::string> answers;  // by digest of the prompt's token ids
  std::string answers_sha256;                  // of the file they came from: stands in place of the weights
  std::string source;                          // for people
};

struct AnswerImportResult {
  int64_t job_id = 0;
  int64_t answered_count = 0;
  int64_t failed_count = 0;
  int64_t unused_count = 0;  // answers that belong to no sample
};

}  // namespace varifocal
