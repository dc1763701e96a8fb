#include "client/embedded.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "server/jobs/answer_import.h"
#include "server/model/kernel_flags.h"
#include "server/model/supported.h"
#include "server/server.h"

namespace varifocal::client {

EmbeddedServer::EmbeddedServer(std::unique_ptr<Server> server)
    : server_(std::move(server)), channel_(server_->InProcessChannel()) {}

// The channel is destroyed first: the server's shutdown waits for its calls.
EmbeddedServer::~EmbeddedServer() {
  channel_.reset();
  server_->Shutdown(std::chrono::seconds(1));
}

ServerOptions ToServerOptions(const EmbeddedOptions& options) {
  ServerOptions server_options;
  server_options.database_path = options.database_path;
  for (const auto& model : options.models) server_options.models.push_back({model.name, model.directory});
  server_options.endpoints = options.endpoints;
  server_options.endpoint_budget_tokens = options.endpoint_budget_tokens.value_or(0);
  server_options.model.device = options.device;
  server_options.model.tokenizer_rules = options.tokenizer_rules;
  server_options.model.ignored_config_keys = options.ignored_config_keys;
  server_options.model.dtype = options.dtype.value_or("");
  server_options.model.cpu_isa = options.cpu_isa.value_or("");
  for (const KernelFlag& flag : KernelFlags()) {
    const auto given = options.kernels.find(flag.name);
    if (given != options.kernels.end()) server_options.model.*flag.value = given->second;
  }
  server_options.model.threads = options.threads.value_or(0);
  EngineOptions& engine = server_options.engine;
  engine.prefill_chunk_tokens = options.prefill_chunk_tokens.value_or(0);
  engine.kv_cache_bytes = options.kv_cache_bytes.value_or(engine.kv_cache_bytes);
  engine.batch_size_max = options.batch_size_max.value_or(engine.batch_size_max);
  engine.prefix_cache = options.prefix_cache.value_or(engine.prefix_cache);
  server_options.in_flight = options.in_flight.value_or(server_options.in_flight);
  server_options.command_line = options.command_line;
  return server_options;
}

absl::StatusOr<std::unique_ptr<EmbeddedServer>> EmbeddedServer::Start(const EmbeddedOptions& options) {
  // A daemon's log is for operators; here the verb's own output is shown instead.
  SetLogLevel(LogLevel::kWarning);
  ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Start(ToServerOptions(options)));
  return std::unique_ptr<EmbeddedServer>(new EmbeddedServer(std::move(server)));
}

absl::StatusOr<AnswerImportResult> ImportAnswersHere(AnswerImport import) {
  SetLogLevel(LogLevel::kError);
  return ImportAnswers(std::move(import));
}

std::vector<EmbeddedKernelFlag> EmbeddedKernelFlags() {
  std::vector<EmbeddedKernelFlag> flags;
  for (const KernelFlag& flag : KernelFlags()) flags.push_back({flag.name, flag.help});
  return flags;
}

std::vector<Json> SupportedCheckpointRows() {
  std::vector<Json> rows;
  for (const SupportedCheckpoint& checkpoint : SupportedCheckpoints()) {
    rows.push_back({{"model_type", checkpoint.model_type},
                    {"architecture", checkpoint.class_name},
                    {"text_types", checkpoint.text_types},
                    {"examples", checkpoint.examples},
                    {"verified_with", checkpoint.verified},
                    {"refused", checkpoint.refused}});
  }
  return rows;
}

}  // namespace varifocal::client
