// A connection to one model: a directory served inside this process, or a model of a daemon, through the same gRPC
// service.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "client/daemon.h"
#include "client/embedded.h"
#include "client/flags.h"
#include "client/tokenizers.h"
#include "client/verb.h"
#include "eval_tasks/overrides.h"
#include "wire/overrides.h"

namespace varifocal::client {

// The daemon's engine flags, for a server inside this process.
struct EngineFlags {
  std::string device = "auto";
  std::optional<std::string> dtype, cpu_isa, prefix_cache, kv_cache_bytes;
  std::optional<int64_t> threads, prefill_chunk_tokens, batch_size_max;
  std::map<std::string, std::string> kernels;  // of AddTo's EmbeddedKernelFlags; empty where not given
  TokenizerFlags tokenizer;
  std::vector<std::string> ignored_config_keys;

  void AddTo(FlagSet& flags);
  bool AnyGiven() const;
  absl::StatusOr<EmbeddedOptions> Options() const;
};

// --model, --focal-temperature, --attention, --focus-top-k, --focus-window and the engine flags of `generate` and `score`.
struct ModelFlags {
  std::string model;
  std::optional<std::string> focal_temperature;
  std::vector<std::string> attention;
  std::optional<int64_t> focus_top_k, focus_window;
  EngineFlags engine;

  void AddTo(FlagSet& flags);
  // Writes the run-time attention settings into a request.
  template <typename Request>
  absl::Status SetAttention(Request* request) const {
    ASSIGN_OR_RETURN(const OverrideMap overrides, AttentionSettings());
    *request->mutable_overrides() = ToProto(overrides);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<OverrideMap> AttentionSettings() const;
};

class ModelSession {
 public:
  static absl::StatusOr<std::unique_ptr<ModelSession>> Open(const ModelFlags& flags, const GlobalFlags& global);

  Daemon& daemon() { return *daemon_; }
  const std::string& model() const { return model_; }  // "models/NAME"

 private:
  std::unique_ptr<EmbeddedServer> server_;  // null for a remote daemon; destroyed last
  std::unique_ptr<Daemon> daemon_;
  std::string model_;
};

// --prompt-file or --token-ids-file, exactly one, into the `prompt` of a request.
// With --chat the prompt is wrapped in the model's chat format.
struct PromptFlags {
  std::optional<std::string> prompt_file, prompt, token_ids_file, system_file, system;
  bool chat = false;

  void AddTo(FlagSet& flags);
  bool IsText() const { return !token_ids_file.has_value(); }

  template <typename Request>
  absl::Status FillIn(Request* request) const {
    absl::StatusOr<Bytes> bytes = Read();
    if (!bytes.ok()) return bytes.status();
    if (IsText()) {
      request->set_prompt_text(std::move(bytes->text));
    } else {
      request->mutable_prompt_token_ids()->mutable_ids()->Add(bytes->ids.begin(), bytes->ids.end());
    }
    if (chat) {
      request->mutable_chat();
      if (bytes->system.has_value()) request->mutable_chat()->set_system(*std::move(bytes->system));
    }
    return absl::OkStatus();
  }

 private:
  struct Bytes {
    std::string text;
    std::vector<int32_t> ids;
    std::optional<std::string> system;
  };
  absl::StatusOr<Bytes> Read() const;
};

// Prints notices about an answer on standard error.
void PrintNotes(bool is_extrapolated, const std::string& notes, int64_t invalid_utf8_count, Console& console);

// "64M", "4G", "1000": bytes, with K, M, G as powers of 1024.
std::optional<int64_t> ReadBytes(absl::string_view text);

}  // namespace varifocal::client
