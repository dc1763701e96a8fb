#include "tests/fakes/fake_engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr double kLogProb = -0.5;

void AddScores(const std::vector<std::vector<int32_t>>& continuations, EngineResult& result) {
  for (const auto& continuation : continuations) {
    EngineContinuationScore score;
    score.token_count = continuation.size();
    score.token_log_probs.assign(continuation.size(), kLogProb);
    score.log_likelihood = kLogProb * continuation.size();
    result.log_likelihood += score.log_likelihood;
    result.continuations.push_back(std::move(score));
  }
}

}  // namespace

EngineResult FakeAnswer(const EngineRequest& request) {
  EngineResult result;
  result.prompt_token_count = request.token_ids.size();
  result.invalid_utf8_count = request.invalid_utf8_count;
  result.prefill_us = 1000;
  result.decode_us = 500;
  if (!request.inspected_boundaries.empty()) {
    const size_t segments = request.inspected_boundaries.size() - 1;
    for (int head = 0; head < kFakeHeadCount; ++head) {
      result.inspected.heads.push_back({.visible_count = static_cast<int32_t>(request.token_ids.size()),
                                        .scale = 0.1f * head,
                                        .log_sum_exp = -1.0 / (head + 3),
                                        .entropy = 1.0 / (head + 7),
                                        .largest_weight = 1.0 / (request.inspected_row_count + 2),
                                        .sink_weight = 1.0 / (head + 5)});
    }
    for (size_t i = 0; i < kFakeHeadCount * segments; ++i) result.inspected.masses.push_back(1 / (i + 3.0));
  }
  if (const auto* work = std::get_if<GenerateWork>(&request.work)) {
    const int64_t count = std::min<int64_t>(work->max_new_tokens, 3);
    for (int64_t i = 0; i < count; ++i) result.new_token_ids.push_back(10 + i);
    result.new_token_log_probs.assign(count, kLogProb);
    result.text = absl::StrCat(
        "answer-", Sha256Hex(absl::StrCat(absl::StrJoin(request.token_ids, ","), ";",
                                          absl::StrJoin(request.attention_overrides, ",",
                                                        [](std::string* out, const AttentionOverride& given) {
                                                          absl::StrAppend(out, given.name, "=", given.value.dump());
                                                        })))
                       .substr(0, 8));
    AddScores(work->scored, result);
    result.finish_reason = count < work->max_new_tokens ? EngineFinishReason::kEos : EngineFinishReason::kLength;
  } else if (const auto* scores = std::get_if<ScoreContinuationsWork>(&request.work)) {
    AddScores(scores->continuations, result);
  } else {
    result.token_log_probs.assign(request.token_ids.size(), kLogProb);
    result.token_log_probs[0] = std::nullopt;
    result.log_likelihood = kLogProb * (request.token_ids.size() - 1);
  }
  return result;
}

void FakeEngineControl::SetDelayMs(int delay_ms) {
  MutexLock lock(mutex_);
  delay_ms_ = delay_ms;
}

void FakeEngineControl::Hold() {
  MutexLock lock(mutex_);
  held_ = true;
}

void FakeEngineControl::Release() {
  MutexLock lock(mutex_);
  held_ = false;
  until_hold_ = 0;
  changed_.NotifyAll();
}

void FakeEngineControl::FailNext(int count, absl::Status status) {
  MutexLock lock(mutex_);
  failures_ = count;
  failure_ = std::move(status);
}

void FakeEngineControl::SetFault(const std::string& model, absl::Status status) {
  MutexLock lock(mutex_);
  faults_[model] = std::move(status);
}

void FakeEngineControl::SetPageCount(int64_t page_count) {
  MutexLock lock(mutex_);
  page_count_ = page_count;
}

void FakeEngineControl::SetInstructionSet(std::string isa) {
  MutexLock lock(mutex_);
  isa_ = std::move(isa);
}

std::string FakeEngineControl::instruction_set() const {
  MutexLock lock(mutex_);
  return isa_;
}

void FakeEngineControl::HoldAfter(int count) {
  MutexLock lock(mutex_);
  held_ = false;
  until_hold_ = count;
  changed_.NotifyAll();
}
void FakeEngineControl::WaitUntilStarted() const {
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return started_count_ > 0; });
}
int FakeEngineControl::started_count() const {
  MutexLock lock(mutex_);
  return started_count_;
}

int FakeEngineControl::cancelled_count() const {
  MutexLock lock(mutex_);
  return cancelled_count_;
}

FakeEngine::FakeEngine(std::shared_ptr<FakeEngineControl> control, std::string model)
    : control_(std::move(control)), model_(std::move(model)), thread_([this] { Loop(); }) {}

FakeEngine::~FakeEngine() {
  {
    MutexLock lock(control_->mutex_);
    stopping_ = true;
    control_->changed_.NotifyAll();
  }
  thread_.join();
}

absl::StatusOr<Engine::Handle> FakeEngine::Start(EngineRequest request, EngineCallbacks callbacks) {
  MutexLock lock(control_->mutex_);
  if (stopping_) return absl::UnavailableError("the engine is shutting down");
  const Handle handle = next_handle_++;
  queue_.push_back(std::make_shared<Pending>(Pending{handle, std::move(request), std::move(callbacks)}));
  ++control_->started_count_;
  control_->changed_.NotifyAll();
  return handle;
}

void FakeEngine::Cancel(Handle handle) {
  MutexLock lock(control_->mutex_);
  for (const auto& pending : queue_) {
    if (pending->handle == handle && !pending->cancelled) {
      pending->cancelled = true;
      ++control_->cancelled_count_;
    }
  }
  control_->changed_.NotifyAll();
}

void FakeEngine::Loop() {
  MutexLock lock(control_->mutex_);
  while (true) {
    const auto ready = [this]() VF_REQUIRES(control_->mutex_) {
      return std::any_of(queue_.begin(), queue_.end(), [](const auto& p) { return p->cancelled; });
    };
    control_->changed_.Wait(control_->mutex_, [&]() VF_REQUIRES(control_->mutex_) {
      return stopping_ || ready() || (!queue_.empty() && !control_->held_);
    });
    if (queue_.empty()) {
      if (stopping_) return;
      continue;
    }
    auto next = std::find_if(queue_.begin(), queue_.end(), [](const auto& p) { return p->cancelled; });
    if (next == queue_.end()) next = queue_.begin();
    const std::shared_ptr<Pending> pending = *next;
    if (!pending->cancelled && !stopping_ && control_->delay_ms_ > 0) {
      control_->changed_.WaitFor(control_->mutex_, std::chrono::milliseconds(control_->delay_ms_),
                                 [&]() VF_REQUIRES(control_->mutex_) { return stopping_ || pending->cancelled; });
      if (control_->held_ && !stopping_ && !pending->cancelled) continue;
    }
    if (!pending->cancelled && !stopping_ && control_->until_hold_ > 0) control_->held_ = --control_->until_hold_ == 0;
    absl::StatusOr<EngineResult> result = FakeAnswer(pending->request);
    if (stopping_) {
      result = absl::UnavailableError("the engine is shutting down");
    } else if (pending->cancelled && std::holds_alternative<GenerateWork>(pending->request.work)) {
      result->finish_reason = EngineFinishReason::kCancelled;
    } else if (pending->cancelled) {
      result = absl::CancelledError("the request was cancelled");
    } else if (!control_->faults_[model_].ok()) {
      result = control_->faults_[model_];
    } else if (control_->failures_ > 0) {
      --control_->failures_;
      result = control_->failure_;
    }
    queue_.erase(std::find(queue_.begin(), queue_.end(), pending));
    lock.Unlock();
    if (result.ok() && pending->callbacks.on_token) {
      for (size_t i = 0; i < result->new_token_ids.size(); ++i)
        pending->callbacks.on_token(result->new_token_ids[i], kLogProb);
    }
    pending->callbacks.on_done(std::move(result));
    lock.Lock();
  }
}

absl::Status FakeEngine::Fault() const {
  MutexLock lock(control_->mutex_);
  return control_->faults_[model_];
}

const LoadedModel& FakeEngine::model() const {
  VF_CHECK(false, "a fake engine has no model");
  __builtin_unreachable();
}

EngineDescription FakeEngine::Describe() const {
  EngineDescription description;
  description.prefix_cache = true;
  description.batch_size_max = 16;
  MutexLock lock(control_->mutex_);
  description.page_count = control_->page_count_;
  description.context_tokens_max = control_->page_count_ * 128;
  description.kv_cache_bytes = control_->page_count_ * 128 * 1024;
  return description;
}

absl::StatusOr<EngineEstimate> FakeEngine::Estimate(int64_t prompt_token_count, int64_t new_token_count,
                                                    int64_t cached_token_count) {
  EngineEstimate estimate;
  estimate.cache_bytes = (prompt_token_count + new_token_count) * 1024;
  estimate.cache_bytes_limit = int64_t{1} << 30;
  estimate.fits = estimate.cache_bytes <= estimate.cache_bytes_limit;
  estimate.seconds = (prompt_token_count - cached_token_count + new_token_count) * 1e-4;
  return estimate;
}

ModelFactory MakeFakeModelFactory(std::shared_ptr<FakeEngineControl> control) {
  return MakeFakeModelFactory(control, [control](const std::string& name) -> std::unique_ptr<Engine> {
    return std::make_unique<FakeEngine>(control, name);
  });
}

ModelFactory MakeFakeModelFactory(std::shared_ptr<FakeEngineControl> control, MakeEngine make_engine) {
  return [control, make_engine](const std::string& name,
                                const std::string& directory) -> absl::StatusOr<std::unique_ptr<HostedModel>> {
    if (absl::EndsWith(directory, "missing")) return absl::NotFoundError(absl::StrCat("no directory ", directory));
    auto model = std::make_unique<HostedModel>();
    model->config.model_type = "llama";
    model->config.layer_count = 2;
    model->config.head_count = kFakeHeadCount / 2;
    model->config.vocabulary_size = 2048;
    model->config.max_position = 4096;
    model->config.trained_context_length = 1024;
    if (absl::EndsWith(directory, "learned")) {
      auto learned =
          AttentionSetting::FromJson({{"focal_attention", {{"mode", "learned"}, {"tau_min", 3}, {"tau_max", 8}}}},
                                     AttentionModelOf(model->config));
      VF_CHECK(learned.ok());
      model->config.attention = *std::move(learned);
    }
    model->provenance.backend = "fake";
    model->provenance.device = "fake";
    model->provenance.isa = control->instruction_set();
    model->provenance.dtype = "f32";
    model->provenance.threads = 1;
    // The same weights under another rotation.
    const bool is_stretched = absl::EndsWith(directory, "-stretched");
    if (is_stretched) model->config.ropes = {{.kind = RopeKind::kLinear, .factor = 4}};
    model->provenance.weights_sha256 = Sha256Hex(is_stretched ? directory.substr(0, directory.size() - 10) : directory);
    model->provenance.weight_bytes = 1000;
    model->provenance.page_bytes = 128 * 1024;
    if (!absl::EndsWith(directory, "bare")) {
      ASSIGN_OR_RETURN(model->tokenizer, Tokenizer::Load("models/baseline"));
      model->provenance.tokenizer_sha256 = model->tokenizer->sha256();
    } else {
      model->provenance.tokenizer_sha256 = Sha256Hex("");
    }
    if (absl::EndsWith(directory, "chat")) {
      ChatFormat format = {Sha256Hex(directory), {"<|begin|>user\n", "", "<|end|>\n"}};
      format.with_system = {"<|begin|>user\n", "\n\n", "<|end|>\n"};
      if (absl::EndsWith(directory, "other-chat")) format.without_system.suffix = "<|end|>";
      if (absl::EndsWith(directory, "other-system-chat")) format.with_system->trim_system = {true, true};
      model->chat_format = std::make_shared<const ChatFormat>(std::move(format));
    }
    model->engine = make_engine(name);
    return model;
  };
}

}  // namespace varifocal
