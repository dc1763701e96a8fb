// A WatchJob stream: a handle that may outlive its gRPC reactor.
//
// gRPC destroys the reactor when the client disconnects, while the watcher thread still has the handle; and the watcher
// may end the stream while a write is pending. So the handle tracks whether the reactor exists, and Finish waits for
// the write.
//
// Threads: any; calls are serialised by a mutex. gRPC is never called with a lock that its callbacks take.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "varifocal/v1/evaluation.pb.h"

namespace varifocal {

class WatchStream : public std::enable_shared_from_this<WatchStream> {
 public:
  static std::shared_ptr<WatchStream> Make();

  // For gRPC, once.
  grpc::ServerWriteReactor<v1::WatchJobResponse>* reactor() const;

  bool IsOpen() const;                          // neither ended nor cancelled by its client
  bool IsReady() const;                         // no message pending
  void Send(v1::WatchJobResponse message);      // needs IsReady
  void SendLast(v1::WatchJobResponse message);  // needs IsReady; ends the stream with OK
  void End(const absl::Status& status);         // after the pending message; no effect on a stream that has ended

 private:
  class Reactor;

  void OnWriteDone();
  void OnCancel();

  Reactor* reactor_ = nullptr;  // deletes itself after Finish
  mutable std::mutex mutex_;
  bool is_writing_ = false;
  bool is_finished_ = false;         // Finish was called, or is about to be
  std::optional<absl::Status> end_;  // requested while a write is pending
  v1::WatchJobResponse message_;     // being written
};

}  // namespace varifocal
