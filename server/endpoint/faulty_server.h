// An OpenAI-compatible server for tests, with faults on demand.
//
// What it answers is a function of the request: a fixed continuation of the prompt, and log-probabilities that depend on a
// token and the one before it. It tokenizes with the tokenizer of models/baseline. Chats it wraps in Format().
//
// Threads: any.
#pragma once

#include <httplib.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/json.h"
#include "base/mutex.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

class FaultyServer {
 public:
  enum class Fault {
    kNone,
    kStatus,
    kCutBody,
    kNotJson,
    kHugeReply,
    kPromptCount,
    kNewCount,
    kShortAtLength,
    kOtherModel,
    kHang,
    kNoUsage,
    kErrorInReply,  // status 200
    kStream,
    kErrorInStream
  };
  struct Scripted {
    Fault fault = Fault::kNone;
    int status = 500;  // of kStatus
    std::string retry_after = {};
    std::string message = "it failed";
  };
  enum class Filters { kTaken, kIgnored, kRefused };  // top_k and min_p
  enum class Logprobs { kRight, kRefused, kShifted, kWithoutLeadingBos };

  struct Behaviour {
    bool takes_token_ids = true;
    Logprobs logprobs = Logprobs::kRight;
    std::string key = {};  // required
    std::vector<std::string> models = {"served"};
    std::vector<int32_t> continuation = {};  // in the place of kContinuation's
    // Likewise, of a prompt's text; "" for the fixed one.
    std::function<std::string(const std::string& prompt)> write = {};
    // Of the chat API. Reasoning comes first, and counts.
    std::string reasoning = {};
    std::string reasoning_member = "reasoning_content";
    bool knows_max_completion_tokens = true;
    bool is_template_other = false;  // its prompts have two tokens more
    bool thinks_by_default = true;
    Filters filters = Filters::kTaken;
  };

  static ChatFormat Format() {
    ChatFormat format;
    format.template_sha256 = std::string(64, 'c');
    format.without_system = {.prefix = "<|begin|>user\n", .between = "", .suffix = "<|end|>\nmodel\n"};
    format.with_system = {
        .prefix = "<|begin|>system\n", .between = "<|end|>\n<|begin|>user\n", .suffix = "<|end|>\nmodel\n"};
    format.turns = ChatFormat::Turns{.to_assistant = "<|end|>\nmodel\n", .to_user = "<|end|>\n<|begin|>user\n"};
    // Its switch: without thinking the prompt has an empty block.
    format.thinking = ThinkingMarkers{"<think>", "</think>"};
    ChatFormat::Switch both;
    both.variable = "enable_thinking";
    both.on = {format.without_system, format.with_system};
    both.off = both.on;
    both.off.without_system.suffix += "<think>\n\n</think>\n\n";
    both.off.with_system->suffix = both.off.without_system.suffix;
    format.thinking_switch = std::move(both);
    return format;
  }

  static constexpr char kContinuation[] = " the city of Rome, which has been the capital since then.";

  explicit FaultyServer(Behaviour behaviour, std::string tls_certificate = "", std::string tls_key = "")
      : behaviour_(std::move(behaviour)), is_tls_(!tls_certificate.empty()) {
    auto tokenizer = Tokenizer::Load("models/baseline");
    VF_CHECK(tokenizer.ok());
    tokenizer_ = *std::move(tokenizer);
    if (is_tls_) {
      server_ = std::make_unique<httplib::SSLServer>(tls_certificate.c_str(), tls_key.c_str());
    } else {
      server_ = std::make_unique<httplib::Server>();
    }
    server_->Get("/v1/models", [this](const httplib::Request& request, httplib::Response& response) {
      ++list_count_;
      if (!Admit(request, response)) return;
      Json data = Json::array();
      for (const std::string& model : behaviour_.models)
        data.push_back({{"id", model}, {"owned_by", "tests"}, {"max_model_len", 2048}});
      Send(Json{{"data", data}}, response);
    });
    server_->Get("/version", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(R"({"version": "1.2.3"})", "application/json");
    });
    server_->Post("/v1/completions", [this](const httplib::Request& request, httplib::Response& response) {
      Complete(request, response);
    });
    server_->Post("/v1/chat/completions", [this](const httplib::Request& request, httplib::Response& response) {
      Complete(request, response);
    });
    server_->set_default_headers({{"Server", "faulty"}});
    port_ = server_->bind_to_any_port("127.0.0.1");
    VF_CHECK(port_ > 0);
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) std::this_thread::yield();
  }

  ~FaultyServer() {
    ReleaseHanging();
    server_->stop();
    thread_.join();
  }

  std::string url() const { return absl::StrCat(is_tls_ ? "https" : "http", "://127.0.0.1:", port_, "/v1"); }

  // The next requests for a completion fail in this way, in order.
  void FailNext(std::vector<Scripted> faults) {
    const MutexLock lock(mutex_);
    faults_.assign(faults.begin(), faults.end());
  }
  void ReleaseHanging() {
    const MutexLock lock(mutex_);
    is_released_ = true;
    changed_.NotifyAll();
  }
  // Bodies of completion requests, in order of arrival.
  std::vector<Json> bodies() const {
    const MutexLock lock(mutex_);
    return bodies_;
  }
  // Times that its models were listed.
  int list_count() const { return list_count_; }
  int in_flight_max() const {
    const MutexLock lock(mutex_);
    return in_flight_max_;
  }
  void WaitForBodies(size_t count) const {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&]() VF_REQUIRES(mutex_) { return bodies_.size() >= count; });
  }

  static double LogProb(int32_t before, int32_t id) { return -0.25 * (1 + (before * 31 + id * 7) % 13); }

 private:
  static void Send(const Json& json, httplib::Response& response) {
    response.set_content(json.dump(), "application/json");
  }
  static void Refuse(int status, const std::string& message, httplib::Response& response) {
    response.status = status;
    Send({{"error", {{"message", message}}}}, response);
  }

  bool Admit(const httplib::Request& request, httplib::Response& response) const {
    const std::string given = request.get_header_value("Authorization");
    if (behaviour_.key.empty() || given == absl::StrCat("Bearer ", behaviour_.key)) return true;
    Refuse(401, absl::StrCat("wrong key: ", given), response);  // like servers that repeat it
    return false;
  }

  void Complete(const httplib::Request& request, httplib::Response& response) {
    if (!Admit(request, response)) return;
    Json body = Json::parse(request.body);
    Scripted scripted;
    {
      MutexLock lock(mutex_);
      bodies_.push_back(body);
      changed_.NotifyAll();
      in_flight_max_ = std::max(in_flight_max_, ++in_flight_);
      if (!faults_.empty()) {
        scripted = faults_.front();
        faults_.pop_front();
      }
      if (scripted.fault == Fault::kHang) changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return is_released_; });
    }
    Answer(body, scripted, response);
    const MutexLock lock(mutex_);
    --in_flight_;
  }

  void Answer(const Json& body, const Scripted& scripted, httplib::Response& response) const {
    if (scripted.fault == Fault::kStatus) {
      if (!scripted.retry_after.empty()) response.set_header("Retry-After", scripted.retry_after);
      return Refuse(scripted.status, scripted.message, response);
    }
    if (scripted.fault == Fault::kNotJson) return response.set_content("<html>busy</html>", "text/html");
    if (scripted.fault == Fault::kHugeReply)
      return response.set_content(std::string(70 << 20, 'x'), "application/json");
    if (scripted.fault == Fault::kErrorInReply) return Send({{"error", {{"message", scripted.message}}}}, response);
    if (scripted.fault == Fault::kStream || scripted.fault == Fault::kErrorInStream) {
      const std::string last = scripted.fault == Fault::kStream
                                   ? std::string("[DONE]")
                                   : Json{{"error", {{"message", scripted.message}}}}.dump();
      return response.set_content("data: {\"choices\": []}\n\ndata: " + last + "\n\n", "text/event-stream");
    }
    for (const char* name : {"top_k", "min_p"}) {
      if (behaviour_.filters == Filters::kRefused && body.contains(name))
        return Refuse(400, absl::StrCat("Unrecognized request argument supplied: ", name), response);
    }
    if (body.contains("messages")) return Chat(body, scripted, response);
    std::vector<int32_t> prompt;
    std::string text;
    if (body["prompt"].is_string()) {
      text = body["prompt"];
      prompt = *tokenizer_->Encode(text);
    } else if (behaviour_.takes_token_ids) {
      prompt = body["prompt"].get<std::vector<int32_t>>();
      text = *tokenizer_->Decode(prompt, {.keep_special_tokens = true});
    } else {
      return Refuse(422, "prompt must be a text", response);
    }
    const bool echo = body.value("echo", false);
    const bool logprobs = body.contains("logprobs");
    if (logprobs && behaviour_.logprobs == Logprobs::kRefused)
      return Refuse(400, "logprobs are not supported", response);
    std::vector<int32_t> added = AddedTo(text, body);
    const size_t wanted = body["max_tokens"].get<size_t>();
    const bool is_at_stop = added.size() < wanted;
    if (!is_at_stop) added.resize(wanted);
    std::vector<int32_t> whole = prompt;
    whole.insert(whole.end(), added.begin(), added.end());
    Json choice = {{"index", 0}, {"finish_reason", is_at_stop ? "stop" : "length"}};
    choice["text"] = (echo ? text : "") + *tokenizer_->Decode(added);
    if (logprobs) choice["logprobs"] = LogprobsOf(whole, echo ? 0 : prompt.size());
    Reply(body, scripted, std::move(choice), std::ssize(prompt), std::ssize(added), wanted, response);
  }

  std::vector<int32_t> AddedTo(const std::string& prompt, const Json& body) const {
    if (!behaviour_.continuation.empty()) return behaviour_.continuation;
    std::string added = behaviour_.write != nullptr ? behaviour_.write(prompt) : "";
    if (added.empty()) added = ContinuationOf(body);
    return *tokenizer_->Encode(added, {.add_special_tokens = false});
  }

  // Another one at a high temperature, where filters are ignored.
  const char* ContinuationOf(const Json& body) const {
    const bool is_drawn = behaviour_.filters == Filters::kIgnored && body.value("temperature", 0.0) > 1;
    return is_drawn ? " a town in the north, which has been there since then." : kContinuation;
  }

  void Chat(const Json& body, const Scripted& scripted, httplib::Response& response) const {
    const Json& messages = body["messages"];
    std::vector<ChatTurn> turns;
    for (const Json& message : messages) turns.push_back({message["role"], message["content"]});
    const Json variables = body.value("chat_template_kwargs", Json::object());
    const bool is_off = !variables.value("enable_thinking", behaviour_.thinks_by_default);
    const ChatFormat format = is_off ? Format().WithThinking(false) : Format();
    const std::vector<int32_t> prompt = *EncodeChat(*tokenizer_, *format.WrapTurns(turns));
    const char* name = behaviour_.knows_max_completion_tokens ? "max_completion_tokens" : "max_tokens";
    const size_t wanted = body.value(name, size_t{1000});
    const auto piece = [&](const std::string& text) {
      return *tokenizer_->Encode(text, {.add_special_tokens = false});
    };
    std::vector<int32_t> reasoning = piece(is_off ? "" : behaviour_.reasoning);
    std::vector<int32_t> added = AddedTo(*tokenizer_->Decode(prompt, {.keep_special_tokens = true}), body);
    const bool is_at_stop = reasoning.size() + added.size() < wanted;
    if (reasoning.size() > wanted) reasoning.resize(wanted);
    if (!is_at_stop) added.resize(wanted - reasoning.size());
    Json message = {{"role", "assistant"}, {"content", nullptr}};
    if (!added.empty()) message["content"] = *tokenizer_->Decode(added);
    if (!reasoning.empty()) message[behaviour_.reasoning_member] = *tokenizer_->Decode(reasoning);
    Json choice = {{"index", 0}, {"finish_reason", is_at_stop ? "stop" : "length"}, {"message", message}};
    Reply(body, scripted, std::move(choice), std::ssize(prompt) + (behaviour_.is_template_other ? 2 : 0),
          std::ssize(reasoning) + std::ssize(added), wanted, response);
  }

  static void Reply(const Json& body, const Scripted& scripted, Json choice, int64_t prompt_count, int64_t new_count,
                    size_t wanted, httplib::Response& response) {
    if (scripted.fault == Fault::kPromptCount) --prompt_count;
    if (scripted.fault == Fault::kNewCount) new_count += 100;
    if (scripted.fault == Fault::kShortAtLength) {
      new_count = wanted - 1;
      choice["finish_reason"] = "length";
    }
    Json reply = {{"model", scripted.fault == Fault::kOtherModel ? Json("another") : body["model"]},
                  {"choices", {choice}}};
    if (scripted.fault != Fault::kNoUsage)
      reply["usage"] = {{"prompt_tokens", prompt_count}, {"completion_tokens", new_count}};
    if (scripted.fault != Fault::kCutBody) return Send(reply, response);
    const std::string bytes = reply.dump();
    response.set_content_provider(bytes.size(), "application/json",
                                  [bytes](size_t offset, size_t, httplib::DataSink& sink) {
                                    if (offset > 0) return false;  // closes the connection
                                    return sink.write(bytes.data(), bytes.size() / 2);
                                  });
  }

  Json LogprobsOf(const std::vector<int32_t>& ids, size_t first) const {
    Json values = Json::array();
    Json tops = Json::array();
    const size_t shift = behaviour_.logprobs == Logprobs::kShifted && first == 0 ? 1 : 0;
    for (size_t i = first; i < ids.size(); ++i) {
      if (i == 0) {
        if (behaviour_.logprobs == Logprobs::kWithoutLeadingBos) continue;
        values.push_back(nullptr);
        tops.push_back(nullptr);
        continue;
      }
      const size_t at = std::min(i + shift, ids.size() - 1);
      const double value = LogProb(ids[at - 1], ids[at]);
      values.push_back(value);
      tops.push_back({{absl::StrCat("t", ids[i]), value}, {"best", std::max(value, -1.0)}});
    }
    return {{"token_logprobs", values}, {"top_logprobs", tops}};
  }

  const Behaviour behaviour_;
  const bool is_tls_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  std::thread thread_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::deque<Scripted> faults_ VF_GUARDED_BY(mutex_);
  bool is_released_ VF_GUARDED_BY(mutex_) = false;
  std::atomic<int> list_count_ = 0;
  std::vector<Json> bodies_ VF_GUARDED_BY(mutex_);
  int in_flight_ VF_GUARDED_BY(mutex_) = 0;
  int in_flight_max_ VF_GUARDED_BY(mutex_) = 0;
};

}  // namespace varifocal
