#include "server/endpoint/endpoint_engine.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/exceptions.h"
#include "base/mutex.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/endpoint/chat_messages.h"
#include "server/engine/request_check.h"
#include "server/engine/thinking.h"

namespace varifocal {
namespace {

constexpr int64_t kReconnectUs = 5'000'000;
constexpr char kNoForcedEnd[] = "over the chat API the end of a thinking block cannot be forced";

absl::Status AttentionUnsupportedError() {
  return WithReason(Unimplemented("a model behind an endpoint takes no run-time attention settings, and its "
                                  "attention cannot be inspected"),
                    ErrorReason::kEndpointWithoutAttention);
}

class HttpEndpointEngine : public EndpointEngine {
 public:
  HttpEndpointEngine(std::unique_ptr<EndpointClient> client, std::shared_ptr<const Tokenizer> tokenizer,
                     ModelConfig config, EndpointClient::Pause pause, std::shared_ptr<const ChatFormat> chat_format,
                     EndpointAbilities abilities)
      : client_(std::move(client)),
        tokenizer_(std::move(tokenizer)),
        config_(std::move(config)),
        pause_(std::move(pause)),
        chat_format_(std::move(chat_format)),
        abilities_(std::move(abilities)) {}

  ~HttpEndpointEngine() override {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  void StartThreads() {
    for (int i = 0; i < client_->spec().in_flight; ++i) threads_.emplace_back([this] { Work(); });
    threads_.emplace_back([this] { Reconnect(); });
  }

  const EndpointAbilities& abilities() const override { return abilities_; }
  const EndpointClient& client() const override { return *client_; }

  absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) override {
    RETURN_IF_ERROR(Check(request));
    const MutexLock lock(mutex_);
    if (stopping_) return Unavailable("the engine is shutting down");
    RETURN_IF_ERROR(fault_);
    const auto pending = std::make_shared<Pending>();
    pending->handle = next_handle_++;
    pending->request = std::move(request);
    pending->on_done = std::move(callbacks.on_done);
    pending->start_us = Clock::Real().MonotonicMicros();
    queue_.push_back(pending);
    active_[pending->handle] = pending;
    changed_.NotifyAll();  // the thread that reconnects waits on it too
    return pending->handle;
  }

  void Cancel(Handle handle) override {
    const MutexLock lock(mutex_);
    const auto found = active_.find(handle);
    if (found != active_.end()) found->second->is_cancelled = true;
  }

  EngineDescription Describe() const override {
    EngineDescription description;
    description.context_tokens_max = config_.max_position;
    description.batch_size_max = client_->spec().in_flight;
    description.prefix_cache = true;  // assumed: it only affects estimates
    description.why_no_scores = abilities_.why_no_scores;
    description.why_no_top_k = abilities_.why_no_top_k;
    description.why_no_min_p = abilities_.why_no_min_p;
    if (IsChat()) {
      description.why_no_plain_prompts = absl::StrCat("endpoint \"", client_->spec().name,
                                                      "\" is asked over the chat API, which takes messages alone");
      description.why_no_forced_end = kNoForcedEnd;
    }
    description.why_no_attention_settings = std::string(AttentionUnsupportedError().message());
    description.why_no_inspection = description.why_no_attention_settings;
    description.estimates_time = false;
    return description;
  }
  EngineStatus Status() const override {
    const MutexLock lock(mutex_);
    EngineStatus status;
    status.queued_count = std::ssize(queue_);
    status.running_count = std::ssize(active_) - std::ssize(queue_);
    return status;
  }
  absl::StatusOr<EngineEstimate> Estimate(int64_t prompt_token_count, int64_t new_token_count, int64_t) override {
    RETURN_IF_ERROR(CheckLength(config_.max_position, prompt_token_count, new_token_count));
    return EngineEstimate{};
  }
  void DropPrefixCache() override {}
  absl::Status Fault() const override {
    const MutexLock lock(mutex_);
    return fault_;
  }

 private:
  struct Pending {
    Handle handle = 0;
    EngineRequest request;
    std::function<void(absl::StatusOr<EngineResult>)> on_done;
    int64_t start_us = 0;
    std::atomic<bool> is_cancelled{false};
  };

  bool IsChat() const { return client_->spec().api == EndpointApi::kChat; }

  absl::Status SetMessages(const EngineRequest& request, CompletionRequest* sent) const {
    sent->token_ids = request.token_ids;
    const std::optional<bool> thinking =
        request.thinking_switch.has_value() ? request.thinking_switch : abilities_.thinking_switch;
    ASSIGN_OR_RETURN(sent->chat, ToChat(*tokenizer_, *chat_format_, request.token_ids, thinking, request.turns));
    sent->chat->length_name = abilities_.length_name;
    sent->chat->is_prompt_count_known = client_->spec().checks_prompt_counts;
    return absl::OkStatus();
  }

  absl::Status Check(const EngineRequest& request) const {
    RETURN_IF_ERROR(CheckNotEmpty(request.token_ids));
    RETURN_IF_ERROR(CheckIds(request.token_ids, "prompt_token_ids", config_.vocabulary_size));
    if (!request.attention_overrides.empty() || !request.inspected_boundaries.empty() || request.keep_groups)
      return AttentionUnsupportedError();
    int64_t later_tokens = 0;
    const auto* generate = std::get_if<GenerateWork>(&request.work);
    if (generate != nullptr) {
      RETURN_IF_ERROR(CheckGenerateWork(*generate));
      if (generate->ignore_eos) return Unimplemented("a model behind an endpoint always ends at its EOS");
      if (IsChat() && generate->thinking.has_value() && !generate->thinking->forced_ids.empty())
        return absl::UnimplementedError(kNoForcedEnd);
      later_tokens = generate->max_new_tokens;
    }
    for (const auto& scored : Scored(request)) {
      RETURN_IF_ERROR(CheckIds(scored, "continuations", config_.vocabulary_size));
      later_tokens = std::max(later_tokens, std::ssize(scored) + 1);  // a server generates at least one token
    }
    if ((generate == nullptr || !generate->scored.empty()) && !abilities_.why_no_scores.empty())
      return WithReason(absl::FailedPreconditionError(abilities_.why_no_scores), ErrorReason::kEndpointWithoutLogprobs);
    return CheckLength(config_.max_position, std::ssize(request.token_ids), later_tokens);
  }

  static std::vector<std::vector<int32_t>> Scored(const EngineRequest& request) {
    if (const auto* generate = std::get_if<GenerateWork>(&request.work)) return generate->scored;
    if (const auto* score = std::get_if<ScoreContinuationsWork>(&request.work)) return score->continuations;
    return {};
  }

  // Sets the text of the request where ids are not accepted: decoded, and checked to give the same ids.
  absl::Status SetPrompt(std::vector<int32_t> ids, CompletionRequest* request) const {
    request->token_ids = std::move(ids);
    if (abilities_.takes_token_ids) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<int32_t> added, tokenizer_->Encode(""));
    absl::Span<const int32_t> own = request->token_ids;
    // The server adds the leading special tokens of a text itself.
    if (own.size() >= added.size() && std::equal(added.begin(), added.end(), own.begin()))
      own.remove_prefix(added.size());
    ASSIGN_OR_RETURN(request->text, tokenizer_->Decode(own, {.keep_special_tokens = true}));
    ASSIGN_OR_RETURN(const std::vector<int32_t> again, tokenizer_->Encode(*request->text));
    if (again == request->token_ids) return absl::OkStatus();
    return WithReason(
        InvalidArgument("endpoint \"", client_->spec().name, "\" accepts text only, and the ",
                        request->token_ids.size(), " token ids of this prompt are those of no text: its text has ",
                        again.size(), " token ids"),
        ErrorReason::kEndpointRefused);
  }

  absl::StatusOr<EngineResult> Run(const Pending& pending) const {
    const EngineRequest& request = pending.request;
    const auto is_cancelled = [&] { return pending.is_cancelled || stopping_; };
    const Clock& clock = Clock::Real();
    const int64_t begin_us = clock.MonotonicMicros();
    EngineResult result;
    result.queue_us = begin_us - pending.start_us;
    result.prompt_token_count = std::ssize(request.token_ids);
    result.attempt_count = 0;
    if (const auto* work = std::get_if<GenerateWork>(&request.work))
      RETURN_IF_ERROR(Generate(request, *work, is_cancelled, &result));
    for (const std::vector<int32_t>& continuation : Scored(request)) {
      EngineContinuationScore score;
      RETURN_IF_ERROR(Score(request, continuation, is_cancelled, &score, &result));
      result.log_likelihood += score.log_likelihood;
      result.continuations.push_back(std::move(score));
    }
    if (std::holds_alternative<ScoreTextWork>(request.work)) RETURN_IF_ERROR(ScoreText(request, is_cancelled, &result));
    if (config_.trained_context_length.has_value())
      result.extrapolated = result.prompt_token_count + result.new_token_count > *config_.trained_context_length;
    // The server does not tell prefill from decode.
    result.decode_us = clock.MonotonicMicros() - begin_us;
    return result;
  }

  absl::StatusOr<Completion> Complete(CompletionRequest request, const EndpointClient::IsCancelled& is_cancelled,
                                      EngineResult* result) const {
    ASSIGN_OR_RETURN(Completed completed, client_->Complete(std::move(request), is_cancelled));
    result->attempt_count = std::max(result->attempt_count, completed.attempt_count);
    result->cached_token_count = std::min(result->prompt_token_count, completed.completion.cached_token_count);
    return std::move(completed.completion);
  }

  absl::Status Generate(const EngineRequest& request, const GenerateWork& work,
                        const EndpointClient::IsCancelled& is_cancelled, EngineResult* result) const {
    if (work.thinking.has_value())
      return IsChat() ? ThinkInChat(request, work, is_cancelled, result) : Think(request, work, is_cancelled, result);
    CompletionRequest sent;
    RETURN_IF_ERROR(IsChat() ? SetMessages(request, &sent) : SetPrompt(request.token_ids, &sent));
    return Ask(std::move(sent), work, is_cancelled, result);
  }

  absl::Status Ask(CompletionRequest sent, const GenerateWork& work, const EndpointClient::IsCancelled& is_cancelled,
                   EngineResult* result) const {
    sent.max_new_tokens = work.max_new_tokens;
    sent.sampling = work.sampling;
    sent.sends_top_k = abilities_.why_no_top_k.empty();
    sent.sends_min_p = abilities_.why_no_min_p.empty();
    sent.seed = work.seed;
    sent.stop = work.stop;
    ASSIGN_OR_RETURN(Completion completion, Complete(std::move(sent), is_cancelled, result));
    result->new_token_count = completion.new_token_count;
    result->matched_stop = completion.stop_string;
    // The API has one word for an EOS and a stop string; some servers add which string it was.
    result->finish_reason = !completion.is_at_stop            ? EngineFinishReason::kLength
                            : !completion.stop_string.empty() ? EngineFinishReason::kStop
                                                              : EngineFinishReason::kEos;
    result->text = std::move(completion.text);
    return absl::OkStatus();
  }

  // Stop strings are applied here, since a server would stop at them inside a block. The tokens of thinking are asked for
  // first; where they end inside the answer, or the end of the block is forced, a second request continues.
  absl::Status Think(const EngineRequest& request, const GenerateWork& work,
                     const EndpointClient::IsCancelled& is_cancelled, EngineResult* result) const {
    const ThinkingWork& thinking = *work.thinking;
    const int64_t together = thinking.tokens_max + thinking.answer_tokens_max;
    const bool shares = work.max_new_tokens < together;  // one bound for both
    std::vector<int32_t> ids = request.token_ids;
    int64_t left = shares ? work.max_new_tokens : thinking.tokens_max;
    for (int request_count = 1;; ++request_count) {
      GenerateWork part = work;
      part.thinking.reset();
      part.stop.clear();
      part.max_new_tokens = left;
      EngineRequest asked;
      asked.token_ids = ids;
      const std::string before = result->text;
      const int64_t count_before = result->new_token_count;
      RETURN_IF_ERROR(Generate(asked, part, is_cancelled, result));
      result->new_token_count += count_before;
      std::string added = result->text;
      result->text = absl::StrCat(before, added);
      RETURN_IF_ERROR(ApplyThinking(*tokenizer_, work, *result));
      if (result->finish_reason != EngineFinishReason::kLength || request_count == 2 || shares) return absl::OkStatus();
      const ThinkingSplit split = SplitThinking(result->text, thinking.rule, work.stop);
      if (split.is_inside) {
        if (thinking.forced_ids.empty()) return absl::OkStatus();
        ASSIGN_OR_RETURN(const std::string forced,
                         tokenizer_->Decode(thinking.forced_ids, {.keep_special_tokens = true}));
        absl::StrAppend(&added, forced);
        absl::StrAppend(&result->text, forced);
        result->is_thinking_forced = true;
        result->new_token_count += std::ssize(thinking.forced_ids);
        left = thinking.answer_tokens_max;
      } else {
        left = thinking.answer_tokens_max - (result->new_token_count - result->thinking_token_count);
        if (left <= 0) return absl::OkStatus();
      }
      ASSIGN_OR_RETURN(const std::vector<int32_t> further, tokenizer_->Encode(added, {.add_special_tokens = false}));
      ids.insert(ids.end(), further.begin(), further.end());
    }
  }

  // In one request, with the sum of both bounds: no message continues an answer that is cut.
  absl::Status ThinkInChat(const EngineRequest& request, const GenerateWork& work,
                           const EndpointClient::IsCancelled& is_cancelled, EngineResult* result) const {
    const ThinkingRule& rule = work.thinking->rule;
    CompletionRequest sent;
    RETURN_IF_ERROR(SetMessages(request, &sent));
    sent.chat->thinking_begin = rule.markers.begin;
    sent.chat->thinking_end = rule.markers.end;
    sent.chat->is_thinking_opened = rule.is_opened;
    GenerateWork part = work;
    part.stop.clear();
    RETURN_IF_ERROR(Ask(std::move(sent), part, is_cancelled, result));
    return ApplyThinking(*tokenizer_, work, *result);
  }

  // The log-probabilities of the last `count` tokens of a prompt.
  absl::StatusOr<std::vector<CompletionToken>> Echo(std::vector<int32_t> ids, size_t count,
                                                    const EndpointClient::IsCancelled& is_cancelled,
                                                    EngineResult* result) const {
    CompletionRequest sent;
    RETURN_IF_ERROR(SetPrompt(std::move(ids), &sent));
    sent.logprobs = true;
    sent.echo = true;
    ASSIGN_OR_RETURN(const Completion completion, Complete(std::move(sent), is_cancelled, result));
    const auto end = completion.tokens.end() - completion.new_token_count;
    if (std::distance(completion.tokens.begin(), end) < static_cast<int64_t>(count)) {
      return WithReason(FailedPrecondition("the server sent log-probabilities of ", end - completion.tokens.begin(),
                                           " tokens; ", count, " are needed"),
                        ErrorReason::kEndpointWithoutLogprobs);
    }
    std::vector<CompletionToken> tokens(end - count, end);
    for (const CompletionToken& token : tokens) {
      if (token.log_prob.has_value()) continue;
      return WithReason(FailedPrecondition("the server sent no log-probability for a token that follows others"),
                        ErrorReason::kEndpointWithoutLogprobs);
    }
    return tokens;
  }

  absl::Status Score(const EngineRequest& request, const std::vector<int32_t>& continuation,
                     const EndpointClient::IsCancelled& is_cancelled, EngineContinuationScore* score,
                     EngineResult* result) const {
    std::vector<int32_t> ids = request.token_ids;
    ids.insert(ids.end(), continuation.begin(), continuation.end());
    ASSIGN_OR_RETURN(const std::vector<CompletionToken> tokens,
                     Echo(std::move(ids), continuation.size(), is_cancelled, result));
    score->token_count = std::ssize(continuation);
    score->is_greedy = true;
    for (const CompletionToken& token : tokens) {
      score->token_log_probs.push_back(*token.log_prob);
      score->log_likelihood += *token.log_prob;
      score->is_greedy = score->is_greedy && token.is_greedy;
    }
    return absl::OkStatus();
  }

  absl::Status ScoreText(const EngineRequest& request, const EndpointClient::IsCancelled& is_cancelled,
                         EngineResult* result) const {
    ASSIGN_OR_RETURN(const std::vector<CompletionToken> tokens,
                     Echo(request.token_ids, request.token_ids.size() - 1, is_cancelled, result));
    result->token_log_probs.emplace_back();
    for (const CompletionToken& token : tokens) {
      result->token_log_probs.push_back(token.log_prob);
      result->log_likelihood += *token.log_prob;
    }
    return absl::OkStatus();
  }

  void Work() {
    MutexLock lock(mutex_);
    while (true) {
      changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::shared_ptr<Pending> pending = queue_.front();
      queue_.pop_front();
      absl::StatusOr<EngineResult> result = fault_.ok() ? absl::StatusOr<EngineResult>(EngineResult()) : fault_;
      if (stopping_) result = Unavailable("the engine is shutting down");
      lock.Unlock();
      if (result.ok()) result = CatchExceptions("asking the endpoint", [&] { return Run(*pending); });
      lock.Lock();
      active_.erase(pending->handle);
      // A call may ask for more than is left while others still fit.
      const bool ends_jobs =
          pending->request.lane == EngineLane::kJob && HasReason(result.status(), ErrorReason::kEndpointBudgetSpent);
      if (!result.ok() && stopping_) {
        result = Unavailable("the engine is shutting down");
      } else if ((HasReason(result.status(), ErrorReason::kEndpointFaulted) || ends_jobs) && fault_.ok()) {
        fault_ = result.status();
        changed_.NotifyAll();
      }
      lock.Unlock();
      pending->on_done(std::move(result));
      lock.Lock();
    }
  }

  // Clears a fault once the server answers again.
  void Reconnect() {
    MutexLock lock(mutex_);
    while (!stopping_) {
      changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) {
        return stopping_ || HasReason(fault_, ErrorReason::kEndpointFaulted);
      });
      const auto is_stopping = [this] { return stopping_.load(); };
      lock.Unlock();
      pause_(kReconnectUs, is_stopping);
      const bool is_serving = !stopping_ && client_->IsServingModel(is_stopping);
      lock.Lock();
      if (is_serving) fault_ = absl::OkStatus();
    }
  }

  const std::unique_ptr<EndpointClient> client_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const ModelConfig config_;
  const EndpointClient::Pause pause_;
  const std::shared_ptr<const ChatFormat> chat_format_;  // of the chat API
  const EndpointAbilities abilities_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Pending>> queue_ VF_GUARDED_BY(mutex_);
  std::map<Handle, std::shared_ptr<Pending>> active_ VF_GUARDED_BY(mutex_);
  Handle next_handle_ VF_GUARDED_BY(mutex_) = 0;
  absl::Status fault_ VF_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_{false};  // written under mutex_
  std::vector<std::thread> threads_;
};

}  // namespace

const LoadedModel& EndpointEngine::model() const {
  VF_CHECK(false, "an endpoint has no checkpoint");
  __builtin_unreachable();
}

absl::StatusOr<std::unique_ptr<EndpointEngine>> EndpointEngine::Create(std::unique_ptr<EndpointClient> client,
                                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                                       ModelConfig config, EndpointClient::Pause pause,
                                                                       std::shared_ptr<const ChatFormat> chat_format) {
  ASSIGN_OR_RETURN(EndpointAbilities abilities, FindAbilities(*client, *tokenizer, chat_format.get()));
  auto engine = std::make_unique<HttpEndpointEngine>(std::move(client), std::move(tokenizer), std::move(config),
                                                     std::move(pause), std::move(chat_format), std::move(abilities));
  engine->StartThreads();
  return engine;
}

}  // namespace varifocal
