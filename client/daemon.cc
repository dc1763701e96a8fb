#include "client/daemon.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "client/page_tokens.h"
#include "client/usage.h"
#include "wire/channel.h"
#include "wire/message_limits.h"

namespace varifocal::client {
namespace {

// gRFC A6: only UNAVAILABLE is retried, which is safe for every call here (SubmitJob has a request id).
constexpr char kServiceConfig[] = R"({"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4,
  "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]})";

constexpr std::chrono::seconds kAttemptTime(5);
constexpr int kFirstRetryMs = 100, kLastRetryMs = 500;  // while a daemon starts

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  const absl::string_view token = absl::StripAsciiWhitespace(absl::string_view(text).substr(0, text.find('\n')));
  if (!token.empty()) return std::string(token);
  return InvalidArgument("--token-file=", path, ": its first line must be the token.");
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const DaemonTarget& target) {
  ChannelSecrets secrets;
  if (target.tls_ca.empty()) {
    if (!target.tls_certificate.empty() || !target.tls_key.empty()) {
      return UsageError("--tls-cert and --tls-key need --tls-ca=FILE.");
    }
    if (!target.token_file.empty() && !IsLocalAddress(target.address)) {
      return UsageError("--token-file needs --tls-ca=FILE: a token leaves this machine over TLS only.");
    }
  } else {
    if (target.tls_certificate.empty() != target.tls_key.empty()) {
      return UsageError("--tls-cert and --tls-key must be given together.");
    }
    ASSIGN_OR_RETURN(secrets.root_certificates, ReadWholeFile(target.tls_ca));
    if (!target.tls_certificate.empty()) {
      ASSIGN_OR_RETURN(secrets.certificate, ReadWholeFile(target.tls_certificate));
      ASSIGN_OR_RETURN(secrets.key, ReadWholeFile(target.tls_key));
    }
  }
  if (!target.token_file.empty()) {
    ASSIGN_OR_RETURN(secrets.token, ReadToken(target.token_file));
  }
  return MakeChannelCredentials(target.address, secrets);
}

}  // namespace

Daemon::Daemon(const std::shared_ptr<grpc::Channel>& channel)
    : channel_(channel), inference_(v1::Inference::NewStub(channel)), evaluation_(v1::Evaluation::NewStub(channel)) {}

namespace {

// Why a channel does not connect, in words; "" where nothing listens, as before a daemon is started.
std::string WhyNotConnected(const std::shared_ptr<grpc::Channel>& channel, bool with_tls) {
  grpc::ClientContext context;
  context.set_wait_for_ready(false);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  v1::ListModelsResponse unused;
  const grpc::Status status = v1::Inference::NewStub(channel)->ListModels(&context, v1::ListModelsRequest(), &unused);
  const std::string text = absl::AsciiStrToLower(status.error_message());
  const auto has = [&](absl::string_view part) { return absl::StrContains(text, part); };
  const bool is_absent = has("connection refused") || has("no such file");
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || is_absent) return "";
  if (has("certificate verify failed")) return "its certificate is not of an authority in --tls-ca";
  if (has("hostname verification") || has("peer name")) return "its certificate is for another name";
  if (has("empty address list")) return "--tls-ca has no certificate of an authority";
  if (has("socket closed")) {
    return with_tls ? "it does not speak TLS, which --tls-ca asks for"
                    : "it ends the connection; one with TLS needs --tls-ca=FILE";
  }
  if (has("dns resolution")) return "the name does not resolve";
  return status.error_message();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Connect(const DaemonTarget& target) {
  const std::string& address = target.address;
  if (const absl::Status valid = CheckAddress(address); !valid.ok()) {
    return UsageError("--daemon=", address, ": ", valid.message(), ".");
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials, MakeCredentials(target));
  grpc::ChannelArguments arguments = MakeChannelArguments(kMessageBytesMax);
  arguments.SetServiceConfigJSON(kServiceConfig);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstRetryMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastRetryMs);
  std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(address, credentials, arguments);
  const bool is_once = target.connect_seconds == 0;
  const auto deadline =
      std::chrono::system_clock::now() + (is_once ? kAttemptTime : std::chrono::seconds(target.connect_seconds));
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    const bool is_refused = is_once && state == GRPC_CHANNEL_TRANSIENT_FAILURE;
    if (is_refused || state == GRPC_CHANNEL_SHUTDOWN || !channel->WaitForStateChange(state, deadline)) {
      if (const std::string why = WhyNotConnected(channel, !target.tls_ca.empty()); !why.empty())
        return Unavailable("No daemon can be asked at ", address, ": ", why, ".");
      if (!IsLocalAddress(address)) {
        return Unavailable("No daemon answers at ", address, "; name another with --daemon=ADDRESS.");
      }
      return Unavailable("No daemon answers at ", address,
                         "; start one with `varifocald --db=results.db --model=NAME=DIR",
                         address == "127.0.0.1:50151" ? "" : absl::StrCat(" --listen=", address),
                         "`, or name another with --daemon=ADDRESS.");
    }
    state = channel->GetState(/*try_to_connect=*/true);
  }
  return std::make_unique<Daemon>(std::move(channel));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // The two enumerations have the same values.
  std::string message = status.error_message();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    message = absl::StrCat("The daemon did not answer in time (", message, ").");
  } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    message = absl::StrCat("The daemon is no longer reachable or not ready: ", message);
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), message);
}

absl::Status EachModel(Daemon& daemon, const std::function<absl::Status(const v1::Model&)>& use) {
  v1::ListModelsRequest request;
  PageTokens tokens;
  for (bool has_more = true; has_more;) {
    ASSIGN_OR_RETURN(const v1::ListModelsResponse page,
                     Call(daemon.inference(), &v1::Inference::Stub::ListModels, request));
    for (const v1::Model& model : page.models()) RETURN_IF_ERROR(use(model));
    request.set_page_token(page.next_page_token());
    ASSIGN_OR_RETURN(has_more, tokens.HasNext(page.next_page_token(), page.models_size()));
  }
  return absl::OkStatus();
}

}  // namespace varifocal::client
