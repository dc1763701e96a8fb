// How many calls ended, by method and status, and how many errors had which reason.
//
// Counted by an interceptor when the status is sent; health and reflection are not counted. Methods that do not exist are
// counted together, as "unknown".
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "grpcpp/support/server_interceptor.h"
#include "grpcpp/support/status.h"

namespace varifocal {

class CallCounts {
 public:
  struct Counts {
    std::map<std::pair<std::string, std::string>, int64_t> calls;  // by ("Inference/Generate", "OK")
    std::map<std::string, int64_t> errors;                         // by reason, "CONTEXT_TOO_LONG"
  };

  void Add(const std::string& method, const grpc::Status& status);
  Counts Get() const;

 private:
  mutable Mutex mutex_;
  Counts counts_ VF_GUARDED_BY(mutex_);
};

// `counts` outlives the server. Created after other interceptors, which may replace the status.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallCounter(CallCounts* counts);

}  // namespace varifocal
