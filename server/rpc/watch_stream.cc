#include "server/rpc/watch_stream.h"

#include <utility>

#include "base/check.h"
#include "server/rpc/status.h"

namespace varifocal {

// Keeps its stream alive until gRPC is done with it.
class WatchStream::Reactor final : public grpc::ServerWriteReactor<v1::WatchJobResponse> {
 public:
  explicit Reactor(std::shared_ptr<WatchStream> stream) : stream_(std::move(stream)) {}
  void OnWriteDone(bool) override { stream_->OnWriteDone(); }
  void OnCancel() override { stream_->OnCancel(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<WatchStream> stream_;
};

std::shared_ptr<WatchStream> WatchStream::Make() {
  auto stream = std::make_shared<WatchStream>();
  stream->reactor_ = new Reactor(stream);
  return stream;
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchStream::reactor() const { return reactor_; }

bool WatchStream::IsOpen() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return !is_finished_ && !end_;
}

bool WatchStream::IsReady() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return !is_writing_;
}

void WatchStream::Send(v1::WatchJobResponse message) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_finished_) return;  // the client disconnected in between
    VF_CHECK(!is_writing_);
    message_ = std::move(message);
    is_writing_ = true;
  }
  reactor_->StartWrite(&message_);
}

void WatchStream::SendLast(v1::WatchJobResponse message) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_finished_) return;
    VF_CHECK(!is_writing_);
    message_ = std::move(message);
    is_finished_ = true;
  }
  reactor_->StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
}

void WatchStream::End(const absl::Status& status) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_finished_ || end_) return;
    if (is_writing_) {
      end_ = status;
      return;
    }
    is_finished_ = true;
  }
  reactor_->Finish(ToGrpcStatus(status));
}

void WatchStream::OnWriteDone() {
  absl::Status status;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_writing_ = false;
    if (is_finished_ || !end_) return;
    is_finished_ = true;
    status = *end_;
  }
  reactor_->Finish(ToGrpcStatus(status));
}

void WatchStream::OnCancel() { End(absl::CancelledError("the client disconnected")); }

}  // namespace varifocal
