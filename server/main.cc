// The daemon varifocald: flags, signals, and a Server between them.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_join.h"
#include "base/code_version.h"
#include "base/exceptions.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/standard_streams.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "base/terminal_text.h"
#include "eval_tasks/checkpoint_place.h"
#include "server/model/device_list.h"
#include "server/model/kernel_flags.h"
#include "server/server.h"
#include "server/server_limits.h"
#include "server/stop_signal.h"
#include "server/supervisor.h"
#include "wire/protobuf_log.h"

namespace varifocal {
namespace {

enum ExitCode { kDone = 0, kFailed = 1, kWrongUsage = 2, kStuck = 3 };

constexpr int kGraceSeconds = 10;
// After the grace period, for what still has to stop: the running step of a model, the writes of a job.
constexpr auto kLastDeadline = std::chrono::seconds(10);
constexpr int64_t kFlushMs = 1000;
// Of a job, where the number of workers may change: eight workers of eight requests.
constexpr int kInFlightOfCoordinator = 64;

constexpr char kDescription[] =
    "varifocald serves models and runs evaluation jobs; `varifocal` is its client.\n\n"
    "It reads checkpoint directories (Hugging Face layout), stores jobs and results in one SQLite file, and serves "
    "gRPC.\n"
    "Jobs survive a crash of the daemon: the next one with the same --db continues with exactly the missing samples.\n"
    "SIGTERM, SIGINT and SIGHUP shut it down: active calls have --shutdown-grace seconds, and 10 seconds later the\n"
    "process exits even if something hangs. A second signal stops it at once.";

constexpr char kFooter[] =
    "Examples:\n"
    "  varifocald --db=results.db --model=baseline=models/baseline --model=focal=models/focal-constant\n"
    "  varifocal submit quick --models=baseline,focal --wait\n\n"
    "Exit codes: 0 clean shutdown, 1 start failed or the listener stopped working, 2 invalid usage, 3 shutdown "
    "deadline exceeded.";

int Complain(int code, absl::string_view message) {
  FlushLog(kFlushMs);  // the sentence is the last line
  std::fprintf(stderr, "varifocald: %s\n", TerminalText(message).c_str());
  return code;
}

// The error for unknown arguments, with the most similar flag.
std::string UnknownFlag(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back(absl::StrCat("--", name));
  }
  const std::string flag = argument.substr(0, argument.find('='));
  return absl::StrCat("unknown argument \"", argument, "\"", DidYouMean(flag, known), "; see varifocald --help");
}

// Threads that are made while it starts: those of gRPC, of the pools, of each model. Measured: 28 with two processors, one
// model and --threads=1.
int ThreadsNeeded(const ServerOptions& options) {
  constexpr int kOwnThreads = 24, kProcessorsMax = 16, kThreadsOfDevice = 8;
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int of_model = options.model.threads == 0 ? processors : options.model.threads;
  std::set<std::string> devices;
  const auto add = [&devices](const std::string& text) {
    const auto named = ParseDevices(text);
    if (named.ok()) devices.insert(named->begin(), named->end());
  };
  add(options.model.device);
  for (const auto& model : options.models) {
    if (const std::string own = CheckpointOf(model.directory).devices; !own.empty()) add(own);
  }
  const int more_devices = std::max(static_cast<int>(devices.size()) - 1, 0);
  const int models = static_cast<int>(options.models.size());
  return kOwnThreads + 2 * std::min(processors, kProcessorsMax) + models * (of_model - 1) +
         more_devices * (kThreadsOfDevice + models);
}

// Instead of an abort: a library that could not make a thread.
[[noreturn]] void EndStart() {
  constexpr char kSentence[] =
      "varifocald: cannot start: there are no threads or no memory left for it (ulimit -u, ulimit -v, pids.max)\n";
  (void)!write(STDERR_FILENO, kSentence, sizeof(kSentence) - 1);
  std::_Exit(kFailed);
}

LogLevel ToLogLevel(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  return name == "error" ? LogLevel::kError : LogLevel::kInfo;
}

absl::Status AddModels(const std::vector<std::string>& texts, ServerOptions* options) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return InvalidArgument("--model=", text, " is not --model=NAME=DIR");
    const std::string name = text.substr(0, equals);
    const absl::Status good = CheckModelName(name);
    if (!good.ok()) return good;
    for (const auto& other : options->models) {
      if (other.name == name) return InvalidArgument("model name \"", name, "\" is given twice");
    }
    options->models.push_back({name, text.substr(equals + 1)});
  }
  return absl::OkStatus();
}

absl::Status AddAdapters(const std::vector<std::string>& texts, ServerOptions* options) {
  std::vector<NamedPlace> bases;
  for (const auto& model : options->models) bases.push_back({model.name, model.directory});
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(const NamedPlace adapted, ReadAdapterFlag(text, bases));
    RETURN_IF_ERROR(AddModels({absl::StrCat(adapted.name, "=", adapted.place)}, options));
  }
  return absl::OkStatus();
}

// The bound port, for scripts that listen on port 0, or the path of a Unix socket: written to a temporary file and renamed,
// so that it is never partial.
absl::Status WritePortFile(const std::string& path, const std::string& address) {
  const std::string temporary = path + ".new";
  std::FILE* file = std::fopen(temporary.c_str(), "w");
  bool good = file != nullptr;
  if (good) {
    good =
        std::fprintf(
            file, "%s\n",
            address.substr((address.rfind("unix:", 0) == 0 ? address.find(':') : address.rfind(':')) + 1).c_str()) > 0;
    good = std::fclose(file) == 0 && good && std::rename(temporary.c_str(), path.c_str()) == 0;
  }
  if (good) return absl::OkStatus();
  return NotFound("cannot write the port file ", path, ": ", std::strerror(errno));
}

int Serve(ServerOptions options, const LogTarget& log, const std::string& port_file, std::chrono::seconds grace) {
  // A write to a closed pipe or above the file size limit returns an error instead of raising a signal.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  auto* const stop = new StopSignal(grace + kLastDeadline, kStuck);  // its thread outlives this function
  if (const absl::Status logs = LogThroughQueue(log); !logs.ok()) return Complain(kFailed, logs.message());
  LogProtobufMessages();
  // Disables gRPC's own log messages.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);

  if (const auto raised = RaiseDescriptorLimit(); raised.ok()) {
    Log(LogLevel::kDebug, "descriptor_limit", {{"open_files", *raised}});
  } else {
    Log(LogLevel::kWarning, "descriptor_limit", {{"error", raised.status().message()}});
  }
  static Supervisor supervisor;  // used by a thread of the server
  options.on_alive = [] { supervisor.Alive(); };
  options.on_listener_dead = [](const absl::Status& status) {
    Log(LogLevel::kError, "listener_dead", {{"error", status.message()}});
    Complain(kFailed, absl::StrCat("the listener accepts no connections any more and must be started again (",
                                   status.message(), "); jobs continue then"));
    // No orderly shutdown, which would wait for unreachable clients. The database survives a crash.
    FlushLog(kFlushMs);
    std::_Exit(kFailed);
  };
  if (const absl::Status threads = CheckThreadsAreLeft(ThreadsNeeded(options)); !threads.ok())
    return Complain(kFailed, absl::StrCat("cannot start: ", threads.message()));
  options.exits_after_failure = true;
  const std::terminate_handler terminate = std::set_terminate(EndStart);
  absl::StatusOr<std::unique_ptr<Server>> server =
      CatchExceptions("starting", [&] { return Server::Start(std::move(options)); });
  std::set_terminate(terminate);
  if (!server.ok()) {
    const auto is = [&](ErrorReason reason) { return HasReason(server.status(), reason); };
    const bool is_usage = is(ErrorReason::kBadListenAddress) || is(ErrorReason::kRemoteListenAddress) ||
                          is(ErrorReason::kBadModelName) || is(ErrorReason::kBadFileRoot) ||
                          is(ErrorReason::kBadCredentials) || is(ErrorReason::kBadEndpoint);
    Complain(is_usage ? kWrongUsage : kFailed,
             absl::StrCat(server.status().message(),
                          is(ErrorReason::kDatabaseInUse) ? "; ask it, if it is a daemon, or give another --db" : ""));
    std::_Exit(is_usage ? kWrongUsage : kFailed);  // what it had begun may still run
  }
  stop->StopInOrderFromNowOn();
  if (!port_file.empty()) {
    const absl::Status written = WritePortFile(port_file, (*server)->address());
    if (!written.ok()) return Complain(kFailed, written.message());
  }
  supervisor.Ready(absl::StrCat("serving ", (*server)->address()));
  stop->Wait();
  supervisor.Stopping();
  (*server)->Shutdown(grace);
  server->reset();
  FlushLog(kFlushMs);
  return kDone;
}

// What the command line gives, before it is checked.
struct Flags {
  ServerOptions options;
  std::vector<std::string> models, adapters;
  std::string port_file, tokenizer_rules;
  std::string prefix_cache = "on";
  int grace_seconds = kGraceSeconds;
  LogTarget log;
  std::string log_format = "text";
  std::string log_level = "info";
};

// CLI11 would add its own text for every range and set to the help.
CLI::Validator Quiet(CLI::Validator validator) { return validator.description(""); }

void Repeatable(CLI::Option* option, const char* type) {
  option->type_name(type)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void AddFile(CLI::App& app, const char* name, std::string* target, const char* help) {
  app.add_option(name, *target, help)->type_name("FILE");
}

template <typename T>
void AddNumber(CLI::App& app, const char* name, T& target, const CLI::Range& range, const char* help,
               const char* type = "N") {
  app.add_option(name, target, help)->capture_default_str()->check(Quiet(range))->type_name(type);
}

CLI::Option* AddWord(CLI::App& app, const char* name, std::string& target, const std::vector<std::string>& words,
                     const char* type, const char* help) {
  return app.add_option(name, target, help)->check(Quiet(CLI::IsMember(words)))->type_name(type);
}

void AddModelFlags(CLI::App& app, Flags& flags) {
  ServerOptions& options = flags.options;
  app.add_option("--db", options.database_path, "Results database; created if missing, one daemon per file")
      ->required()
      ->type_name("FILE");
  Repeatable(app.add_option("--model", flags.models, "Serve the checkpoint in DIR as NAME; may be repeated"),
             "NAME=DIR");
  Repeatable(
      app.add_option(
          "--adapter", flags.adapters,
          "Serve the model BASE with the LoRA adapter in DIR, merged into its weights, as NAME; without BASE: the "
          "only --model. May be repeated"),
      "NAME=BASE:DIR");
  Repeatable(
      app.add_option("--endpoint", options.endpoints,
                     "Ask the model of another server over the OpenAI API: NAME=http://HOST:PORT/v1,tokenizer=DIR and "
                     "further settings (docs/endpoints.md); may be repeated"),
      "NAME=URL,..");
  app.add_option(
         "--endpoint-budget-tokens", options.endpoint_budget_tokens,
         "Tokens of prompts and answers that all endpoints may cost together; then requests are refused and jobs "
         "end, to be resumed with more. 0: no limit")
      ->capture_default_str()
      ->check(Quiet(CLI::Range(int64_t{0}, int64_t{1} << 50)))
      ->type_name("N");
}

void AddWorkerFlags(CLI::App& app, ServerOptions& options) {
  app.add_option("--workers", options.workers.addresses,
                 "Run the models on these daemons; a HOST may have many addresses, and workers may join and leave it. "
                 "--model=NAME=DIR is then read for its tokenizer alone (docs/scale.md)")
      ->type_name("HOST:PORT,..");
  AddNumber(app, "--workers-in-flight", options.workers.in_flight, CLI::Range(1, 1024),
            "Concurrent samples of one worker");
  AddFile(app, "--workers-tls-ca", &options.workers.tls_ca_file,
          "Reach the workers over TLS, and trust this authority (PEM)");
  AddFile(app, "--workers-token-file", &options.workers.token_file, "Send the token in FILE to the workers");
  app.add_flag("--allow-mixed", options.workers.allow_mixed,
               "Accept workers of several backends and instruction sets, whose bits may differ");
}

void AddServingFlags(CLI::App& app, Flags& flags) {
  ServerOptions& options = flags.options;
  app.add_option("--listen", options.listen_address,
                 "Listen address: HOST:PORT, port 0 binds a free one, or unix:PATH, a socket for this user only")
      ->capture_default_str()
      ->type_name("ADDRESS");
  app.add_option("--metrics-listen", options.metrics_address,
                 "Serve Prometheus metrics at http://127.0.0.1:PORT/metrics; port 0 binds a free one")
      ->type_name("ADDRESS");
  AddFile(app, "--port-file", &flags.port_file, "Write the bound port to FILE once serving");
  AddFile(app, "--tls-cert", &options.protection.tls_certificate, "Serve TLS with this certificate chain (PEM)");
  AddFile(app, "--tls-key", &options.protection.tls_key, "Private key of --tls-cert (PEM)");
  AddFile(app, "--tls-client-ca", &options.protection.tls_client_ca,
          "Require client certificates of this authority (PEM)");
  AddFile(app, "--token-file", &options.protection.token_file,
          "Require a token; each line has a role (viewer, submitter, admin), the token's SHA-256 and a name");
  Repeatable(app.add_option("--model-root", options.roots.model_roots,
                            "Restrict LoadModel to directories below DIR; may be repeated"),
             "DIR");
  Repeatable(app.add_option("--data-root", options.roots.data_roots,
                            "Restrict data files of jobs to files below DIR; may be repeated. With either option, only "
                            "files below these and the directories of --model are read"),
             "DIR");
  app.add_flag("--reflection", options.reflection, "Enable gRPC server reflection");
}

void AddDeviceFlags(CLI::App& app, Flags& flags) {
  ServerOptions& options = flags.options;
  app.add_option("--device", options.model.device,
                 "auto, cpu, reference, cuda:N, or cuda:0,1,.. for a copy of every model on each of these GPUs. "
                 "--model=NAME=DIR@cuda:1 places one model (docs/scale.md)")
      ->capture_default_str()
      ->type_name("NAME");
  AddWord(app, "--dtype", options.model.dtype, {"f32", "bf16"}, "NAME",
          "Number format, f32 or bf16; default: the device's native one");
  AddWord(app, "--tokenizer-rules", flags.tokenizer_rules, {"4", "5"}, "4|5",
          "Tokens as transformers 4 or 5 makes them, where a tokenizer's files are read differently by these");
  Repeatable(
      app.add_option(
          "--ignore-config-key", options.model.ignored_config_keys,
          "Ignore a key of config.json that would be refused as unknown or unsupported; recorded. NAME:KEY for one "
          "model; may be repeated"),
      "[NAME:]KEY");
  app.add_option("--cpu-isa", options.model.cpu_isa,
                 "Instruction set of the CPU kernels; default: the best supported one")
      ->type_name("NAME");
  app.add_flag("--cuda-graphs", options.model.cuda_graphs,
               "On a GPU, queue a decode step as one CUDA graph. Does not affect answers");
  for (const KernelFlag& flag : KernelFlags())
    app.add_option(absl::StrCat("--", flag.name), options.model.*flag.value, flag.help)->type_name("NAME");
  AddNumber(app, "--threads", options.model.threads, CLI::Range(0, 1024),
            "Threads per model, at most 1024; 0 means one per processor");
}

void AddEngineFlags(CLI::App& app, Flags& flags) {
  ServerOptions& options = flags.options;
  app.add_option("--prefill-chunk-tokens", options.engine.prefill_chunk_tokens,
                 "Prompt tokens per step; default: 512 on a CPU, 8192 on a GPU. Does not affect answers")
      ->check(Quiet(CLI::Range(int64_t{1}, int64_t{1} << 20)))
      ->type_name("N");
  AddWord(app, "--prefix-cache", flags.prefix_cache, {"on", "off"}, "on|off",
          "Reuse the keys and values of shared contexts; does not affect answers")
      ->capture_default_str();
  app.add_option("--kv-cache-bytes", options.engine.kv_cache_bytes,
                 "KV cache per model, such as 4GB; 0 means four full contexts, but at most a quarter of free memory")
      ->capture_default_str()
      ->transform(Quiet(CLI::AsSizeValue(/*kb_is_1000=*/false)))
      ->type_name("BYTES");
  AddNumber(app, "--batch-size-max", options.engine.batch_size_max, CLI::Range(int64_t{1}, int64_t{4096}),
            "Maximum decode batch size; does not affect answers");
  app.add_option("--in-flight", options.in_flight,
                 "Concurrent samples of a job; default: 8 for each copy of a model, 64 with --workers. Does not "
                 "affect answers")
      ->check(Quiet(CLI::Range(1, 1024)))
      ->type_name("N");
}

void AddLogFlags(CLI::App& app, Flags& flags) {
  AddFile(app, "--log-file", &flags.log.file,
          "Append log lines to FILE instead of standard error; reopened when it is renamed");
  AddWord(app, "--log-format", flags.log_format, {"text", "json"}, "NAME", "text or json, one object a line")
      ->capture_default_str();
  AddWord(app, "--log-level", flags.log_level, {"debug", "info", "warning", "error"}, "NAME",
          "debug (a line a sample), info, warning or error")
      ->capture_default_str();
  AddNumber(app, "--shutdown-grace", flags.grace_seconds, CLI::Range(0, 3600), "Seconds for active calls after SIGTERM",
            "S");
}

int Main(int argc, char** argv) {
  Flags flags;
  ServerOptions& options = flags.options;
  options.listen_address = "127.0.0.1:50151";
  options.engine.prefill_chunk_tokens = 0;  // the device's own
  CLI::App app(kDescription, "varifocald");
  app.footer(kFooter);
  app.get_formatter()->column_width(34);
  app.set_help_flag("-h,--help", "Print this and exit");
  app.set_version_flag("--version", std::string("varifocald ") + CodeVersion(), "Print the version and exit");
  AddModelFlags(app, flags);
  AddWorkerFlags(app, options);
  AddServingFlags(app, flags);
  AddDeviceFlags(app, flags);
  AddEngineFlags(app, flags);
  AddLogFlags(app, flags);
  app.allow_extras(true);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return Complain(kWrongUsage, error.what());
  }
  if (!app.remaining().empty()) return Complain(kWrongUsage, UnknownFlag(app, app.remaining()[0]));
  absl::Status added = ParseDevices(options.model.device).status();
  if (!added.ok()) return Complain(kWrongUsage, absl::StrCat("--device: ", added.message()));
  added = AddModels(flags.models, &options);
  if (added.ok()) added = AddAdapters(flags.adapters, &options);
  if (!added.ok()) return Complain(kWrongUsage, added.message());
  if (!options.workers.addresses.empty() && app.count("--in-flight") == 0) options.in_flight = kInFlightOfCoordinator;
  options.engine.prefix_cache = flags.prefix_cache == "on";
  options.model.tokenizer_rules = *ParseTokenizerRules(flags.tokenizer_rules);  // one of the set above
  flags.log.is_json = flags.log_format == "json";
  SetLogLevel(ToLogLevel(flags.log_level));
  options.command_line = absl::StrJoin(argv, argv + argc, " ");
  return Serve(std::move(options), flags.log, flags.port_file, std::chrono::seconds(flags.grace_seconds));
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) {
  varifocal::OpenStandardStreams();
  return varifocal::Main(argc, argv);
}
