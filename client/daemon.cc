#include "client/daemon.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/usage.h"

namespace varifocal::client {
namespace {

// gRFC A6: only UNAVAILABLE is tried again, and every call here may be (SubmitJob carries a request id).
constexpr char kServiceConfig[] = R"({"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4,
  "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]})";

constexpr std::chrono::seconds kConnectTime(5);

}  // namespace

Daemon::Daemon(const std::shared_ptr<grpc::Channel>& channel)
    : inference_(v1::Inference::NewStub(channel)), evaluation_(v1::Evaluation::NewStub(channel)) {}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Connect(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return UsageError(absl::StrCat("--daemon=", address, ": must be HOST:PORT with a port from 1 to 65535."));
  }
  const std::string host = address.substr(0, colon);
  const bool is_here = host == "127.0.0.1" || host == "localhost" || host == "[::1]";
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  arguments.SetServiceConfigJSON(kServiceConfig);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a daemon is near; a proxy between is a surprise
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  const auto deadline = std::chrono::system_clock::now() + kConnectTime;
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN ||
        !channel->WaitForStateChange(state, deadline)) {
      if (!is_here) {
        return absl::UnavailableError(
            absl::StrCat("No daemon answers at ", address, "; name another with --daemon=HOST:PORT."));
      }
      return absl::UnavailableError(absl::StrCat(
          "No daemon answers at ", address, "; start one with `varifocald --db=results.db --model=NAME=DIR",
          address == "127.0.0.1:50151" ? "" : absl::StrCat(" --listen=", address),
          "`, or name another with --daemon=HOST:PORT."));
    }
    state = channel->GetState(/*try_to_connect=*/true);
  }
  return std::make_unique<Daemon>(std::move(channel));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // The two enumerations share their numbers by design.
  std::string message = status.error_message();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    message = absl::StrCat("The daemon did not answer in time (", message, ").");
  } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    message = absl::StrCat("The daemon cannot be reached any more or is not ready: ", message);
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), message);
}

}  // namespace varifocal::client
