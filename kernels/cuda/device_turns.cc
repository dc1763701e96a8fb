#include "kernels/cuda/device_turns.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "kernels/backend.h"

namespace varifocal::kernels::cuda {
namespace {

// Unlike a thread's id never that of an earlier one.
int ThreadNumber() {
  static std::atomic<int> count{0};
  thread_local const int number = count++;
  return number;
}

}  // namespace

int64_t PieceRowsMax(const StepShape& shape, int64_t first_position, double flops_per_second) {
  const double width = shape.model_dim, dim = shape.head_dim, heads = shape.query_head_count;
  const double projections = 2 * width * dim * (2 * heads + 2 * shape.kv_head_count);
  const double hidden =
      std::max<double>(shape.ffn_dim, 0) + static_cast<double>(shape.expert_ffn_dim) * shape.experts_per_token;
  const double mlp = 6 * width * hidden;
  const auto seconds = [&](double rows) {
    const double pairs = rows * (static_cast<double>(first_position) + rows / 2);
    return std::max(rows * projections + 4 * heads * dim * pairs, rows * mlp) / flops_per_second;
  };
  int64_t rows = kPageTokens;
  while (rows < shape.row_count_max && seconds(static_cast<double>(rows + kPageTokens)) <= kPieceSeconds) {
    rows += kPageTokens;
  }
  return rows;
}

// ---- What an engine sees of the others ----

int DeviceTurns::WaitingForTesting() {
  MutexLock lock(mutex_);
  return std::count_if(line_.begin(), line_.end(),
                       [](const StepTurn* turn) { return turn->is_decode_ || turn->is_ready_; });
}

bool DeviceTurns::HasOthers(const StepTurn& turn) const {
  return std::any_of(std::begin(engines_), std::end(engines_), [&](const StepTurn* other) {
    return other != nullptr && other->thread_ >= 0 && other->thread_ != turn.thread_;
  });
}

bool DeviceTurns::OthersGenerate(const StepTurn& turn) const {
  const int64_t now = yields_;
  return std::any_of(std::begin(engines_), std::end(engines_), [&](const StepTurn* other) {
    if (other == nullptr || other->thread_ == turn.thread_) return false;
    return (other->in_step_ && other->is_decode_) ||
           (other->last_generated_ >= 0 && now - other->last_generated_ <= kActivePieces);
  });
}

bool DeviceTurns::MayEnter(const StepTurn& turn) const {
  if (holder_ != nullptr) return false;
  for (const StepTurn* before : line_) {
    if (before == &turn) return true;
    if (before->is_ready_) return false;
  }
  return true;
}

bool DeviceTurns::IsFirstPrompt(const StepTurn& turn) const {
  return *std::find_if(line_.begin(), line_.end(), [](const StepTurn* other) { return !other->is_decode_; }) == &turn;
}

void DeviceTurns::Leave(StepTurn& turn) {
  line_.erase(std::find(line_.begin(), line_.end(), &turn));
  turn.is_ready_ = false;
  changed_.NotifyAll();
}

// ---- An engine ----

StepTurn::StepTurn(DeviceTurns& turns) : turns_(turns) {
  MutexLock lock(turns_.mutex_);
  for (int slot = 0; slot < kTurnSlots && slot_ < 0; ++slot) {
    if (turns_.engines_[slot] != nullptr) continue;
    turns_.engines_[slot] = this;
    slot_ = slot;
  }
}

StepTurn::~StepTurn() {
  End();
  if (slot_ < 0) return;
  MutexLock lock(turns_.mutex_);
  turns_.engines_[slot_] = nullptr;
  if (turns_.last_piece_of_ == this) turns_.last_piece_of_ = nullptr;
}

int StepTurn::Begin(bool is_decode) {
  End();
  if (slot_ < 0) return 0;
  bool takes = false;
  {
    MutexLock lock(turns_.mutex_);
    thread_ = ThreadNumber();
    in_step_ = true;
    is_decode_ = is_decode;
    takes = is_decode ? turns_.HasOthers(*this) : turns_.OthersGenerate(*this);
    if (!is_decode && !takes) ran_ahead_ = true;
  }
  if (!takes) return 0;
  return is_decode ? Enter() : Take();
}

// With the stream of high priority: its blocks are started first where prompts were queued without turns.
int StepTurn::Enter() {
  int64_t piece = 0;
  {
    MutexLock lock(turns_.mutex_);
    turns_.line_.push_back(this);
    while (!turns_.MayEnter(*this)) turns_.changed_.Wait(turns_.mutex_);
    turns_.Leave(*this);
    ++turns_.steps_in_;
    has_turn_ = true;
    if (turns_.pieces_ > turns_.pieces_done_) piece = turns_.pieces_;
  }
  uses_stream_ = true;
  const int code = turns_.runtime_.UseStream(slot_);
  // No prompt takes the turn meanwhile, so this is still the last piece.
  return code != 0 || piece == 0 ? code : turns_.runtime_.FollowMark(DeviceTurns::PieceMark(piece));
}

int StepTurn::Take() {
  Runtime& runtime = turns_.runtime_;
  if (ran_ahead_) {
    // All of it would be one long piece that a step must wait for. Steps enter meanwhile.
    if (const int code = runtime.Synchronize(); code != 0) return code;
    ran_ahead_ = false;
  }
  uint64_t steps = 0;
  int64_t piece = 0;
  {
    MutexLock lock(turns_.mutex_);
    turns_.line_.push_back(this);
    while (turns_.holder_ != nullptr || !turns_.IsFirstPrompt(*this)) turns_.changed_.Wait(turns_.mutex_);
    // No other prompt queues a piece until this one does. Steps enter while the host waits.
    const int64_t complete = turns_.pieces_ - 1;
    if (complete > turns_.pieces_done_) {
      lock.Unlock();
      const int code = runtime.WaitMark(DeviceTurns::PieceMark(complete));
      lock.Lock();
      if (code != 0) {
        turns_.Leave(*this);
        return code;
      }
      turns_.pieces_done_ = std::max(turns_.pieces_done_, complete);
    }
    is_ready_ = true;
    while (turns_.steps_in_ > 0 || turns_.line_.front() != this) turns_.changed_.Wait(turns_.mutex_);
    turns_.Leave(*this);
    turns_.holder_ = this;
    has_turn_ = true;
    steps = std::exchange(turns_.steps_queued_, 0);
    if (turns_.pieces_ > turns_.pieces_done_ && turns_.last_piece_of_ != this) piece = turns_.pieces_;
  }
  int code = piece > 0 ? runtime.FollowMark(DeviceTurns::PieceMark(piece)) : 0;
  for (int slot = 0; code == 0 && slot < kTurnSlots; ++slot) {
    if (steps >> slot & 1) code = runtime.FollowMark(DeviceTurns::StepMark(slot));
  }
  return code;
}

int StepTurn::GiveBack() {
  int64_t piece = 0;
  {
    MutexLock lock(turns_.mutex_);
    piece = turns_.pieces_ + 1;
  }
  // Recorded with the turn: the next engine to have it follows this mark.
  const int mark = is_decode_ ? DeviceTurns::StepMark(slot_) : DeviceTurns::PieceMark(piece);
  const int code = turns_.runtime_.Mark(mark);
  MutexLock lock(turns_.mutex_);
  has_turn_ = false;
  if (is_decode_) {
    --turns_.steps_in_;
    turns_.steps_queued_ |= uint64_t{1} << slot_;
  } else {
    turns_.pieces_ = piece;
    turns_.last_piece_of_ = this;
    turns_.holder_ = nullptr;
  }
  turns_.changed_.NotifyAll();
  return code;
}

int StepTurn::Yield() {
  if (!in_step_ || is_decode_) return 0;
  bool takes = false;
  {
    MutexLock lock(turns_.mutex_);
    ++turns_.yields_;
    takes = turns_.OthersGenerate(*this);
  }
  if (!has_turn_) {
    ran_ahead_ = true;
  } else if (const int code = GiveBack(); code != 0) {
    return code;
  }
  if (takes) return Take();
  ran_ahead_ = true;
  return 0;
}

int StepTurn::Queued() { return has_turn_ ? GiveBack() : 0; }

void StepTurn::End() {
  // A failure is that of the step, or of the next call.
  Queued();
  if (uses_stream_) turns_.runtime_.UseStream(kOwnStream);
  uses_stream_ = false;
  if (!in_step_) return;
  MutexLock lock(turns_.mutex_);
  if (is_decode_) last_generated_ = turns_.yields_;
  in_step_ = false;
}

bool StepTurn::MustBeSmall() {
  MutexLock lock(turns_.mutex_);
  return turns_.OthersGenerate(*this);
}

}  // namespace varifocal::kernels::cuda
