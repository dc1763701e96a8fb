// device_turns.cc on the fake CUDA runtime, whose log has all that was queued and waited for: which kernels the device may
// start before which follows from it. Method: engines are threads that launch numbered kernels, a kernel a piece or step;
// an engine arrives at a chosen call of another, so the order of host calls is fixed where a test asserts it.

#include "kernels/cuda/device_turns.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_launch.h"
#include "kernels/cuda/emulator/fake_cudart.h"
#include "kernels/cuda/step_graphs.h"

namespace varifocal::kernels::cuda {
namespace {

using fake::Op;

constexpr int kIllegalAddress = 700;

void Kernel() {}

// Kernels by number: those of prompts from 1 on, steps of other engines below 0.
class Timeline {
 public:
  explicit Timeline(const std::vector<Op>& log) : log_(log), before_(log.size(), std::vector<bool>(log.size())) {
    std::map<int, int> last_of_stream, record_of_event;
    for (int i = 0; i < std::ssize(log); ++i) {
      const Op& op = log[i];
      if (op.kind == Op::kHostWait) {
        if (record_of_event.contains(op.event)) Complete(record_of_event[op.event], i);
        continue;
      }
      if (last_of_stream.contains(op.stream)) Add(last_of_stream[op.stream], i);
      if (op.kind == Op::kHostWaitForStream) {
        if (last_of_stream.contains(op.stream)) Complete(last_of_stream[op.stream], i);
        continue;
      }
      if (op.kind == Op::kFollow && record_of_event.contains(op.event)) Add(record_of_event[op.event], i);
      if (op.kind == Op::kRecord) record_of_event[op.event] = i;
      if (op.kind == Op::kLaunch) index_[op.argument] = i;
      last_of_stream[op.stream] = i;
    }
  }
  // The kernels that are complete before this one starts.
  std::set<int> Before(int kernel) const {
    std::set<int> kernels;
    for (const auto& [other, index] : index_) {
      if (before_[IndexOf(kernel)][index]) kernels.insert(other);
    }
    return kernels;
  }
  bool IsOrdered(int a, int b) const { return before_[IndexOf(a)][IndexOf(b)] || before_[IndexOf(b)][IndexOf(a)]; }
  // Pieces that the kernel waits for and that the host did not know to be complete after `size` calls.
  int PiecesAhead(int kernel, size_t size) const {
    int count = 0;
    for (const int piece : Before(kernel)) {
      const auto known = complete_.find(IndexOf(piece));
      count += piece > 0 && (known == complete_.end() || known->second >= static_cast<int>(size));
    }
    return count;
  }
  int StreamOf(int kernel) const { return log_[IndexOf(kernel)].stream; }

 private:
  void Add(int first, int then) {
    for (int i = 0; i < first; ++i) {
      if (before_[first][i]) before_[then][i] = true;
    }
    before_[then][first] = true;
  }
  void Complete(int last, int at) {
    complete_.try_emplace(last, at);
    for (int i = 0; i < last; ++i) {
      if (before_[last][i]) complete_.try_emplace(i, at);
    }
  }
  int IndexOf(int kernel) const {
    const auto found = index_.find(kernel);
    if (found == index_.end()) ADD_FAILURE() << "kernel " << kernel << " was not launched";
    return found == index_.end() ? 0 : found->second;
  }

  const std::vector<Op> log_;
  std::vector<std::vector<bool>> before_;
  std::map<int, int> index_;     // by kernel
  std::map<int, int> complete_;  // the call after which the host knew
};

class DeviceTurnsTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("VARIFOCAL_CUBLASLT", "off", 1);
    fake::Reset();
    runtime_ = MakeDeviceRuntime();
    DeviceProperties properties;
    ASSERT_EQ(runtime_->Open(0, &properties), 0);
    turns_ = std::make_unique<DeviceTurns>(*runtime_);
  }
  void TearDown() override {
    fake::Machine().before = nullptr;
    turns_.reset();
    fake::Reset();
    runtime_.reset();
  }

  int Launch(int kernel) {
    return LaunchOnDevice({reinterpret_cast<const void*>(&Kernel), {}, &kernel, sizeof kernel}, runtime_->stream());
  }
  // A whole decode step. Returns how long the log was when it arrived.
  size_t Step(StepTurn& turn, int kernel) {
    const size_t arrived = fake::LogSize();
    EXPECT_EQ(turn.Begin(true), 0);
    EXPECT_EQ(Launch(kernel), 0);
    EXPECT_EQ(turn.Queued(), 0);
    turn.End();
    return arrived;
  }
  size_t StepElsewhere(StepTurn& turn, int kernel) {
    size_t arrived = 0;
    std::thread([&] { arrived = Step(turn, kernel); }).join();
    return arrived;
  }
  // A prompt's step, with `between` before each piece.
  void Prompt(StepTurn& turn, int first, int count, const std::function<void(int)>& between = nullptr) {
    EXPECT_EQ(turn.Begin(false), 0);
    for (int piece = first; piece < first + count; ++piece) {
      if (between != nullptr) between(piece);
      EXPECT_EQ(turn.Yield(), 0);
      EXPECT_EQ(Launch(piece), 0);
    }
    EXPECT_EQ(turn.Queued(), 0);
    turn.End();
  }
  void WaitForLine(int length) {
    while (turns_->WaitingForTesting() < length) std::this_thread::yield();
  }
  // The kinds of calls other than launches since the log had this length.
  static std::vector<Op::Kind> OtherCalls(size_t from = 0) {
    std::vector<Op::Kind> kinds;
    const std::vector<Op> log = fake::Log();
    for (size_t i = from; i < log.size(); ++i) {
      if (log[i].kind != Op::kLaunch) kinds.push_back(log[i].kind);
    }
    return kinds;
  }

  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<DeviceTurns> turns_;
};

// An engine alone, and prompts of several where none generates: launches alone, and no stream is made.
TEST_F(DeviceTurnsTest, WithoutAGeneratingNeighbourThereAreNoCalls) {
  StepTurn one(*turns_);
  Prompt(one, 1, 8);
  Step(one, -1);
  Prompt(one, 11, 8);
  {
    StepTurn same_engine(*turns_);  // as of a prompt that exceeds a step
    Prompt(same_engine, 21, 8);
  }
  EXPECT_THAT(OtherCalls(), testing::IsEmpty());
  DeviceTurns prompts(*runtime_);
  StepTurn other(prompts), another(prompts);
  EXPECT_EQ(other.Begin(false), 0);
  std::thread([&] { Prompt(another, 31, 8); }).join();
  EXPECT_EQ(other.Yield(), 0);
  other.End();
  EXPECT_THAT(OtherCalls(), testing::IsEmpty());
  EXPECT_TRUE(fake::Machine().priorities.empty());
}

// A step that arrives while the prompt's host waits for a piece is queued at once, and its kernel starts after the running
// piece and the queued one. So it does where it arrives while the prompt queues a piece.
TEST_F(DeviceTurnsTest, AStepWaitsForTheRunningAndTheQueuedPiece) {
  StepTurn prompt(*turns_), decode(*turns_);
  StepElsewhere(decode, -1);
  std::map<int, size_t> arrivals;  // by kernel
  const std::thread::id prompts_thread = std::this_thread::get_id();
  int waits = 0, kernel = -2;
  fake::Machine().before = [&](const std::string& call) {
    if (call != "cudaEventSynchronize" || std::this_thread::get_id() != prompts_thread) return;
    if (++waits % 2 == 0) return;
    arrivals[kernel] = StepElsewhere(decode, kernel);
    --kernel;
  };
  Prompt(prompt, 1, 12);
  fake::Machine().before = nullptr;
  EXPECT_GE(arrivals.size(), 4u);
  // The other case; the order of the host's calls is fixed by the length of the line.
  std::vector<std::thread> threads;
  size_t arrived = 0;
  Prompt(prompt, 101, 12, [&](int piece) {
    if (piece != 106) return;
    threads.emplace_back([&] { arrived = Step(decode, -100); });
    WaitForLine(1);
  });
  for (std::thread& thread : threads) thread.join();
  arrivals[-100] = arrived;

  const Timeline timeline(fake::Log());
  for (const auto& [step, size] : arrivals) {
    EXPECT_LE(timeline.PiecesAhead(step, size), 2) << step;
    EXPECT_GE(timeline.PiecesAhead(step, size), 1) << step << ": the device has work meanwhile";
    for (int piece = 1; piece <= 112; ++piece) {
      const bool exists = piece <= 12 || piece > 100;
      EXPECT_TRUE(!exists || timeline.IsOrdered(step, piece)) << step << " and " << piece;
    }
  }
  EXPECT_TRUE(timeline.Before(106).contains(-100)) << "it came before the next piece";
  EXPECT_EQ(timeline.PiecesAhead(112, fake::LogSize()), 1) << "others were waited for";
}

// Pieces without the turn are no queue that a step must wait for: the prompt waits for them before it takes turns, and
// steps enter meanwhile.
TEST_F(DeviceTurnsTest, APromptThatRanAheadWaitsBeforeItTakesTurns) {
  StepTurn prompt(*turns_), decode(*turns_);
  size_t second_arrived = 0;
  bool synchronized = false;
  const std::thread::id prompts_thread = std::this_thread::get_id();
  fake::Machine().before = [&](const std::string& call) {
    if (call != "cudaStreamSynchronize" || std::this_thread::get_id() != prompts_thread) return;
    synchronized = true;
    second_arrived = StepElsewhere(decode, -2);
  };
  Prompt(prompt, 1, 20, [&](int piece) {
    if (piece == 10) StepElsewhere(decode, -1);
  });
  EXPECT_TRUE(synchronized);
  const Timeline timeline(fake::Log());
  EXPECT_THAT(timeline.Before(-1), testing::IsEmpty()) << "it runs beside what is queued";
  EXPECT_EQ(timeline.PiecesAhead(-2, second_arrived), 0);
  for (int piece = 10; piece <= 20; ++piece) EXPECT_THAT(timeline.Before(piece), testing::IsSupersetOf({-1, -2}));
}

// Steps run on a stream of the highest priority, after what their thread queued before and before what it queues next.
TEST_F(DeviceTurnsTest, StepsHaveAStreamOfHighPriority) {
  StepTurn first(*turns_), second(*turns_);
  StepElsewhere(first, -1);  // alone
  std::thread([&] {
    EXPECT_EQ(Launch(1), 0);
    Step(second, -2);
    EXPECT_EQ(Launch(2), 0);
    StepGraphs graphs;
    LaunchList list;
    EXPECT_EQ(second.Begin(true), 0);
    LaunchStream stream = runtime_->stream();
    stream.list = &list;
    const int argument = -3;
    EXPECT_EQ(LaunchOnDevice({reinterpret_cast<const void*>(&Kernel), {}, &argument, sizeof argument}, stream), 0);
    EXPECT_EQ(graphs.Queue(*runtime_, 1, list), 0);
    second.End();
    EXPECT_EQ(Launch(3), 0);
  }).join();
  EXPECT_THAT(fake::Machine().priorities, testing::ElementsAre(-5));
  const Timeline timeline(fake::Log());
  EXPECT_GE(timeline.StreamOf(-1), fake::kThreadStreams);
  EXPECT_EQ(timeline.StreamOf(-2), 1);
  EXPECT_EQ(timeline.StreamOf(-3), 1) << "a graph too";
  EXPECT_EQ(timeline.StreamOf(3), timeline.StreamOf(1));
  EXPECT_THAT(timeline.Before(-2), testing::ElementsAre(1));
  EXPECT_THAT(timeline.Before(-3), testing::ElementsAre(-2, 1, 2));
  EXPECT_THAT(timeline.Before(3), testing::ElementsAre(-3, -2, 1, 2));
  // A stream that cannot be made: the step fails, and its thread keeps its own.
  fake::Machine().failures["cudaStreamCreateWithPriority"] = 1;
  StepTurn third(*turns_);
  std::thread([&] {
    EXPECT_EQ(third.Begin(true), 1);
    third.End();
    EXPECT_EQ(Launch(4), 0);
    EXPECT_EQ(third.Begin(true), 0) << "the next step makes it";
    third.End();
    fake::Machine().failures["cudaStreamWaitEvent"] = 1;
    EXPECT_EQ(third.Begin(true), 1);
    EXPECT_EQ(Launch(5), 0);
    third.End();
    const Timeline later(fake::Log());
    EXPECT_EQ(later.StreamOf(5), later.StreamOf(4));
  }).join();
}

// A prompt whose pieces are complete is not passed by steps that came after it; two steps may be in at once.
TEST_F(DeviceTurnsTest, NeitherStarves) {
  StepTurn prompt(*turns_), first(*turns_), second(*turns_);
  StepElsewhere(first, -1);
  StepElsewhere(second, -2);
  EXPECT_EQ(prompt.Begin(false), 0);
  EXPECT_EQ(Launch(1), 0);
  std::atomic<bool> first_is_in{false}, first_may_end{false};
  std::thread one([&] {
    EXPECT_EQ(first.Begin(true), 0);
    EXPECT_EQ(Launch(-3), 0);
    first_is_in = true;
    while (!first_may_end) std::this_thread::yield();
    first.End();
  });
  WaitForLine(1);
  std::thread two([&] {
    // The first step is in and the prompt's pieces are complete, so it waits for that step alone.
    while (!first_is_in || turns_->WaitingForTesting() != 1) std::this_thread::yield();
    Step(second, -4);
  });
  std::thread ender([&] {
    while (!first_is_in || turns_->WaitingForTesting() != 2) std::this_thread::yield();
    first_may_end = true;
  });
  EXPECT_EQ(prompt.Yield(), 0);
  EXPECT_EQ(turns_->WaitingForTesting(), 1) << "the second step waits for the prompt's turn";
  EXPECT_EQ(Launch(2), 0);
  EXPECT_EQ(prompt.Yield(), 0);
  EXPECT_EQ(Launch(3), 0);
  prompt.End();
  one.join();
  two.join();
  ender.join();
  const Timeline timeline(fake::Log());
  EXPECT_THAT(timeline.Before(-3), testing::Contains(1));
  EXPECT_THAT(timeline.Before(2), testing::IsSupersetOf({-3}));
  EXPECT_THAT(timeline.Before(2), testing::Not(testing::Contains(-4)));
  EXPECT_THAT(timeline.Before(-4), testing::IsSupersetOf({1, 2, -3}));
  EXPECT_THAT(timeline.Before(3), testing::IsSupersetOf({-3, -4}));
}

// Two prompts beside a generating engine: one queue of pieces in a fixed order, so a step has no more of them ahead. It arrives
// while the host of either prompt waits for a piece.
TEST_F(DeviceTurnsTest, TwoPromptsAtOnce) {
  StepTurn one(*turns_), two(*turns_), decode(*turns_);
  StepElsewhere(decode, -1);
  constexpr int kPieces = 60;
  std::map<int, size_t> arrivals;
  std::atomic<int> waits{0};
  fake::Machine().before = [&](const std::string& call) {
    if (call != "cudaEventSynchronize" || ++waits % 3 != 0) return;
    const int kernel = -1 - waits;
    arrivals[kernel] = StepElsewhere(decode, kernel);
  };
  // A prompt has its turn for a while, so that the other one comes meanwhile.
  const auto linger = [](int) {
    for (int i = 0; i < 50; ++i) std::this_thread::yield();
  };
  std::thread first([&] { Prompt(one, 1, kPieces, linger); });
  std::thread second([&] { Prompt(two, 101, kPieces, linger); });
  first.join();
  second.join();
  const Timeline timeline(fake::Log());
  std::vector<int> pieces;
  for (int i = 0; i < kPieces; ++i) pieces.insert(pieces.end(), {1 + i, 101 + i});
  EXPECT_GT(arrivals.size(), 10u);
  for (const auto& [step, size] : arrivals) {
    EXPECT_LE(timeline.PiecesAhead(step, size), 2) << step;
    for (const int piece : pieces) ASSERT_TRUE(timeline.IsOrdered(step, piece)) << step << " and " << piece;
  }
  for (const int piece : pieces) {
    for (const int other : pieces) ASSERT_TRUE(piece == other || timeline.IsOrdered(piece, other));
  }
}

// Whatever becomes of the engine that has the turn, the one that waits gets it, or the device's fault.
TEST_F(DeviceTurnsTest, AnEngineThatEndsGivesItsTurnBack) {
  StepTurn decode(*turns_);
  StepElsewhere(decode, -1);
  enum class Way { kDestroyed, kStepEnded, kAnotherStep, kFaulted, kRecordFailed };
  for (const Way way : {Way::kDestroyed, Way::kStepEnded, Way::kAnotherStep, Way::kRecordFailed, Way::kFaulted}) {
    auto prompt = std::make_unique<StepTurn>(*turns_);
    EXPECT_EQ(prompt->Begin(false), 0);
    EXPECT_EQ(prompt->Yield(), 0);
    int code = -1;
    std::thread waiting([&] {
      code = decode.Begin(true);
      decode.End();
    });
    WaitForLine(1);
    if (way == Way::kDestroyed) prompt.reset();
    if (way == Way::kStepEnded) prompt->End();
    if (way == Way::kAnotherStep) {
      EXPECT_EQ(prompt->Begin(true), 0);
    }
    if (way == Way::kRecordFailed) {
      fake::Machine().failures["cudaEventRecord"] = 1;
      EXPECT_EQ(prompt->Yield(), 1);
    }
    if (way == Way::kFaulted) {
      fake::Machine().fault = kIllegalAddress;
      EXPECT_EQ(prompt->Yield(), kIllegalAddress);
    }
    waiting.join();
    EXPECT_EQ(code, way == Way::kFaulted ? kIllegalAddress : 0);
  }
  // A prompt that waits for a step whose engine is destroyed, and one whose wait fails.
  fake::Machine().fault = 0;
  StepTurn prompt(*turns_);
  EXPECT_EQ(prompt.Begin(false), 0);
  auto second = std::make_unique<StepTurn>(*turns_);
  std::thread step([&] {
    EXPECT_EQ(second->Begin(true), 0);
    WaitForLine(1);
    second.reset();
  });
  WaitForLine(1);
  EXPECT_EQ(prompt.Yield(), 0);
  step.join();
  fake::Machine().failures["cudaEventSynchronize"] = 1;
  EXPECT_EQ(prompt.Yield(), 1);
  prompt.End();
  StepElsewhere(decode, -2);
  StepTurn other(*turns_);
  Prompt(other, 1, 4);
}

// An engine that generated nothing during the last pieces is no reason for turns, nor is one that is gone.
TEST_F(DeviceTurnsTest, IdleEnginesEndTurns) {
  StepTurn prompt(*turns_);
  auto decode = std::make_unique<StepTurn>(*turns_);
  EXPECT_FALSE(prompt.MustBeSmall());
  StepElsewhere(*decode, -1);
  EXPECT_TRUE(prompt.MustBeSmall());
  EXPECT_FALSE(decode->MustBeSmall());
  Prompt(prompt, 1, static_cast<int>(kActivePieces));
  EXPECT_TRUE(prompt.MustBeSmall());
  Prompt(prompt, 1001, 10);
  EXPECT_FALSE(prompt.MustBeSmall());
  const size_t before = fake::LogSize();
  Prompt(prompt, 1011, 10);
  EXPECT_THAT(OtherCalls(before), testing::IsEmpty());
  StepElsewhere(*decode, -2);
  EXPECT_TRUE(prompt.MustBeSmall());
  decode.reset();
  EXPECT_FALSE(prompt.MustBeSmall());
}

// Engines without a free slot run as they would without turns.
TEST_F(DeviceTurnsTest, EnginesBeyondTheSlots) {
  std::vector<std::unique_ptr<StepTurn>> turns;
  for (int i = 0; i < kTurnSlots + 2; ++i) turns.push_back(std::make_unique<StepTurn>(*turns_));
  StepElsewhere(*turns[0], -1);
  Prompt(*turns.back(), 1, 4);
  Step(*turns.back(), -2);
  EXPECT_THAT(OtherCalls(), testing::IsEmpty());
}

// 2.7B shapes at 500 TFLOP/s: 8,192 rows from the start take 0.43 + 0.34 TFLOP of attention's half and 0.87 of the MLP.
TEST(PieceRows, StayBelowTheTime) {
  const StepShape shape{.row_count_max = 8192,
                        .model_dim = 2560,
                        .query_head_count = 20,
                        .kv_head_count = 20,
                        .head_dim = 128,
                        .ffn_dim = 6912};
  EXPECT_EQ(PieceRowsMax(shape, 0, 500e12), 8192);
  // Of attention's half, rows (52.4M + 10,240 (24,576 + rows / 2)) = 1e12.
  const int64_t later = PieceRowsMax(shape, 24576, 500e12);
  EXPECT_GT(later, 3000);
  EXPECT_LT(later, 3400);
  EXPECT_EQ(later % 128, 0);
  EXPECT_LT(PieceRowsMax(shape, 24576, 250e12), later);
  EXPECT_EQ(PieceRowsMax(shape, 24576, 1e9), 128);
  StepShape experts = shape;
  experts.ffn_dim = 0;
  experts.expert_ffn_dim = 6912;
  experts.experts_per_token = 8;
  EXPECT_LT(PieceRowsMax(experts, 0, 500e12), 1200);
}

}  // namespace
}  // namespace varifocal::kernels::cuda
