// varifocal health: whether a daemon serves, and each of its models answers a known prompt in time.
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <future>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/daemon.h"
#include "client/rows.h"
#include "client/verb.h"
#include "wire/channel.h"

namespace varifocal::client {
namespace {

// Any vocabulary has these.
constexpr int32_t kPrompt[] = {0, 1, 2, 1, 0};

// grpc.health.v1, written by hand: Debian has no compiled client. A message with one field: a string, or an enumeration.
absl::Status CheckService(const std::shared_ptr<grpc::Channel>& channel, const std::string& service,
                          std::chrono::system_clock::time_point deadline) {
  std::string request;
  if (!service.empty()) request = absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  const grpc::Slice slice(request);
  grpc::ByteBuffer in(&slice, 1), out;
  grpc::ClientContext context;
  context.set_deadline(deadline);
  std::promise<grpc::Status> done;
  KeepCallbackThreads();
  grpc::GenericStub(channel).UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &in, &out,
                                       [&done](grpc::Status status) { done.set_value(std::move(status)); });
  const grpc::Status status = done.get_future().get();
  if (!status.ok()) return FromGrpc(status);
  std::vector<grpc::Slice> parts;
  std::string answer;
  if (out.Dump(&parts).ok()) {
    for (const grpc::Slice& part : parts) answer.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  constexpr char kServing[] = {0x08, 0x01};
  if (answer == std::string(kServing, sizeof(kServing))) return absl::OkStatus();
  return Unavailable("not serving; the daemon's log has the cause");
}

absl::Status AskModel(v1::Inference::Stub& stub, const std::string& model,
                      std::chrono::system_clock::time_point deadline) {
  v1::GenerateRequest request;
  request.set_model(model);
  for (const int32_t id : kPrompt) request.mutable_prompt_token_ids()->add_ids(id);
  request.set_max_new_tokens(1);
  grpc::ClientContext context;
  context.set_deadline(deadline);
  const auto stream = stub.Generate(&context, request);
  bool has_result = false;
  for (v1::GenerateResponse response; stream->Read(&response);) has_result = has_result || response.has_result();
  const grpc::Status status = stream->Finish();
  if (!status.ok()) return FromGrpc(status);
  return has_result ? absl::OkStatus() : Internal("the stream ended without a result");
}

class Health : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("timeout", &timeout_s_, "S", "seconds for each check; default: 10").AtLeast(1).AtMost(3600);
    flags.Add("services-only", &services_only_, "ask no model, which needs the role of a submitter");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    Rows rows(console, {{.key = "name", .title = "name"},
                        {.key = "serving", .title = "serving"},
                        {.key = "milliseconds", .title = "ms", .right_aligned = true},
                        {.key = "cause", .title = "cause"}});
    bool all_serve = true;
    const auto check = [&](const std::string& name, const auto& call) -> absl::Status {
      const auto start = std::chrono::steady_clock::now();
      const absl::Status status = call(std::chrono::system_clock::now() + std::chrono::seconds(timeout_s_));
      const auto spent = std::chrono::steady_clock::now() - start;
      all_serve = all_serve && status.ok();
      return rows.Add({{"name", name},
                       {"serving", status.ok()},
                       {"milliseconds", std::chrono::duration_cast<std::chrono::milliseconds>(spent).count()},
                       {"cause", std::string(status.message())}});
    };
    for (const char* service : {v1::Inference::service_full_name(), v1::Evaluation::service_full_name()}) {
      RETURN_IF_ERROR(
          check(service, [&](const auto& deadline) { return CheckService(daemon->channel(), service, deadline); }));
    }
    if (!services_only_) {
      RETURN_IF_ERROR(EachModel(*daemon, [&](const v1::Model& model) {
        if (model.state() == v1::Model::LOADING) return absl::OkStatus();
        return check(model.name(),
                     [&](const auto& deadline) { return AskModel(daemon->inference(), model.name(), deadline); });
      }));
    }
    RETURN_IF_ERROR(rows.Finish());
    return all_serve ? ExitCode::kDone : ExitCode::kFailed;
  }

 private:
  int64_t timeout_s_ = 10;
  bool services_only_ = false;
};

}  // namespace

constinit const Verb kHealthVerb = {
    .name = "health",
    .group = "Models",
    .summary = "check that a daemon serves and each model answers in time",
    .about =
        R"(Asks grpc.health.v1 for both services, then runs a prompt of five tokens on each model, each with a deadline of
--timeout seconds. Exit code 1 when one of them fails. A model whose queue is longer than that fails as well.)",
    .examples = "varifocal health --timeout=5",
    .formats = "text json jsonl csv",
    .make = &Make<Health>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client
