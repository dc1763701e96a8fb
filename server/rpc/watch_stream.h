// A stream of messages to a client: a handle that may outlive its gRPC reactor.
//
// gRPC destroys the reactor when the client disconnects, while the watcher thread still has the handle; and the watcher
// may end the stream while a write is pending. So the handle tracks whether the reactor exists, and Finish waits for
// the write.
//
// Threads: any; calls are serialised by a mutex. gRPC is never called with a lock that its callbacks take.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/mutex.h"
#include "grpcpp/server_context.h"
#include "server/rpc/status.h"
#include "varifocal/v1/evaluation.pb.h"

namespace varifocal {

template <typename Message>
class MessageStream {
 public:
  static std::shared_ptr<MessageStream> Make() {
    auto stream = std::make_shared<MessageStream>();
    stream->reactor_ = new Reactor(stream);
    return stream;
  }

  // For gRPC, once.
  grpc::ServerWriteReactor<Message>* reactor() const { return reactor_; }

  // Neither ended nor cancelled by its client.
  bool IsOpen() const {
    MutexLock lock(mutex_);
    return !is_finished_ && !end_;
  }
  // No message pending.
  bool IsReady() const {
    MutexLock lock(mutex_);
    return !is_writing_;
  }
  // Needs IsReady.
  void Send(Message message) {
    {
      MutexLock lock(mutex_);
      if (is_finished_ || end_) return;  // the client disconnected in between
      VF_CHECK(!is_writing_);
      message_ = std::move(message);
      is_writing_ = true;
    }
    reactor_->StartWrite(&message_);
  }
  // Ends the stream with `status` after the pending message and this one; no effect on a stream that has ended.
  void SendLast(Message message, const absl::Status& status = absl::OkStatus()) {
    {
      MutexLock lock(mutex_);
      if (is_finished_ || end_) return;
      if (is_writing_) {
        last_ = std::move(message);
        end_ = status;
        return;
      }
      message_ = std::move(message);
      is_finished_ = true;
    }
    reactor_->StartWriteAndFinish(&message_, grpc::WriteOptions(), ToGrpcStatus(status));
  }
  // After the pending message; no effect on a stream that has ended.
  void End(const absl::Status& status) {
    {
      MutexLock lock(mutex_);
      if (is_finished_ || end_) return;
      if (is_writing_) {
        end_ = status;
        return;
      }
      is_finished_ = true;
    }
    reactor_->Finish(ToGrpcStatus(status));
  }

 private:
  // Keeps its stream alive until gRPC is done with it.
  class Reactor final : public grpc::ServerWriteReactor<Message> {
   public:
    explicit Reactor(std::shared_ptr<MessageStream> stream) : stream_(std::move(stream)) {}
    void OnWriteDone(bool) override { stream_->OnWriteDone(); }
    void OnCancel() override { stream_->End(absl::CancelledError("the client disconnected")); }
    void OnDone() override { delete this; }

   private:
    const std::shared_ptr<MessageStream> stream_;
  };

  void OnWriteDone() {
    absl::Status status;
    bool has_last = false;
    {
      MutexLock lock(mutex_);
      is_writing_ = false;
      if (is_finished_ || !end_) return;
      is_finished_ = true;
      status = *end_;
      has_last = last_.has_value();
      if (has_last) message_ = *std::move(last_);
    }
    if (has_last) {
      reactor_->StartWriteAndFinish(&message_, grpc::WriteOptions(), ToGrpcStatus(status));
    } else {
      reactor_->Finish(ToGrpcStatus(status));
    }
  }

  Reactor* reactor_ = nullptr;  // deletes itself after Finish
  mutable Mutex mutex_;
  bool is_writing_ VF_GUARDED_BY(mutex_) = false;
  bool is_finished_ VF_GUARDED_BY(mutex_) = false;         // Finish was called, or is about to be
  std::optional<absl::Status> end_ VF_GUARDED_BY(mutex_);  // requested while a write is pending
  std::optional<Message> last_ VF_GUARDED_BY(mutex_);      // the same, before the end
  Message message_;                                        // being written, by one thread while is_writing_
};

using WatchStream = MessageStream<v1::WatchJobResponse>;

}  // namespace varifocal
