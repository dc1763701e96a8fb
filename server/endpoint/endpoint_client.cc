#include "server/endpoint/endpoint_client.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int64_t kReplyBytesMax = 64 << 20;       // log-probabilities of 128K tokens with their texts take 13 MB
constexpr int64_t kFirstPauseUs = 500'000;         // doubled with every attempt ..
constexpr int64_t kLongestPauseUs = 60'000'000;    // .. up to here
constexpr int64_t kRetryAfterMaxUs = 600'000'000;  // a server that asks for more is treated as asking for this
constexpr int64_t kMetadataTimeoutMs = 10'000;     // of requests for the server's description
constexpr int kMetadataAttemptsMax = 2;            // a start with a wrong address should not take minutes
constexpr auto kSlice = std::chrono::milliseconds(20);

}  // namespace

struct EndpointClient::Failure {
  absl::Status status;
  bool retry = false;
  bool is_of_server = false;  // after the last attempt: no request can pass
  bool is_unread = false;     // the server may have answered, and the answer is lost
  int64_t pause_us = 0;       // that the server asked for
};

EndpointClient::Pause SleepingPause() {
  return [](int64_t us, const EndpointClient::IsCancelled& is_cancelled) {
    const auto due = std::chrono::steady_clock::now() + std::chrono::microseconds(us);
    while (std::chrono::steady_clock::now() < due && !(is_cancelled && is_cancelled()))
      std::this_thread::sleep_for(kSlice);
  };
}

EndpointClient::EndpointClient(EndpointSpec spec, std::unique_ptr<HttpClient> http, const Clock& clock, Pause pause,
                               std::shared_ptr<EndpointBudget> budget, IsCancelled is_abandoned)
    : spec_(std::move(spec)),
      http_(std::move(http)),
      clock_(clock),
      pause_(std::move(pause)),
      budget_(std::move(budget)),
      is_abandoned_(std::move(is_abandoned)) {}

// Servers repeat a key that they refuse.
std::string EndpointClient::WithoutKey(std::string text) const {
  return spec_.key.empty() ? text : absl::StrReplaceAll(text, {{spec_.key, "[API key]"}});
}

EndpointClient::Failure EndpointClient::Classify(const absl::Status& status) const {
  const std::string message = WithoutKey(std::string(status.message()));
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      return {.status = status, .is_unread = true};
    case absl::StatusCode::kAborted:
      return {WithReason(absl::UnavailableError(message), ErrorReason::kEndpointFaulted), true, true, true};
    case absl::StatusCode::kUnavailable:
      return {WithReason(absl::UnavailableError(message), ErrorReason::kEndpointFaulted), true, true};
    case absl::StatusCode::kDeadlineExceeded:
      return {WithReason(absl::DeadlineExceededError(message), ErrorReason::kEndpointRefused), true, false, true};
    case absl::StatusCode::kOutOfRange:
      return {.status = WithReason(absl::OutOfRangeError(message), ErrorReason::kEndpointBadReply), .is_unread = true};
    default:
      return {WithReason(absl::UnavailableError(message), ErrorReason::kEndpointFaulted), false, true};
  }
}

// Of Retry-After: seconds, or a date.
int64_t EndpointClient::AskedPauseUs(const HttpReply& reply) const {
  int64_t seconds = 0;
  absl::Time date;
  if (!absl::SimpleAtoi(reply.retry_after, &seconds)) {
    if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", reply.retry_after, &date, nullptr)) return 0;
    // A duration saturates, for a date of any year.
    const absl::Duration left = date - absl::FromUnixMicros(clock_.WallMicros());
    seconds = absl::ToInt64Seconds(absl::Ceil(left, absl::Seconds(1)));
  }
  return std::clamp<int64_t>(seconds, 0, kRetryAfterMaxUs / 1'000'000) * 1'000'000;
}

EndpointClient::Failure EndpointClient::Classify(const std::string& url, const HttpReply& reply) const {
  const std::string said = WithoutKey(ErrorText(reply.body));
  const std::string message = absl::StrCat(url, " answered ", reply.status, said.empty() ? "" : ": ", said);
  const auto fault = [](const std::string& text) {
    return WithReason(absl::UnavailableError(text), ErrorReason::kEndpointFaulted);
  };
  const auto refusal = [](absl::Status status) { return WithReason(std::move(status), ErrorReason::kEndpointRefused); };
  const int64_t pause_us = AskedPauseUs(reply);
  switch (reply.status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
      return {fault(absl::StrCat(url, " redirects to ", WithoutKey(reply.location), "; give that address")), false,
              true};
    case 401:
    case 403:
      return {
          fault(absl::StrCat(url, spec_.key.empty() ? " refuses a call without an API key (" : " refuses the API key (",
                             reply.status, said.empty() ? ")" : "): ", said,
                             spec_.key.empty() ? "; key-file=PATH or key-env=NAME gives one" : "")),
          false, true};
    case 404:
    case 405:
      return {fault(absl::StrCat(message,
                                 "; the address must be the base of an OpenAI-compatible API, such as "
                                 "http://host:port/v1")),
              false, true};
    case 408:
    case 425:
    case 429:
    case 502:
    case 503:
    case 504:
      return {fault(message), true, true, false, pause_us};
    default:
      // A 500 may be of this request alone.
      if (reply.status >= 500) return {refusal(absl::InternalError(message)), true, false, false, pause_us};
      return {refusal(absl::InvalidArgumentError(message))};
  }
}

absl::StatusOr<HttpReply> EndpointClient::Exchange(const std::string& url, const std::string& body,
                                                   const IsCancelled& is_cancelled, Failure* failure) {
  HttpRequest request;
  request.url = url;
  request.body = body;
  request.bearer = spec_.key;
  request.ca_file = spec_.ca_file;
  request.timeout_ms = body.empty() ? std::min(spec_.timeout_ms, kMetadataTimeoutMs) : spec_.timeout_ms;
  request.reply_bytes_max = kReplyBytesMax;
  absl::StatusOr<HttpReply> reply = http_->Send(request, is_cancelled);
  *failure = {};
  if (!reply.ok()) {
    *failure = Classify(reply.status());
  } else if (reply->status != 200) {
    *failure = Classify(url, *reply);
  }
  if (!failure->status.ok()) return failure->status;
  return reply;
}

template <typename Try>
auto EndpointClient::WithRetries(const Try& attempt, int attempts_max, const IsCancelled& is_cancelled,
                                 int* attempt_count) -> decltype(attempt(std::declval<Failure*>())) {
  for (*attempt_count = 1;; ++*attempt_count) {
    if (const int64_t left_us = not_before_us_ - clock_.MonotonicMicros(); left_us > 0) pause_(left_us, is_cancelled);
    if (is_cancelled && is_cancelled()) return absl::CancelledError("the request was cancelled");
    Failure failure;
    auto result = attempt(&failure);
    if (result.ok() || absl::IsCancelled(failure.status)) return result;
    if (!failure.retry || *attempt_count >= attempts_max) {
      const std::string after =
          *attempt_count > 1 ? absl::StrCat(" (after ", *attempt_count, " attempts)") : std::string();
      absl::Status status(failure.status.code(),
                          absl::StrCat("endpoint \"", spec_.name, "\": ", failure.status.message(), after));
      failure.status.ForEachPayload(
          [&](absl::string_view url, const absl::Cord& payload) { status.SetPayload(url, payload); });
      return WithMetadata(status, "attemptCount", absl::StrCat(*attempt_count));
    }
    const int64_t backoff_us = std::min(kLongestPauseUs, kFirstPauseUs << std::min(*attempt_count - 1, 20));
    const int64_t pause_us = std::max(failure.pause_us, backoff_us);
    if (failure.pause_us > 0) not_before_us_ = clock_.MonotonicMicros() + pause_us;
    Log(LogLevel::kWarning, "endpoint_retry",
        {{"endpoint", spec_.name},
         {"attempt", *attempt_count},
         {"pause_ms", pause_us / 1000},
         {"error", failure.status.message()}});
    pause_(pause_us, is_cancelled);
  }
}

absl::Status EndpointClient::Connect(const IsCancelled& is_cancelled_by_caller) {
  const IsCancelled is_cancelled = [&] {
    return (is_cancelled_by_caller && is_cancelled_by_caller()) || (is_abandoned_ && is_abandoned_());
  };
  int attempt_count = 0;
  const std::string url = absl::StrCat(spec_.url, "/models");
  const auto models = WithRetries(
      [&](Failure* failure) -> absl::StatusOr<std::vector<ServedModel>> {
        ASSIGN_OR_RETURN(const HttpReply reply, Exchange(url, "", is_cancelled, failure));
        absl::StatusOr<std::vector<ServedModel>> parsed = ParseModels(reply.body);
        if (!parsed.ok()) {
          *failure = {WithReason(Unavailable(url, ": ", parsed.status().message()), ErrorReason::kEndpointFaulted),
                      false, true};
          return parsed.status();
        }
        server_ = reply.server;
        return parsed;
      },
      std::min(spec_.attempts_max, kMetadataAttemptsMax), is_cancelled, &attempt_count);
  RETURN_IF_ERROR(models.status());
  const auto bad = [&](const std::string& problem) {
    return WithReason(FailedPrecondition("endpoint \"", spec_.name, "\": ", problem), ErrorReason::kEndpointOtherModel);
  };
  std::vector<std::string> ids;
  for (const ServedModel& model : *models) ids.push_back(model.id);
  const std::string have = absl::StrCat(spec_.url, " has ", ids.empty() ? "no model" : absl::StrJoin(ids, ", "));
  if (spec_.model.empty() && ids.size() != 1) return bad(absl::StrCat(have, "; name one with model="));
  const auto found = std::find_if(models->begin(), models->end(), [&](const ServedModel& model) {
    return spec_.model.empty() || model.id == spec_.model;
  });
  if (found == models->end()) return bad(absl::StrCat("there is no model \"", spec_.model, "\": ", have));
  model_ = *found;
  // Beside the API's base, vLLM and llama.cpp state a version; a server without these pages has none.
  std::string root = spec_.url;
  if (const size_t at = root.rfind("/v1"); at != std::string::npos) root.resize(at);
  version_.clear();
  for (const auto& [page, key] :
       {std::pair<const char*, const char*>{"/version", "version"}, {"/props", "build_info"}}) {
    Failure ignored;
    const absl::StatusOr<HttpReply> reply = Exchange(root + page, "", is_cancelled, &ignored);
    if (!reply.ok()) continue;
    const absl::StatusOr<Json> parsed = ParseJson(reply->body);
    if (!parsed.ok() || !parsed->is_object()) continue;
    const auto text = FindString(*parsed, key);
    if (text.ok() && text->has_value()) version_ = **text;
    if (!version_.empty()) break;
  }
  return absl::OkStatus();
}

bool EndpointClient::IsServingModel(const IsCancelled& is_cancelled) {
  Failure failure;
  const absl::StatusOr<HttpReply> reply = Exchange(absl::StrCat(spec_.url, "/models"), "", is_cancelled, &failure);
  if (!reply.ok()) return false;
  const absl::StatusOr<std::vector<ServedModel>> models = ParseModels(reply->body);
  return models.ok() &&
         std::any_of(models->begin(), models->end(), [&](const ServedModel& model) { return model.id == model_.id; });
}

absl::StatusOr<Completion> EndpointClient::Ask(const CompletionRequest& request, const std::string& body,
                                               const IsCancelled& is_cancelled, Failure* failure) {
  const char* page = request.chat.has_value() ? "/chat/completions" : "/completions";
  ASSIGN_OR_RETURN(const HttpReply reply, Exchange(absl::StrCat(spec_.url, page), body, is_cancelled, failure));
  absl::StatusOr<Completion> completion = ParseCompletion(request, reply.body);
  if (!completion.ok()) {
    absl::Status status(completion.status().code(), WithoutKey(std::string(completion.status().message())));
    completion.status().ForEachPayload(
        [&](absl::string_view url, const absl::Cord& payload) { status.SetPayload(url, payload); });
    failure->status = status;
    failure->is_unread = true;
    // A body that is cut by a proxy is complete HTTP and broken JSON.
    failure->retry = HasReason(status, ErrorReason::kEndpointBadReply);
    if (HasReason(status, ErrorReason::kEndpointOtherModel))
      failure->status = WithReason(absl::UnavailableError(status.message()), ErrorReason::kEndpointFaulted);
  }
  return completion;
}

absl::StatusOr<Completion> EndpointClient::Attempt(const CompletionRequest& request, const std::string& body,
                                                   const IsCancelled& is_cancelled, Failure* failure) {
  if (budget_ == nullptr) return Ask(request, body, is_cancelled, failure);
  const int64_t most = std::ssize(request.token_ids) + request.max_new_tokens;
  failure->status = budget_->Reserve(most, is_cancelled);
  RETURN_IF_ERROR(failure->status);
  absl::StatusOr<Completion> completion = Ask(request, body, is_cancelled, failure);
  int64_t spent = 0;
  if (completion.ok()) {
    spent = completion->prompt_token_count + completion->new_token_count;
  } else if (failure->is_unread) {
    spent = most;
  }
  budget_->Settle(most, spent);
  return completion;
}

absl::StatusOr<Completed> EndpointClient::Complete(CompletionRequest request, const IsCancelled& is_cancelled) {
  request.model = model_.id;
  ASSIGN_OR_RETURN(const std::string body, ToBody(request, spec_.body));
  Completed completed;
  ASSIGN_OR_RETURN(completed.completion,
                   WithRetries([&](Failure* failure) { return Attempt(request, body, is_cancelled, failure); },
                               spec_.attempts_max, is_cancelled, &completed.attempt_count));
  return completed;
}

absl::StatusOr<Completion> EndpointClient::TryOnce(CompletionRequest request) {
  request.model = model_.id;
  ASSIGN_OR_RETURN(const std::string body, ToBody(request, spec_.body));
  Failure failure;
  absl::StatusOr<Completion> completion = Attempt(request, body, is_abandoned_, &failure);
  if (!completion.ok()) return failure.status;
  return completion;
}

}  // namespace varifocal
