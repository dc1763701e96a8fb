#include <curl/curl.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/endpoint/http_client.h"

namespace varifocal {
namespace {

constexpr int64_t kConnectTimeoutMs = 10'000;
constexpr int kPollMs = 100;
constexpr char kPlainHint[] = "if the server speaks plain HTTP on this port, its address begins with http://";

int64_t ConnectTimeoutMs(const HttpRequest& request) { return std::min(kConnectTimeoutMs, request.timeout_ms); }

struct Exchange {
  HttpReply reply;
  int64_t bytes_max = 0;
  bool is_too_large = false;
};

size_t OnBody(char* bytes, size_t, size_t count, void* target) {
  auto& exchange = *static_cast<Exchange*>(target);
  if (static_cast<int64_t>(exchange.reply.body.size() + count) > exchange.bytes_max) {
    exchange.is_too_large = true;
    return 0;  // ends the transfer
  }
  exchange.reply.body.append(bytes, count);
  return count;
}

size_t OnHeader(char* bytes, size_t, size_t count, void* target) {
  auto& reply = static_cast<Exchange*>(target)->reply;
  const absl::string_view line(bytes, count);
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos) return count;
  const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
  std::string value(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  if (name == "server") reply.server = std::move(value);
  if (name == "retry-after") reply.retry_after = std::move(value);
  if (name == "location") reply.location = std::move(value);
  return count;
}

// Of a request that ran out of time: in which phase. libcurl counts the TLS handshake as part of the connection.
absl::Status LateStatus(CURL* easy, const HttpRequest& request) {
  curl_off_t connected_us = 0, secured_us = 0;
  curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connected_us);
  curl_easy_getinfo(easy, CURLINFO_APPCONNECT_TIME_T, &secured_us);
  const double connect_s = ConnectTimeoutMs(request) / 1000.0;
  if (absl::StartsWithIgnoreCase(request.url, "https:") && secured_us == 0) {
    return absl::DeadlineExceededError(
        absl::StrCat(request.url, ": no TLS connection within ", connect_s, " s; ", kPlainHint));
  }
  if (connected_us == 0)
    return absl::DeadlineExceededError(absl::StrCat(request.url, ": no connection within ", connect_s, " s"));
  return absl::DeadlineExceededError(
      absl::StrCat(request.url, ": no complete reply within ", request.timeout_ms / 1000.0, " s"));
}

absl::Status ToStatus(CURLcode code, CURL* easy, const char* detail, const HttpRequest& request,
                      const Exchange& exchange) {
  const std::string reason = detail[0] != '\0' ? std::string(detail) : std::string(curl_easy_strerror(code));
  const std::string message = absl::StrCat(request.url, ": ", absl::StripTrailingAsciiWhitespace(reason));
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return LateStatus(easy, request);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_CACERT_BADFILE:
      return absl::InvalidArgumentError(message);
    case CURLE_SSL_CONNECT_ERROR:
      return FailedPrecondition("TLS: ", message, "; ", kPlainHint);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
      return FailedPrecondition("TLS: ", message);
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
      return absl::AbortedError(
          absl::StrCat(request.url, ": the reply broke off after ", exchange.reply.body.size(), " bytes"));
    default:
      return absl::UnavailableError(message);
  }
}

class CurlClient : public HttpClient {
 public:
  absl::StatusOr<HttpReply> Send(const HttpRequest& request, const std::function<bool()>& is_cancelled) override {
    Exchange exchange;
    exchange.bytes_max = request.reply_bytes_max;
    char detail[CURL_ERROR_SIZE] = "";
    const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy(curl_easy_init(), &curl_easy_cleanup);
    const std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi(curl_multi_init(), &curl_multi_cleanup);
    if (easy == nullptr || multi == nullptr) return ResourceExhausted("libcurl has no memory left");
    curl_slist* list = nullptr;
    if (!request.body.empty()) list = curl_slist_append(list, "Content-Type: application/json");
    // Without it libcurl asks for permission before a large body, and many servers do not answer that.
    list = curl_slist_append(list, "Expect:");
    if (!request.bearer.empty())
      list = curl_slist_append(list, absl::StrCat("Authorization: Bearer ", request.bearer).c_str());
    const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, &curl_slist_free_all);

    curl_easy_setopt(easy.get(), CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy.get(), CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(ConnectTimeoutMs(request)));
    curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout_ms));
    curl_easy_setopt(easy.get(), CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &OnBody);
    curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &exchange);
    curl_easy_setopt(easy.get(), CURLOPT_HEADERFUNCTION, &OnHeader);
    curl_easy_setopt(easy.get(), CURLOPT_HEADERDATA, &exchange);
    if (!request.ca_file.empty()) curl_easy_setopt(easy.get(), CURLOPT_CAINFO, request.ca_file.c_str());
    if (!request.body.empty()) {
      curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, request.body.data());
      curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    }

    // The multi interface, so that a cancelled request ends although nothing arrives.
    curl_multi_add_handle(multi.get(), easy.get());
    int running = 1;
    CURLMcode failed = CURLM_OK;
    while (running > 0 && failed == CURLM_OK) {
      if (is_cancelled && is_cancelled()) {
        curl_multi_remove_handle(multi.get(), easy.get());
        return absl::CancelledError("the request was cancelled");
      }
      failed = curl_multi_perform(multi.get(), &running);
      if (running > 0 && failed == CURLM_OK) failed = curl_multi_poll(multi.get(), nullptr, 0, kPollMs, nullptr);
    }
    CURLcode code = failed == CURLM_OK ? CURLE_OK : CURLE_FAILED_INIT;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi.get(), &left)) {
      if (message->msg == CURLMSG_DONE) code = message->data.result;
    }
    curl_multi_remove_handle(multi.get(), easy.get());
    if (exchange.is_too_large) {
      return OutOfRange(request.url, ": the reply has more than ", request.reply_bytes_max,
                        " bytes, the limit of a reply");
    }
    if (code != CURLE_OK) return ToStatus(code, easy.get(), detail, request, exchange);
    long status = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    exchange.reply.status = status;
    return std::move(exchange.reply);
  }
};

}  // namespace

std::unique_ptr<HttpClient> MakeHttpClient() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  return std::make_unique<CurlClient>();
}

}  // namespace varifocal
