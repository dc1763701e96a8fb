// The identity of a model's function, besides its weights and tokenizer: canonical JSON of everything that its output
// depends on.
//
// Two models whose weights, tokenizers and FunctionJson are equal give equal answers; wherever two models are held to be
// one (resuming a job, repeating a request, shards, workers, cached prefixes), all three are compared. What only
// describes a model (its training, its trained length) is not part of it.
//
// Threads: any.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "server/model/model_config.h"

namespace varifocal {

// Keys sorted, doubles exact. `dtype` is the number format, "f32" or "bf16"; `chat_sha256` is ChatFormat::ContentSha256(),
// "" without a chat format.
std::string FunctionJson(const ModelConfig& config, absl::string_view dtype, absl::string_view chat_sha256 = "");

}  // namespace varifocal
