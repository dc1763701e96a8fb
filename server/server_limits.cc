#include "server/server_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status_macros.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"

namespace varifocal {

void SetTransportLimits(grpc::ServerBuilder& builder, const ConnectionTimeouts& timeouts) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kHeaderBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, timeouts.idle_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, timeouts.keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, timeouts.keepalive_answer_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // gRPC 1.51 inflates a message before it looks at its size. The front refuses those that come over a socket
  // (front/frame_gate.h); with these a client gets an error, and nothing is ever inflated.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  grpc::ResourceQuota quota("varifocald");
  quota.Resize(kTransportBytesMax);
  builder.SetResourceQuota(quota);
}

absl::Status CheckThreadsAreLeft(int count) {
  struct {
    Mutex mutex;
    CondVar may_end;
    bool is_over VF_GUARDED_BY(mutex) = false;
  } hold;
  std::vector<std::thread> threads;
  absl::Status status;
  try {
    threads.reserve(static_cast<size_t>(count));
    while (std::ssize(threads) < count) {
      threads.emplace_back([&] {
        MutexLock lock(hold.mutex);
        hold.may_end.Wait(hold.mutex, [&]() VF_REQUIRES(hold.mutex) { return hold.is_over; });
      });
    }
  } catch (const std::exception&) {
    status =
        ResourceExhausted("this process may have ", threads.size(), " threads more, and needs ", count,
                          "; the limit may be one of the user (ulimit -u), of a control group (pids.max) or of memory "
                          "(ulimit -v)");
  }
  {
    MutexLock lock(hold.mutex);
    hold.is_over = true;
  }
  hold.may_end.NotifyAll();
  for (std::thread& thread : threads) thread.join();
  return status;
}

int ConnectionsMax() {
  constexpr rlim_t kOtherDescriptors = 100, kDescriptorsOfConnection = 3;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kConnectionsMax;
  if (limit.rlim_cur < 2 * kOtherDescriptors) return 16;
  const rlim_t fit = (limit.rlim_cur - kOtherDescriptors) / kDescriptorsOfConnection;
  return static_cast<int>(std::min<rlim_t>(kConnectionsMax, fit));
}

absl::StatusOr<uint64_t> RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return Internal("cannot read the limit of open files: ", std::strerror(errno));
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
      return Internal("cannot raise the limit of open files to ", limit.rlim_max, ": ", std::strerror(errno));
  }
  return limit.rlim_cur;
}

}  // namespace varifocal
