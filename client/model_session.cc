#include "client/model_session.h"

#include <algorithm>
#include <limits>
#include <ostream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/files.h"
#include "client/models.h"
#include "client/usage.h"

namespace varifocal::client {

void PrintNotes(bool is_extrapolated, const std::string& notes, int64_t invalid_utf8_count, Console& console) {
  if (is_extrapolated) console.err << "Note: extrapolated, the text is longer than the model was trained on.\n";
  if (!notes.empty()) console.err << "Note: " << notes << "\n";
  if (invalid_utf8_count > 0) {
    console.err << "Note: " << invalid_utf8_count << " byte sequences are not UTF-8; each was read as U+FFFD.\n";
  }
}

std::optional<int64_t> ReadBytes(absl::string_view text) {
  static constexpr absl::string_view kUnits = "KMGT";
  if (!absl::ConsumeSuffix(&text, "iB")) absl::ConsumeSuffix(&text, "B");
  int64_t unit = 1;
  if (!text.empty()) {
    const size_t power = kUnits.find(absl::ascii_toupper(text.back()));
    if (power != absl::string_view::npos) {
      unit = int64_t{1} << (10 * (power + 1));
      text.remove_suffix(1);
    }
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0 || value > std::numeric_limits<int64_t>::max() / unit) {
    return std::nullopt;
  }
  return value * unit;
}

void EngineFlags::AddTo(FlagSet& flags) {
  flags.Section(
      "Engine in this process (--model=DIR); device, dtype, cpu-isa, kernels, tokenizer-rules, ignore-config-key can change answers");
  flags.Add("device", &device, "NAME", "auto, cpu, reference, cuda:N, or cuda:0,1,.. for a copy on each of these GPUs");
  flags.Add("dtype", &dtype, "NAME", "number format; default: the device's native one").Among({"f32", "bf16"});
  tokenizer.AddTo(flags);
  flags.Add(
      "ignore-config-key", &ignored_config_keys, "KEY",
      "ignore a key of config.json that would be refused as unknown or unsupported; recorded. NAME:KEY for one of "
      "several models; repeatable");
  flags.Add("threads", &threads, "N", "default: one per processor").AtLeast(1).AtMost(1024);
  flags.Add("cpu-isa", &cpu_isa, "NAME", "instruction set; default: the best supported one");
  for (EmbeddedKernelFlag& flag : EmbeddedKernelFlags()) {
    flag.help[0] = absl::ascii_tolower(flag.help[0]);  // here texts continue the flag's name
    flags.Add(flag.name, &kernels[flag.name], "NAME", flag.help);
  }
  flags.Add("prefill-chunk-tokens", &prefill_chunk_tokens, "N", "prompt tokens per step").AtLeast(1).AtMost(1 << 20);
  flags.Add("prefix-cache", &prefix_cache, "on|off", "reuse keys and values of shared contexts").Among({"on", "off"});
  flags.Add("kv-cache-bytes", &kv_cache_bytes, "BYTES", "for keys and values, such as 512M or 4G");
  flags.Add("batch-size-max", &batch_size_max, "N", "maximum decode batch size").AtLeast(1).AtMost(4096);
}

bool EngineFlags::AnyGiven() const {
  return device != "auto" || dtype.has_value() || threads.has_value() || cpu_isa.has_value() ||
         prefill_chunk_tokens.has_value() || prefix_cache.has_value() || kv_cache_bytes.has_value() ||
         batch_size_max.has_value() || tokenizer.AnyGiven() || !ignored_config_keys.empty() ||
         std::any_of(kernels.begin(), kernels.end(), [](const auto& kernel) { return !kernel.second.empty(); });
}

absl::StatusOr<EmbeddedOptions> EngineFlags::Options() const {
  EmbeddedOptions options;
  options.device = device;
  options.dtype = dtype;
  options.cpu_isa = cpu_isa;
  options.kernels = kernels;
  options.tokenizer_rules = tokenizer.Rules();
  options.ignored_config_keys = ignored_config_keys;
  if (threads.has_value()) options.threads = *threads;
  options.prefill_chunk_tokens = prefill_chunk_tokens;
  options.batch_size_max = batch_size_max;
  if (prefix_cache.has_value()) options.prefix_cache = *prefix_cache == "on";
  if (kv_cache_bytes.has_value()) {
    options.kv_cache_bytes = ReadBytes(*kv_cache_bytes);
    if (!options.kv_cache_bytes.has_value()) {
      return UsageError("--kv-cache-bytes=", *kv_cache_bytes, ": must be a number of bytes, as 512M or 4G.");
    }
  }
  return options;
}

void ModelFlags::AddTo(FlagSet& flags) {
  flags
      .Add(
          "model", &model, "DIR",
          "checkpoint directory, served in this process; DIR@adapter=DIR2: with a LoRA adapter; with --daemon: the model's "
          "name there")
      .Required();
  flags.Add("focal-temperature", &focal_temperature, "T[,T..]",
            "run-time focal temperature instead of the checkpoint's: one number, or one a layer");
  flags.Add("attention", &attention, "NAME=X",
            absl::StrCat("another run-time attention setting: ", OverridesHelp(),
                         ", and those of the flags below; repeatable"));
  flags.Add("focus-top-k", &focus_top_k, "N", "of a Focus checkpoint: groups per token, in place of its own");
  flags.Add("focus-window", &focus_window, "N", "of a Focus checkpoint: keys before a row that are always visible");
}

absl::StatusOr<OverrideMap> ModelFlags::AttentionSettings() const {
  OverrideMap overrides;
  if (!attention.empty()) {
    absl::StatusOr<OverrideMap> parsed = ParseOverrides(absl::StrJoin(attention, "@"));
    if (!parsed.ok()) return UsageError("--attention: ", parsed.status().message(), ".");
    overrides = *std::move(parsed);
  }
  for (const auto& [name, value] : {std::pair{"focus-top-k", focus_top_k}, {"focus-window", focus_window}}) {
    if (!value.has_value()) continue;
    const double number = *value;
    if (!overrides.emplace(name, std::vector{number}).second) {
      return UsageError("--", name, " is given twice; --attention has it too.");
    }
  }
  if (focal_temperature.has_value()) {
    ASSIGN_OR_RETURN(std::vector<double> temperatures, ReadFocalTemperatures("focal-temperature", *focal_temperature));
    if (!overrides.emplace(kFocalTemperature, std::move(temperatures)).second) {
      return UsageError("--focal-temperature is given twice; --attention has it too.");
    }
  }
  return overrides;
}

absl::StatusOr<std::unique_ptr<ModelSession>> ModelSession::Open(const ModelFlags& flags, const GlobalFlags& global) {
  auto session = std::make_unique<ModelSession>();
  if (global.daemon_given) {
    if (flags.engine.AnyGiven()) {
      return UsageError(
          "With --daemon the engine is the daemon's; leave out --device, --dtype and the other engine flags.");
    }
    ASSIGN_OR_RETURN(session->daemon_, Daemon::Connect(global.daemon));
    session->model_ = ModelResourceOf(flags.model);
    return session;
  }
  ASSIGN_OR_RETURN(EmbeddedOptions options, flags.engine.Options());
  options.models.push_back({"model", flags.model});
  ASSIGN_OR_RETURN(session->server_, EmbeddedServer::Start(options));
  session->daemon_ = std::make_unique<Daemon>(session->server_->channel());
  session->model_ = "models/model";
  return session;
}

void PromptFlags::AddTo(FlagSet& flags) {
  flags.Add("prompt-file", &prompt_file, "PATH", "the prompt, byte for byte; - is standard input");
  flags.Add("prompt", &prompt, "TEXT", "the prompt itself");
  flags.Add("token-ids-file", &token_ids_file, "PATH", "the prompt as a JSON array of token ids, used unchanged");
  flags.Add("chat", &chat, "wrap the prompt in the model's chat format (its chat_format.json)");
  flags.Add("system", &system, "TEXT", "with --chat: a system message before it");
  flags.Add("system-file", &system_file, "PATH", "the same, read from a file");
}

absl::StatusOr<PromptFlags::Bytes> PromptFlags::Read() const {
  if (prompt_file.has_value() + prompt.has_value() + token_ids_file.has_value() != 1) {
    return UsageError("Give the prompt by exactly one of --prompt-file=PATH, --prompt=TEXT and --token-ids-file=PATH.");
  }
  if (chat && !IsText()) return UsageError("--chat wraps a text; token ids are taken as they are.");
  if (!chat && (system.has_value() || system_file.has_value())) {
    return UsageError("A system message needs --chat.");
  }
  if (system.has_value() && system_file.has_value()) return UsageError("Give --system or --system-file, not both.");
  Bytes bytes;
  if (system_file.has_value()) {
    ASSIGN_OR_RETURN(bytes.system, ReadWholeFile(*system_file));
  } else {
    bytes.system = system;
  }
  if (prompt_file.has_value()) {
    ASSIGN_OR_RETURN(bytes.text, ReadWholeFile(*prompt_file));
  } else if (prompt.has_value()) {
    bytes.text = *prompt;
  } else {
    ASSIGN_OR_RETURN(bytes.ids, ReadTokenIds(*token_ids_file));
  }
  return bytes;
}

}  // namespace varifocal::client
