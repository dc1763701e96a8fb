// A hosted model that runs on other daemons.
//
// The directory is read for its config.json, tokenizer.json and chat_format.json: prompts are built here. Its weights are
// not read; their hash, and everything else that identifies answers, is the workers'.
//
// Errors: those of the directory's files; FAILED_PRECONDITION (WORKERS_DIFFER) when the workers have another tokenizer,
//         attention or context length than the directory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/hosting/model_host.h"
#include "server/workers/remote_workers.h"

namespace varifocal {

// `name` is of the workers' model_names. Of the options only those of config.json and of the tokenizer are used.
absl::StatusOr<std::unique_ptr<HostedModel>> MakeWorkerModel(std::shared_ptr<RemoteWorkers> workers,
                                                             const std::string& name, const std::string& directory,
                                                             const ModelOptions& options = {});

}  // namespace varifocal
