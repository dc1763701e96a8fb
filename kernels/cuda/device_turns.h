// Turns of the engines of one device: decode steps beside a long prompt.
//
// A device starts kernels in the order of their queues, so each of a decode step's launches would wait for kernels of the
// prompt. Therefore a prompt is queued in pieces, two or more a layer, and only with the turn. While another engine generates, it gives the
// turn back after each piece and records an event; a decode step that waits follows that event on the device and queues
// all its kernels, and the prompt's next piece follows the step. A prompt takes the turn only when at most one piece is
// not complete, so a step waits for the running and the queued piece, and for steps that came before it.
//
//   line   engines in order of arrival; prompts keep this order among themselves
//   enter  a decode step: no prompt has the turn, and none that may take it came before; several may be in at once
//   take   a prompt: first of the line, no step is in, all pieces but the last are complete
//
// Prompts take no turns while no other engine has generated during the last kActivePieces pieces, and an engine without
// others makes no call of the runtime. Only the order in time changes, so no bit of a result does.
//
// Errors:  the runtime's code. An engine that fails, ends or is destroyed gives its turn back.
// Threads: a StepTurn serves one thread at a time, its DeviceTurns any number.
// Cost:    a lock a piece; a prompt beside a generating engine: an event, a wait of the host, and what it follows.
#pragma once

#include <cstdint>
#include <deque>

#include "base/mutex.h"
#include "kernels/cuda/runtime.h"
#include "kernels/shapes.h"

namespace varifocal::kernels::cuda {

// Pieces of a prompt after which an engine that has generated nothing meanwhile is idle: about half a second.
inline constexpr int64_t kActivePieces = 256;
// What a piece may take while another engine generates.
inline constexpr double kPieceSeconds = 2e-3;

// The most rows from this position on whose larger half of a layer is predicted to end within kPieceSeconds: whole pages,
// at least one.
int64_t PieceRowsMax(const StepShape& shape, int64_t first_position, double flops_per_second);

class StepTurn;

class DeviceTurns {
 public:
  explicit DeviceTurns(Runtime& runtime) : runtime_(runtime) {}
  // Engines that wait for others alone, not for the device.
  int WaitingForTesting();

 private:
  friend class StepTurn;
  static int PieceMark(int64_t piece) { return kFirstTurnMark + static_cast<int>(piece % kPieceMarks); }
  static int StepMark(int slot) { return kFirstTurnMark + kPieceMarks + slot; }
  bool HasOthers(const StepTurn& turn) const VF_REQUIRES(mutex_);
  bool OthersGenerate(const StepTurn& turn) const VF_REQUIRES(mutex_);
  bool MayEnter(const StepTurn& turn) const VF_REQUIRES(mutex_);
  bool IsFirstPrompt(const StepTurn& turn) const VF_REQUIRES(mutex_);
  void Leave(StepTurn& turn) VF_REQUIRES(mutex_);  // the line

  Runtime& runtime_;
  Mutex mutex_;
  CondVar changed_;
  StepTurn* engines_[kTurnSlots] VF_GUARDED_BY(mutex_) = {};  // null: free
  std::deque<StepTurn*> line_ VF_GUARDED_BY(mutex_);
  StepTurn* holder_ VF_GUARDED_BY(mutex_) = nullptr;  // the prompt that has the turn
  int steps_in_ VF_GUARDED_BY(mutex_) = 0;            // decode steps that are being queued
  uint64_t steps_queued_ VF_GUARDED_BY(mutex_) = 0;   // bits of the step marks that no prompt follows yet
  int64_t yields_ VF_GUARDED_BY(mutex_) = 0;          // of all prompts
  int64_t pieces_ VF_GUARDED_BY(mutex_) = 0;          // queued with the turn
  int64_t pieces_done_ VF_GUARDED_BY(mutex_) = 0;     // of these, known to be complete
  const StepTurn* last_piece_of_ VF_GUARDED_BY(mutex_) = nullptr;
};

// Part of one engine's workspace.
class StepTurn {
 public:
  explicit StepTurn(DeviceTurns& turns);
  ~StepTurn();
  StepTurn(const StepTurn&) = delete;

  // A step begins: a decode step, which is queued as a whole, or one of prompts.
  int Begin(bool is_decode);
  // Between two pieces of a prompt; nothing in other steps.
  int Yield();
  // All of the step is queued, or it is about to wait for the device.
  int Queued();
  // The step is over, whatever became of it.
  void End();
  // Whether another engine generates, so that pieces should be small.
  bool MustBeSmall();

 private:
  friend class DeviceTurns;
  int Enter();
  int Take();
  int GiveBack();

  DeviceTurns& turns_;
  int slot_ = -1;    // -1: none was free, and it takes no turns
  int thread_ = -1;  // of its last step, by number: two workspaces of one engine are no others
  bool in_step_ = false, is_decode_ = false, has_turn_ = false, is_ready_ = false, uses_stream_ = false;
  bool ran_ahead_ = false;       // queued pieces without the turn, which may not be complete
  int64_t last_generated_ = -1;  // yields_ at the end of its last decode step; -1: none
};

}  // namespace varifocal::kernels::cuda
