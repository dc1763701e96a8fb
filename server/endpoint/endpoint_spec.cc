#include "server/endpoint/endpoint_spec.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "eval_tasks/job_spec.h"

namespace varifocal {
namespace {

constexpr FileKind kKeyFile = {"a file with an API key", 64 << 10};
constexpr int kInFlightPerEndpointMax = 64;
constexpr int kAttemptsMax = 20;
constexpr int64_t kTimeoutSecondsMax = 86'400;

absl::Status Bad(const std::string& message) {
  return WithReason(absl::InvalidArgumentError(message), ErrorReason::kBadEndpoint);
}

absl::Status CheckUrl(absl::string_view url) {
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "http://") && !absl::ConsumePrefix(&rest, "https://")) {
    return Bad(absl::StrCat("\"", url, "\" is not a URL that begins with http:// or https://"));
  }
  const absl::string_view host = rest.substr(0, rest.find('/'));
  // Before anything prints the URL.
  if (absl::StrContains(host, "@"))
    return Bad("a URL with a user or a password is not accepted; give a key by key-file=");
  if (host.empty() || host[0] == ':') return Bad(absl::StrCat("\"", url, "\" has no host"));
  if (rest.find_first_of("?#") != absl::string_view::npos) {
    return Bad(absl::StrCat("\"", url, "\" has a query; it must be the base of the API, such as http://host:port/v1"));
  }
  return absl::OkStatus();
}

absl::Status ReadWhole(absl::string_view key, absl::string_view value, int64_t low, int64_t high, int64_t* number) {
  if (absl::SimpleAtoi(value, number) && *number >= low && *number <= high) return absl::OkStatus();
  return Bad(absl::StrCat(key, "=", value, " must be a whole number from ", low, " to ", high));
}

absl::Status SetKey(absl::string_view text, absl::string_view where, EndpointSpec* spec) {
  spec->key = std::string(absl::StripAsciiWhitespace(text));
  if (spec->key.empty()) return Bad(absl::StrCat(where, " has no API key"));
  for (const char c : spec->key) {
    if (!absl::ascii_isgraph(c))
      return Bad(absl::StrCat(where, " has white space or control characters inside the key; it must be one word"));
  }
  return absl::OkStatus();
}

absl::Status SetOne(absl::string_view key, absl::string_view value, EndpointSpec* spec) {
  static const std::vector<std::string> kKeys = {"api",     "attempts",  "body-file", "ca-file",  "context-length",
                                                 "counts",  "in-flight", "key-env",   "key-file", "model",
                                                 "prompts", "timeout",   "tokenizer"};
  int64_t number = 0;
  if (value.empty()) return Bad(absl::StrCat("the setting \"", key, "\" has no value"));
  if (key == "tokenizer") {
    spec->tokenizer_directory = std::string(value);
  } else if (key == "model") {
    spec->model = std::string(value);
  } else if (key == "ca-file") {
    spec->ca_file = std::string(value);
  } else if (key == "key-file") {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(std::string(value), kKeyFile));
    spec->key_source = "file";
    return SetKey(text, value, spec);
  } else if (key == "key-env") {
    const char* text = std::getenv(std::string(value).c_str());
    if (text == nullptr) return Bad(absl::StrCat("key-env=", value, ": there is no such environment variable"));
    spec->key_source = "environment";
    return SetKey(text, absl::StrCat("the environment variable ", value), spec);
  } else if (key == "body-file") {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(std::string(value), kConfigFile));
    absl::StatusOr<Json> body = ParseJson(text);
    if (!body.ok()) return Bad(absl::StrCat(value, ": ", body.status().message()));
    if (!body->is_object()) return Bad(absl::StrCat(value, " is not a JSON object"));
    spec->body = *std::move(body);
  } else if (key == "in-flight") {
    RETURN_IF_ERROR(ReadWhole(key, value, 1, kInFlightPerEndpointMax, &number));
    spec->in_flight = number;
  } else if (key == "attempts") {
    RETURN_IF_ERROR(ReadWhole(key, value, 1, kAttemptsMax, &number));
    spec->attempts_max = number;
  } else if (key == "timeout") {
    RETURN_IF_ERROR(ReadWhole(key, value, 1, kTimeoutSecondsMax, &number));
    spec->timeout_ms = number * 1000;
  } else if (key == "context-length") {
    RETURN_IF_ERROR(ReadWhole(key, value, 1, kContextLengthMax, &spec->context_length));
  } else if (key == "prompts") {
    if (value == "ids") {
      spec->prompts = PromptForm::kTokenIds;
    } else if (value == "text") {
      spec->prompts = PromptForm::kText;
    } else {
      return Bad(absl::StrCat("prompts=", value, " must be ids or text; without it the server is tried"));
    }
  } else if (key == "api") {
    if (value != "completions" && value != "chat")
      return Bad(absl::StrCat("api=", value, " must be completions or chat"));
    spec->api = value == "chat" ? EndpointApi::kChat : EndpointApi::kCompletions;
  } else if (key == "counts") {
    if (value != "exact" && value != "unchecked")
      return Bad(absl::StrCat("counts=", value, " must be exact or unchecked"));
    spec->checks_prompt_counts = value == "exact";
  } else {
    return Bad(absl::StrCat("there is no setting \"", key, "\"", DidYouMean(key, kKeys)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EndpointSpec> ParseEndpointSpec(absl::string_view text) {
  EndpointSpec spec;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  const size_t equals = parts[0].find('=');
  if (equals == absl::string_view::npos || equals == 0 || equals + 1 == parts[0].size()) {
    return Bad("--endpoint must be NAME=URL, such as llama=http://127.0.0.1:8000/v1,tokenizer=DIR");
  }
  spec.name = std::string(parts[0].substr(0, equals));
  const absl::Status named = CheckName("endpoint", spec.name);
  if (!named.ok()) return Bad(std::string(named.message()));
  spec.url = std::string(absl::StripSuffix(parts[0].substr(equals + 1), "/"));
  const auto in_spec = [&](const absl::Status& status) {
    return Bad(absl::StrCat("endpoint \"", spec.name, "\": ", status.message()));
  };
  if (const absl::Status good = CheckUrl(spec.url); !good.ok()) return in_spec(good);
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t at = parts[i].find('=');
    const absl::Status set = at == absl::string_view::npos
                                 ? Bad(absl::StrCat("\"", parts[i], "\" is not a setting KEY=VALUE"))
                                 : SetOne(parts[i].substr(0, at), parts[i].substr(at + 1), &spec);
    if (!set.ok()) return in_spec(set);
  }
  if (spec.tokenizer_directory.empty())
    return in_spec(Bad("tokenizer=DIR is missing: prompts are built with the served model's tokenizer.json"));
  if (spec.api == EndpointApi::kChat) {
    if (spec.prompts != PromptForm::kAuto)
      return in_spec(Bad("prompts= is of api=completions; the chat API takes messages"));
    const auto variables = spec.body.find("chat_template_kwargs");
    if (variables != spec.body.end() && !variables->is_object() && !variables->is_null())
      return in_spec(Bad("chat_template_kwargs of the body-file is no JSON object"));
  } else if (!spec.checks_prompt_counts) {
    return in_spec(Bad("counts=unchecked is of api=chat; with completions the counts show what the server was asked"));
  }
  return spec;
}

}  // namespace varifocal
