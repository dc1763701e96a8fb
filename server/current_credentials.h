// The credentials of a listener as their files are now: TLS material and tokens, reloaded when a file changes.
//
// Files are read again every second. A version that is valid replaces the one before for the next handshake or call; one
// that is not (a key of another certificate while both are being replaced, a token file with a bad line, a file that is
// gone) is logged, and the one before stays in use. Connections that exist keep their certificates; tokens are looked up
// at every call.
//
// Errors:  from Read: those of ReadTlsMaterial and Tokens::Read.
// Threads: any; one background thread polls.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "server/front/tls_material.h"
#include "server/rpc/access.h"

namespace varifocal {

class CurrentCredentials : public TokenSource {
 public:
  // `files` and `token_file` may be empty. Logs a certificate that is not valid now: clients will refuse it.
  static absl::StatusOr<std::unique_ptr<CurrentCredentials>> Read(const TlsFiles& files, const std::string& token_file,
                                                                  const Clock& clock = Clock::Real());
  ~CurrentCredentials() override;

  std::shared_ptr<const TlsMaterial> tls() const;      // null without TLS
  std::shared_ptr<const Tokens> Get() const override;  // null without a token file
  int64_t WallMicros() const override { return clock_.WallMicros(); }
  // Reads the files again. The first error, which was logged if it is new.
  absl::Status Poll();

 private:
  CurrentCredentials(const TlsFiles& files, const std::string& token_file, const Clock& clock)
      : files_(files), token_file_(token_file), clock_(clock) {}
  absl::Status PollTls();
  absl::Status PollTokens();
  void WarnOfValidity(const TlsMaterial& tls) const;
  void Loop();

  const TlsFiles files_;
  const std::string token_file_;
  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const TlsMaterial> tls_ VF_GUARDED_BY(mutex_);
  std::shared_ptr<const Tokens> tokens_ VF_GUARDED_BY(mutex_);
  std::string logged_error_;  // of the thread
  std::thread thread_;
};

}  // namespace varifocal
