// A WatchJob stream: the gRPC reactor behind a handle that may outlive it.
//
// gRPC ends the reactor when the client goes away, while the watcher thread still holds the handle; and the watcher
// ends the stream while a write is under way. Both are settled here: the handle knows whether the reactor lives, and an
// end waits for the write.
//
// Threads: any; calls are serialised inside. gRPC is never called with a lock that its callbacks take.
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

  bool IsOpen() const;                          // neither ended nor left by its client
  bool IsReady() const;                         // no message under way
  void Send(v1::WatchJobResponse message);      // needs IsReady
  void SendLast(v1::WatchJobResponse message);  // needs IsReady; ends the stream with OK
  void End(const absl::Status& status);         // after the message under way; a stream that has ended stays as it is

 private:
  class Reactor;

  void OnWriteDone();
  void OnCancel();

  Reactor* reactor_ = nullptr;  // deletes itself after Finish
  mutable std::mutex mutex_;
  bool is_writing_ = false;
  bool is_finished_ = false;         // Finish was called, or is about to be
  std::optional<absl::Status> end_;  // wanted while a write is under way
  v1::WatchJobResponse message_;     // under way
};

}  // namespace varifocal
