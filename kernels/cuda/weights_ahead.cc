#include "kernels/cuda/weights_ahead.h"

#include <algorithm>

namespace varifocal::kernels::cuda {

size_t AheadBytes(size_t l2_bytes, int capability) {
  if (capability < 90) return 0;
  return std::min(kAheadBytesMax, static_cast<size_t>(kAheadShare * static_cast<double>(l2_bytes))) / 128 * 128;
}

void WeightOrder::BeginDecodeStep() {
  if (bytes_max_ == 0) return;
  // A step that ended early leaves the order as it was known.
  const bool is_part = seen_.size() < known_.size() && std::equal(seen_.begin(), seen_.end(), known_.begin(), IsSame);
  if (!is_part) known_.swap(seen_);
  seen_.clear();
  follows_ = true;
  next_ = asked_ = asked_bytes_ = unread_ = 0;
}

void WeightOrder::Read(std::weak_ptr<const void> life, const void* at, size_t bytes) {
  if (bytes_max_ == 0) return;
  seen_.push_back({std::move(life), static_cast<const unsigned char*>(at), bytes});
  follows_ = follows_ && next_ < known_.size() && IsSame(known_[next_], seen_.back());
  if (!follows_) return;
  if (asked_ > next_) {
    unread_ -= bytes;
  } else {
    unread_ -= asked_bytes_;
    asked_ = next_ + 1;
    asked_bytes_ = 0;
  }
  ++next_;
}

WeightsAhead WeightOrder::Ahead(bool is_product) {
  WeightsAhead ahead;
  if (!follows_) return ahead;
  size_t room = std::min(bytes_max_ - unread_, is_product ? bytes_max_ / kProductShare : bytes_max_) / 16 * 16;
  for (AheadPiece& piece : ahead.pieces) {
    if (room == 0 || asked_ == known_.size()) break;
    const Entry& entry = known_[asked_];
    if (entry.life.expired()) {
      follows_ = false;
      break;
    }
    const size_t bytes = std::min(room, entry.bytes - asked_bytes_);
    piece = {entry.at + asked_bytes_, static_cast<int64_t>(bytes)};
    room -= bytes;
    unread_ += bytes;
    asked_bytes_ += bytes;
    if (asked_bytes_ == entry.bytes) {
      ++asked_;
      asked_bytes_ = 0;
    }
  }
  return ahead;
}

}  // namespace varifocal::kernels::cuda
