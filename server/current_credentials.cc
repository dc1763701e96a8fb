#include "server/current_credentials.h"

#include <chrono>
#include <utility>

#include "base/exceptions.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr auto kPollPeriod = std::chrono::seconds(1);
constexpr int64_t kMicrosPerSecond = 1'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<CurrentCredentials>> CurrentCredentials::Read(const TlsFiles& files,
                                                                             const std::string& token_file,
                                                                             const Clock& clock) {
  auto current = std::unique_ptr<CurrentCredentials>(new CurrentCredentials(files, token_file, clock));
  if (!files.empty()) {
    ASSIGN_OR_RETURN(TlsMaterial tls, ReadTlsMaterial(files));
    current->WarnOfValidity(tls);
    MutexLock lock(current->mutex_);
    current->tls_ = std::make_shared<TlsMaterial>(std::move(tls));
  }
  if (!token_file.empty()) {
    MutexLock lock(current->mutex_);
    ASSIGN_OR_RETURN(current->tokens_, Tokens::Read(token_file));
  }
  if (!files.empty() || !token_file.empty()) current->thread_ = std::thread([raw = current.get()] { raw->Loop(); });
  return current;
}

CurrentCredentials::~CurrentCredentials() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const TlsMaterial> CurrentCredentials::tls() const {
  MutexLock lock(mutex_);
  return tls_;
}

std::shared_ptr<const Tokens> CurrentCredentials::Get() const {
  MutexLock lock(mutex_);
  return tokens_;
}

absl::Status CurrentCredentials::Poll() {
  const absl::Status tls = PollTls();
  const absl::Status tokens = PollTokens();
  return tls.ok() ? tokens : tls;
}

absl::Status CurrentCredentials::PollTls() {
  if (files_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(TlsMaterial now, ReadTlsMaterial(files_));
  if (now == *tls()) return absl::OkStatus();
  WarnOfValidity(now);
  Log(LogLevel::kInfo, "certificate_reloaded",
      {{"file", files_.certificate},
       {"subject", now.subject},
       {"not_after", FormatUtc(now.not_after_s * kMicrosPerSecond)}});
  MutexLock lock(mutex_);
  tls_ = std::make_shared<TlsMaterial>(std::move(now));
  return absl::OkStatus();
}

absl::Status CurrentCredentials::PollTokens() {
  if (token_file_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::shared_ptr<const Tokens> now, Tokens::Read(token_file_));
  if (*now == *Get()) return absl::OkStatus();
  Log(LogLevel::kInfo, "tokens_reloaded", {{"file", token_file_}, {"tokens", now->size()}});
  MutexLock lock(mutex_);
  tokens_ = std::move(now);
  return absl::OkStatus();
}

void CurrentCredentials::WarnOfValidity(const TlsMaterial& tls) const {
  const int64_t now_s = clock_.WallMicros() / kMicrosPerSecond;
  if (now_s >= tls.not_before_s && now_s <= tls.not_after_s) return;
  Log(LogLevel::kError, "certificate_not_valid",
      {{"file", files_.certificate},
       {"subject", tls.subject},
       {"not_before", FormatUtc(tls.not_before_s * kMicrosPerSecond)},
       {"not_after", FormatUtc(tls.not_after_s * kMicrosPerSecond)}});
}

void CurrentCredentials::Loop() {
  MutexLock lock(mutex_);
  while (!wake_.WaitFor(mutex_, kPollPeriod, [this]() VF_REQUIRES(mutex_) { return stopping_; })) {
    lock.Unlock();
    const absl::Status status = CatchExceptions("reading credentials", [this] { return Poll(); });
    if (!status.ok() && logged_error_ != status.message())
      Log(LogLevel::kError, "credentials_not_reloaded", {{"error", status.message()}});
    logged_error_ = std::string(status.message());
    lock.Lock();
  }
}

}  // namespace varifocal
