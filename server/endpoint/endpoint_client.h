// One model server: requests with retries, and what it was found to be able to do.
//
// Failures have three classes. A busy or broken exchange (no connection, a cut or late reply, 408, 429, 5xx, a body that
// is not JSON) is attempted again, after the server's Retry-After or a pause that doubles; a pause that the server asked for holds back all
// requests. A refusal of the request (400, 422, ..; a wrong count) is the result of that request. A condition that no request can
// pass (wrong key, other model, TLS, no connection after all attempts) is the server's fault, and carries
// ErrorReason::kEndpointFaulted.
//
// With a budget, an attempt reserves its prompt and the most new tokens before it is sent. It costs what the server
// counted; nothing where the server refused it; all that was reserved where the reply cannot be read, which may have cost that.
//
// Errors:  UNAVAILABLE (ENDPOINT_FAULTED), RESOURCE_EXHAUSTED (ENDPOINT_BUDGET_SPENT), CANCELLED, or the result of the
//          request: FAILED_PRECONDITION, INTERNAL, INVALID_ARGUMENT, OUT_OF_RANGE (ENDPOINT_REFUSED, ENDPOINT_BAD_REPLY, ..).
//          Every message is free of the API key.
//          Metadata "attemptCount" has the number of attempts.
// Threads: any number may send at once; each call blocks its caller, through all attempts.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/endpoint/completion.h"
#include "server/endpoint/endpoint_budget.h"
#include "server/endpoint/endpoint_spec.h"
#include "server/endpoint/http_client.h"

namespace varifocal {

struct Completed {
  Completion completion;
  int attempt_count = 1;
};

class EndpointClient {
 public:
  using IsCancelled = std::function<bool()>;

  // `pause` waits for a duration in microseconds and returns early once cancelled.
  using Pause = std::function<void(int64_t us, const IsCancelled& is_cancelled)>;

  // `is_abandoned` ends Connect and TryOnce, which find out what a server is, with CANCELLED.
  EndpointClient(EndpointSpec spec, std::unique_ptr<HttpClient> http, const Clock& clock, Pause pause,
                 std::shared_ptr<EndpointBudget> budget = nullptr, IsCancelled is_abandoned = {});

  // What the server states about itself and its model; sets the model name of later requests.
  // FAILED_PRECONDITION when it has no such model, or several and none is named.
  absl::Status Connect(const IsCancelled& is_cancelled = {});
  const ServedModel& model() const { return model_; }
  const std::string& version() const { return version_; }       // of GET /version; may be empty
  const std::string& server_header() const { return server_; }  // may be empty

  // `request.model` is filled in.
  absl::StatusOr<Completed> Complete(CompletionRequest request, const IsCancelled& is_cancelled);
  // One attempt, for finding out what a server supports.
  absl::StatusOr<Completion> TryOnce(CompletionRequest request);

  // Whether the server lists its models now, and the one that is asked is among them.
  bool IsServingModel(const IsCancelled& is_cancelled);

  const EndpointSpec& spec() const { return spec_; }

 private:
  struct Failure;
  // A reply of status 200, or a failure.
  absl::StatusOr<HttpReply> Exchange(const std::string& url, const std::string& body, const IsCancelled& is_cancelled,
                                     Failure* failure);
  Failure Classify(const absl::Status& status) const;
  Failure Classify(const std::string& url, const HttpReply& reply) const;
  template <typename Try>
  auto WithRetries(const Try& attempt, int attempts_max, const IsCancelled& is_cancelled, int* attempt_count)
      -> decltype(attempt(std::declval<Failure*>()));
  int64_t AskedPauseUs(const HttpReply& reply) const;
  std::string WithoutKey(std::string text) const;
  absl::StatusOr<Completion> Attempt(const CompletionRequest& request, const std::string& body,
                                     const IsCancelled& is_cancelled, Failure* failure);
  absl::StatusOr<Completion> Ask(const CompletionRequest& request, const std::string& body,
                                 const IsCancelled& is_cancelled, Failure* failure);

  const EndpointSpec spec_;
  const std::unique_ptr<HttpClient> http_;
  const Clock& clock_;
  const Pause pause_;
  const std::shared_ptr<EndpointBudget> budget_;  // null: no limit
  const IsCancelled is_abandoned_;                // may be empty
  ServedModel model_;
  std::string version_, server_;
  std::atomic<int64_t> not_before_us_{0};  // monotonic; of Retry-After
};

// Sleeps in slices; for a daemon.
EndpointClient::Pause SleepingPause();

}  // namespace varifocal
