// The daemon's server inside this process, behind an in-process gRPC channel.
//
// So a verb that needs a model is a plain gRPC client in either case. Only embedded.cc depends on the server.
//
// Errors:  from Start: why a database or a model directory is refused, in one sentence.
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "eval_tasks/answer_import.h"
#include "tokenizer/token_rules.h"

namespace grpc {
class Channel;
}
namespace varifocal {
class Server;
struct ServerOptions;
}  // namespace varifocal

namespace varifocal::client {

// The options of varifocald's flags; unset means the server's default.
struct EmbeddedOptions {
  struct NamedModel {
    std::string name;
    std::string directory;
  };

  std::string database_path;  // empty: models only
  std::vector<NamedModel> models;
  std::vector<std::string> endpoints;  // as varifocald's --endpoint
  std::optional<int64_t> endpoint_budget_tokens;
  std::string device = "auto";
  TokenizerRules tokenizer_rules = TokenizerRules::kAgreed;
  std::vector<std::string> ignored_config_keys;
  std::optional<std::string> dtype, cpu_isa;
  std::map<std::string, std::string> kernels;  // by names of EmbeddedKernelFlags; empty: the default
  std::optional<int> threads;
  std::optional<int64_t> prefill_chunk_tokens, kv_cache_bytes, batch_size_max;
  std::optional<bool> prefix_cache;
  std::optional<int> in_flight;
  std::string command_line;  // stored with the answers
};

ServerOptions ToServerOptions(const EmbeddedOptions& options);

class EmbeddedServer {
 public:
  static absl::StatusOr<std::unique_ptr<EmbeddedServer>> Start(const EmbeddedOptions& options);
  ~EmbeddedServer();  // a running job goes back to the queue

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  explicit EmbeddedServer(std::unique_ptr<Server> server);

  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Scores and stores answers of another engine, without any model (server/jobs/answer_import.h).
absl::StatusOr<AnswerImportResult> ImportAnswersHere(AnswerImport import);

struct EmbeddedKernelFlag {
  std::string name, help;
};
// varifocald's flags that choose a GPU's kernels (server/model/kernel_flags.h).
std::vector<EmbeddedKernelFlag> EmbeddedKernelFlags();

// The checkpoint types that this program loads, a row each (server/model/supported.h).
std::vector<Json> SupportedCheckpointRows();

}  // namespace varifocal::client
