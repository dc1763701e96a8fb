// The description of a model server on the command line: NAME=URL and settings after commas.
//
//   llama=http://127.0.0.1:8000/v1,tokenizer=models/llama,key-file=key.txt,in-flight=4
//
// docs/endpoints.md lists the settings. Files are read when the text is parsed. The key is in no message, log line or
// database.
//
// Errors: INVALID_ARGUMENT (BAD_ENDPOINT), one sentence with the setting, the value and what was expected.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal {

// How a prompt is sent: as token ids where the server accepts them (kAuto tries), else as text.
enum class PromptForm { kAuto, kTokenIds, kText };

enum class EndpointApi { kCompletions, kChat };

struct EndpointSpec {
  std::string name;
  std::string url;                  // "http://host:port/v1", without a slash at the end
  std::string tokenizer_directory;  // of the served model: tokenizer.json, chat_format.json
  std::string model;                // the server's name for it; empty: the only one it has
  std::string key;                  // secret; empty: none
  std::string key_source;           // "file", "environment" or ""
  std::string ca_file;
  int64_t context_length = 0;  // 0: as the server or the directory's config.json states
  int in_flight = 8;           // concurrent requests
  int attempts_max = 6;
  int64_t timeout_ms = 600'000;  // of one request
  EndpointApi api = EndpointApi::kCompletions;
  PromptForm prompts = PromptForm::kAuto;  // of the completions API
  bool checks_prompt_counts = true;        // of the chat API; false: its template or its tokenizer is not known
  Json body = Json::object();              // further members of every request
};

absl::StatusOr<EndpointSpec> ParseEndpointSpec(absl::string_view text);

}  // namespace varifocal
