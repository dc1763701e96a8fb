#include "server/server.h"

#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/code_version.h"
#include "base/exceptions.h"
#include "base/files.h"
#include "base/http_server.h"
#include "base/log.h"
#include "base/log_tally.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "eval_tasks/novels.h"
#include "eval_tasks/ruler/inputs.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/server_posix.h"
#include "server/endpoint/endpoint_budget.h"
#include "server/endpoint/endpoint_model.h"
#include "server/endpoint_retries.h"
#include "server/front/front.h"
#include "server/front/listen_address.h"
#include "server/health_monitor.h"
#include "server/jobs/job_manager.h"
#include "server/listener_watchdog.h"
#include "server/metrics.h"
#include "server/rpc/admission.h"
#include "server/rpc/call_counts.h"
#include "server/rpc/engine_gate.h"
#include "server/rpc/evaluation_service.h"
#include "server/rpc/health_service.h"
#include "server/rpc/inference_service.h"
#include "server/rpc/refusals.h"
#include "server/rpc/rpc_pools.h"
#include "server/workers/worker_addresses.h"
#include "server/workers/worker_model.h"

namespace varifocal {
namespace {

// Timeout of a write waiting for another process's lock: the current job pauses and retries, and a caller of CancelJob
// waits for at most two of these.
constexpr int kBusyTimeoutMs = 1000;

// The reflection library registers itself with every server of the process when it is loaded.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

absl::StatusOr<ChannelSecrets> ReadSecrets(const ServerOptions::Workers& workers) {
  constexpr FileKind kSecretFile = {"a file of credentials", 1 << 20};
  ChannelSecrets secrets;
  if (!workers.tls_ca_file.empty()) {
    ASSIGN_OR_RETURN(secrets.root_certificates, ReadFile(workers.tls_ca_file, kSecretFile));
  }
  if (!workers.token_file.empty()) {
    if (workers.tls_ca_file.empty()) {
      return WithReason(InvalidArgument("--workers-token-file needs --workers-tls-ca: a token is sent over TLS only"),
                        ErrorReason::kBadCredentials);
    }
    ASSIGN_OR_RETURN(const std::string text, ReadFile(workers.token_file, kSecretFile));
    secrets.token = std::string(absl::StripAsciiWhitespace(text));
  }
  return secrets;
}

absl::StatusOr<std::shared_ptr<RemoteWorkers>> ConnectWorkers(const ServerOptions& options, ChannelSecrets secrets) {
  RemoteWorkersOptions workers;
  absl::StatusOr<std::vector<std::string>> addresses = ParseWorkerAddresses(options.workers.addresses);
  if (!addresses.ok()) return WithReason(addresses.status(), ErrorReason::kBadListenAddress);
  workers.addresses = *std::move(addresses);
  workers.secrets = std::move(secrets);
  workers.in_flight = options.workers.in_flight;
  workers.allow_mixed = options.workers.allow_mixed;
  for (const ServerOptions::NamedModel& model : options.models) workers.model_names.push_back(model.name);
  if (workers.model_names.empty()) {
    return WithReason(InvalidArgument("--workers needs --model=NAME=DIR for every model that they serve"),
                      ErrorReason::kBadModelName);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<RemoteWorkers> connected, RemoteWorkers::Connect(workers));
  return connected;
}

// Models on the command line may be outside the roots.
absl::Status Confine(const ServerOptions& options, const std::vector<EndpointSpec>& endpoints) {
  if (options.roots.empty()) return absl::OkStatus();
  FileRoots roots = options.roots;
  for (const EndpointSpec& endpoint : endpoints) roots.own_model_directories.push_back(endpoint.tokenizer_directory);
  for (const ServerOptions::NamedModel& model : options.models) {
    const CheckpointPlace place = CheckpointOf(model.directory);
    roots.own_model_directories.push_back(place.directory);
    if (!place.adapter.empty()) roots.own_model_directories.push_back(place.adapter);
  }
  roots.own_data_directories.push_back(DefaultNovelsDirectory());
  roots.own_data_directories.push_back(ruler::DefaultRulerDirectory());
  return ConfineFiles(roots);
}

HttpAnswer AnswerScrape(const MetricsSources& sources, const HttpRequest& request) {
  HttpAnswer answer{.content_type = "text/plain; version=0.0.4; charset=utf-8"};
  if (request.path != "/metrics") {
    answer.status = 404;
    answer.body = "The metrics are at /metrics.\n";
    return answer;
  }
  absl::StatusOr<std::string> text = CatchExceptions("collecting metrics", [&] { return MetricsText(sources); });
  if (!text.ok()) answer.status = 500;
  answer.body = text.ok() ? *std::move(text) : absl::StrCat(text.status().message(), "\n");
  return answer;
}

// What to do about an address that is taken.
absl::Status ExplainAddress(const std::string& address, const absl::Status& cannot_listen) {
  constexpr int kProbeMs = 1000;
  if (!HasReason(cannot_listen, ErrorReason::kAddressInUse)) return cannot_listen;
  const bool answers = ProbeListener(address, /*has_tls=*/false, kProbeMs).ok();
  return WithReason(
      FailedPrecondition(
          "cannot listen on ", address,
          answers ? absl::StrCat(", where a varifocald answers already: use that one with --daemon=", address, ", or")
                  : std::string(", which another program has:"),
          " give --listen=127.0.0.1:0, which takes a free port, or --listen=unix:PATH"),
      ErrorReason::kAddressInUse);
}

}  // namespace

// In dependency order: each part is used by those below it and destroyed after them.
struct Server::Parts {
  std::unique_ptr<UnixSocketClaim> socket;  // null with another address
  std::unique_ptr<CurrentCredentials> credentials;
  std::unique_ptr<ModelHost> host;
  std::unique_ptr<JobManager> jobs;  // null without a database
  Admission admission;
  CallCounts calls;
  std::unique_ptr<RpcPools> pools;
  std::unique_ptr<EngineGate> gate;
  LogTally refusals;
  Callers callers;
  std::unique_ptr<Audit> audit;
  HealthService health_service;
  std::unique_ptr<InferenceService> inference;
  std::unique_ptr<EvaluationService> evaluation;
  std::unique_ptr<grpc::Server> grpc_server;
  std::unique_ptr<Front> front;  // null without a listen address
  std::unique_ptr<HealthMonitor> health;
  std::unique_ptr<EndpointRetries> retries;    // null while all endpoints answered
  std::unique_ptr<ListenerWatchdog> watchdog;  // null without on_listener_dead
  std::unique_ptr<HttpServer> metrics;         // null without metrics_address
  std::once_flag shut_down;

  // What the steps of a start give each other.
  struct Setup {
    ServerOptions options;
    ListenAddress listen;
    int metrics_port = 0;
    std::vector<EndpointSpec> endpoints;
    ChannelSecrets worker_secrets;
    EndpointRetries::Connect connect;
    std::vector<EndpointSpec> off;  // endpoints that do not answer
  };
  // The steps, in this order.
  absl::Status ReadAddresses(Setup& setup);        // and takes that of a socket
  absl::Status ReadFilesAndConfine(Setup& setup);  // keys may be outside the roots
  absl::Status OpenDatabase(Setup& setup);         // a lock of another writer is found before the expensive loading
  absl::Status LoadModels(Setup& setup);
  absl::Status ConnectEndpoints(Setup& setup);
  absl::Status StartServices(const Setup& setup);          // within the process alone
  absl::StatusOr<std::string> Listen(const Setup& setup);  // the address, with its port
  void Serve();
  void StartMonitors(Setup& setup, const std::string& address);
  absl::Status StartMetrics(const Setup& setup);

  void SetHealth(const std::string& name, bool is_serving) { health_service.Set(name, is_serving); }
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  // Never shut down: gRPC 1.51 does that on a thread of its own, and waits endlessly where none can be made.
  static std::once_flag once;
  std::call_once(once, grpc_init);
  auto server = std::unique_ptr<Server>(new Server(std::make_unique<Parts>()));
  const bool exits = options.exits_after_failure;
  const absl::Status status = CatchExceptions("starting", [&] { return server->Init(std::move(options)); });
  if (status.ok()) return server;
  if (exits) (void)server.release();
  return status;
}

absl::Status Server::Init(ServerOptions options) {
  Parts::Setup setup = {.options = std::move(options)};
  RETURN_IF_ERROR(parts_->ReadAddresses(setup));
  RETURN_IF_ERROR(parts_->ReadFilesAndConfine(setup));
  RETURN_IF_ERROR(parts_->OpenDatabase(setup));
  RETURN_IF_ERROR(parts_->LoadModels(setup));
  RETURN_IF_ERROR(parts_->ConnectEndpoints(setup));
  RETURN_IF_ERROR(parts_->StartServices(setup));
  if (!setup.options.listen_address.empty()) {
    ASSIGN_OR_RETURN(address_, parts_->Listen(setup));
  }
  parts_->Serve();
  parts_->StartMonitors(setup, address_);
  if (!setup.options.metrics_address.empty()) {
    RETURN_IF_ERROR(parts_->StartMetrics(setup));
    Log(LogLevel::kInfo, "metrics", {{"url", absl::StrCat("http://127.0.0.1:", metrics_port(), "/metrics")}});
  }
  Log(LogLevel::kInfo, "serving",
      {{"address", address_},
       {"database", setup.options.database_path},
       {"models", parts_->host->List().size()},
       {"version", CodeVersion()}});
  return absl::OkStatus();
}

absl::Status Server::Parts::ReadAddresses(Setup& setup) {
  const ServerOptions& options = setup.options;
  if (!options.listen_address.empty()) {
    const absl::Status good =
        CheckListenAddress(options.listen_address, {.has_tls = options.protection.has_tls(),
                                                    .knows_callers = options.protection.knows_callers(),
                                                    .has_file_roots = !options.roots.empty()});
    RETURN_IF_ERROR(ExplainAddress(options.listen_address, good));
    ASSIGN_OR_RETURN(setup.listen, ParseListenAddress(options.listen_address));
  }
  if (!options.metrics_address.empty()) {
    ASSIGN_OR_RETURN(setup.metrics_port, LoopbackPort(options.metrics_address, "--metrics-listen"));
  }
  if (setup.listen.is_unix()) {
    absl::StatusOr<std::unique_ptr<UnixSocketClaim>> taken = UnixSocketClaim::Take(setup.listen.socket_path);
    if (!taken.ok()) return ExplainAddress(options.listen_address, taken.status());
    socket = *std::move(taken);
  }
  return absl::OkStatus();
}

absl::Status Server::Parts::ReadFilesAndConfine(Setup& setup) {
  const ServerOptions& options = setup.options;
  for (const std::string& text : options.endpoints) {
    ASSIGN_OR_RETURN(setup.endpoints.emplace_back(), ParseEndpointSpec(text));
  }
  RETURN_IF_ERROR(CheckProtection(options.protection, options.reflection));
  ASSIGN_OR_RETURN(credentials, CurrentCredentials::Read(options.protection.tls_files(), options.protection.token_file,
                                                         *options.clock));
  audit = std::make_unique<Audit>(credentials.get(), &callers);
  ASSIGN_OR_RETURN(setup.worker_secrets, ReadSecrets(options.workers));
  return Confine(options, setup.endpoints);
}

absl::Status Server::Parts::OpenDatabase(Setup& setup) {
  ServerOptions& options = setup.options;
  if (!options.model_factory && options.models.empty()) {
    // Without a model at the start a wrong name would be found by the first LoadModel.
    const ModelOptions ours;
    if (options.model.cpu_isa != ours.cpu_isa || options.model.device != ours.device ||
        options.model.dtype != ours.dtype) {
      RETURN_IF_ERROR(CheckModelOptions(options.model));
    }
  }
  if (!options.model_factory) options.model_factory = MakeModelFactory(options.model, options.engine);
  host = std::make_unique<ModelHost>(std::move(options.model_factory));
  if (options.database_path.empty()) return absl::OkStatus();
  JobManagerOptions job_options;
  job_options.database_path = options.database_path;
  job_options.command_line = options.command_line;
  job_options.in_flight = options.in_flight;
  job_options.busy_timeout_ms = kBusyTimeoutMs;
  for (const ServerOptions::NamedModel& model : options.models) job_options.own_models.insert(model.name);
  for (const EndpointSpec& endpoint : setup.endpoints) job_options.own_models.insert(endpoint.name);
  job_options.clock = options.clock;
  ASSIGN_OR_RETURN(jobs, JobManager::Create(host.get(), job_options));
  return absl::OkStatus();
}

absl::Status Server::Parts::LoadModels(Setup& setup) {
  const ServerOptions& options = setup.options;
  std::shared_ptr<RemoteWorkers> workers;
  if (!options.workers.addresses.empty()) {
    ASSIGN_OR_RETURN(workers, ConnectWorkers(options, std::move(setup.worker_secrets)));
  }
  for (const ServerOptions::NamedModel& model : options.models) {
    const auto remote = [&](const std::string& name, const std::string& directory) {
      return MakeWorkerModel(workers, name, directory, options.model);
    };
    RETURN_IF_ERROR((workers == nullptr ? host->Load(model.name, model.directory)
                                        : host->LoadWith(model.name, model.directory, remote))
                        .status());
  }
  return absl::OkStatus();
}

absl::Status Server::Parts::ConnectEndpoints(Setup& setup) {
  const ServerOptions& options = setup.options;
  absl::Status first_off;
  std::shared_ptr<EndpointBudget> budget;
  if (options.endpoint_budget_tokens > 0) budget = std::make_shared<EndpointBudget>(options.endpoint_budget_tokens);
  setup.connect = [clock = options.clock, rules = options.model.tokenizer_rules, budget](
                      const EndpointSpec& spec, const std::function<bool()>& is_abandoned) {
    return MakeEndpointModel(spec, *clock, rules, budget, is_abandoned);
  };
  for (const EndpointSpec& endpoint : setup.endpoints) {
    const auto make = [&](const std::string&, const std::string&) { return setup.connect(endpoint, {}); };
    const absl::Status connected = host->LoadWith(endpoint.name, endpoint.url, make).status();
    if (connected.ok()) continue;
    // A program that serves its own calls alone, and a daemon that would serve nothing, say at once what is wrong.
    if (options.listen_address.empty() || HasReason(connected, ErrorReason::kBadEndpoint)) return connected;
    first_off.Update(connected);
    host->AddOff(endpoint.name, endpoint.url, connected);
    setup.off.push_back(endpoint);
    Log(LogLevel::kWarning, "endpoint_off",
        {{"model", endpoint.name}, {"url", endpoint.url}, {"error", connected.message()}});
  }
  if (jobs != nullptr) jobs->LoadCalledModels();
  return host->List().empty() ? first_off : absl::OkStatus();
}

absl::Status Server::Parts::StartServices(const Setup& setup) {
  pools = std::make_unique<RpcPools>(*setup.options.clock);
  const auto calls_max = [this](const std::string& name) {
    return host->ServingCopyCount(name) *
           (jobs != nullptr && jobs->HasActiveJob() ? kEngineCallsBesideJobMax : kEngineCallsMax);
  };
  gate = std::make_unique<EngineGate>(&pools->start, calls_max);
  const auto listener = [this](const std::string& name, bool is_serving) { SetHealth(HealthName(name), is_serving); };
  inference = std::make_unique<InferenceService>(host.get(), jobs.get(), pools.get(), &admission, gate.get(),
                                                 audit.get(), listener);
  evaluation = std::make_unique<EvaluationService>(jobs.get(), pools.get(), &admission, audit.get());

  grpc::ServerBuilder builder;
  if (setup.options.reflection) {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  } else {
    builder.SetOption(std::make_unique<WithoutReflection>());
  }
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.SetMaxSendMessageSize(kMessageBytesMax);
  SetTransportLimits(builder, setup.options.timeouts);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(MakeRefusals(credentials.get(), &callers, &refusals));
  interceptors.push_back(MakeCallCounter(&calls));  // after the one that replaces statuses
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  builder.RegisterService(inference.get());
  builder.RegisterService(evaluation.get());
  builder.RegisterService(&health_service);
  grpc_server = builder.BuildAndStart();
  return grpc_server == nullptr ? Internal("gRPC's server cannot be started") : absl::OkStatus();
}

absl::StatusOr<std::string> Server::Parts::Listen(const Setup& setup) {
  const std::string& address = setup.options.listen_address;
  std::optional<PrivateFilesScope> owner_only;
  if (setup.listen.is_unix()) owner_only.emplace();
  absl::StatusOr<std::unique_ptr<Front>> listening =
      Front::Listen({.address = setup.listen,
                     .tls = [credentials = credentials.get()] { return credentials->tls(); },
                     .limits = {.message_bytes_max = kMessageBytesMax},
                     .handshake_us = setup.options.timeouts.handshake_ms * int64_t{1000},
                     .connections_max = ConnectionsMax(),
                     .callers = &callers,
                     .refusals = &refusals});
  if (!listening.ok()) return ExplainAddress(address, listening.status());
  front = *std::move(listening);
  if (setup.listen.is_unix()) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", front->port());
}

void Server::Parts::Serve() {
  SetHealth("", true);
  SetHealth(v1::Inference::service_full_name(), true);
  SetHealth(v1::Evaluation::service_full_name(), true);
  for (const auto& model : host->List()) SetHealth(HealthName(model->name), true);
  for (const auto& model : host->Off()) SetHealth(HealthName(model.name), false);
  if (front != nullptr)
    front->Start([grpc_server = grpc_server.get()](int fd) { grpc::AddInsecureChannelFromFd(grpc_server, fd); });
  if (jobs != nullptr) jobs->Start();
}

void Server::Parts::StartMonitors(Setup& setup, const std::string& address) {
  ServerOptions& options = setup.options;
  health = std::make_unique<HealthMonitor>(
      pools.get(), jobs.get(), host.get(),
      [this](const std::string& service, bool is_serving) { SetHealth(service, is_serving); },
      [this, on_alive = std::move(options.on_alive)](bool is_alive) {
        health_service.Poll();
        if (is_alive && on_alive) on_alive();
      },
      *options.clock);
  if (!setup.off.empty()) {
    retries = std::make_unique<EndpointRetries>(
        std::move(setup.off), host.get(), *options.clock, setup.connect,
        [this](const std::string& name) { SetHealth(HealthName(name), true); }, options.endpoint_retry_ms);
  }
  if (options.on_listener_dead && !address.empty()) {
    watchdog = std::make_unique<ListenerWatchdog>(
        address, options.protection.has_tls(), [this](int fd) { front->Pass(fd); },
        std::move(options.on_listener_dead));
  }
}

absl::Status Server::Parts::StartMetrics(const Setup& setup) {
  const MetricsSources sources = {
      .host = host.get(),
      .jobs = jobs.get(),
      .pools = pools.get(),
      .admission = &admission,
      .gate = gate.get(),
      .calls = &calls,
      .credentials = credentials.get(),
      .database_path = setup.options.database_path,
      .count_connections = [this] { return front == nullptr ? 0 : front->connection_count(); },
      .clock = setup.options.clock};
  ASSIGN_OR_RETURN(metrics, HttpServer::Start(setup.metrics_port, [sources](const HttpRequest& request) {
                     return AnswerScrape(sources, request);
                   }));
  return absl::OkStatus();
}

int Server::metrics_port() const { return parts_->metrics == nullptr ? 0 : parts_->metrics->port(); }

Server::~Server() { Shutdown(std::chrono::milliseconds(0)); }

std::shared_ptr<grpc::Channel> Server::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  return parts_->grpc_server->InProcessChannel(arguments);
}

void Server::Shutdown(std::chrono::milliseconds grace) {
  std::call_once(parts_->shut_down, [&] {
    if (parts_->grpc_server == nullptr) return;  // it never started
    Log(LogLevel::kInfo, "shutting_down", {{"grace_ms", grace.count()}});
    if (parts_->health != nullptr) parts_->health->Stop();
    parts_->retries = nullptr;
    parts_->watchdog = nullptr;
    parts_->metrics = nullptr;
    if (parts_->front != nullptr) parts_->front->StopAccepting();
    parts_->health_service.Shutdown();
    if (parts_->jobs != nullptr) parts_->jobs->Stop();
    parts_->evaluation->EndWatches();
    parts_->grpc_server->Shutdown(std::chrono::system_clock::now() + grace);
    parts_->grpc_server->Wait();
    parts_->front = nullptr;
    Log(LogLevel::kInfo, "stopped");
  });
}

}  // namespace varifocal
