// The emulator's model of compute capability 9.0 (emulator/hopper.h): products by descriptors against the definition, and each
// mistake that it must see, in a small kernel that makes this one.
#define VF_EMULATE 1

#include <cmath>
#include <cstring>

#include "kernels/cuda/attention_sm90_consumer.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/tensor.h"

namespace varifocal::kernels::cuda {
namespace {

using emulated::StartScores;
using emulated::StartValues;
constexpr Sm90Step kStep = Sm90Step::kPublishBarriers;  // of no mutant here

// Small whole numbers, exact in every format.
float Whole(uint64_t seed, int i) { return static_cast<int>(Mix(seed, i) % 9) - 4; }

// The fault of a kernel of `threads`, empty if none.
std::string FaultOf(int threads, const std::function<void()>& kernel) {
  std::string fault;
  emulator::CatchFaults(&fault);
  emulator::Run({{1, 1, 1}, threads, 160 << 10}, kernel);
  emulator::CatchFaults(nullptr);
  return fault;
}

// A tile [rows, dim] of whole numbers for products, by all threads of a warpgroup.
void StoreTile(int to, int rows, int dim, uint64_t seed) {
  const int chunks = dim / kChunkDims;
  for (int i = ThreadX() % kWarpgroupThreads; i < rows * chunks; i += kWarpgroupThreads) {
    uint32_t words[4];
    for (int w = 0; w < 4; ++w) {
      const int at = i / chunks * dim + i % chunks * kChunkDims + 2 * w;
      words[w] = PackBf16(Whole(seed, at), Whole(seed, at + 1));
    }
    StoreOperand(to + TileOffset(dim, rows, i / chunks, i % chunks), words);
  }
}

template <int kDim>
std::string CheckProducts() {
  constexpr int kKeys = Sm90BlockKeys(kDim), kRows = kSm90ConsumerRows;
  constexpr int kKeysAt = TileBytes(kDim, kRows);
  std::vector<float> scores(kRows * kKeys), outputs(kRows * kDim);
  RETURN_COMPLAINT(FaultOf(kWarpgroupThreads, [&] {
    const int lane = LaneIndex(), row = WarpIndex() * 16;
    StoreTile(0, kRows, kDim, 1);
    StoreTile(kKeysAt, kKeys, kDim, 2);
    FenceAsync(kStep);
    SyncThreads();
    float s[kKeys / 8][4], o[kDim / 8][4] = {};
    uint32_t weights[kKeys / 16][4];
    Pin(kStep, s);
    FenceProducts(kStep);
    StartScores<kDim, kKeys>(0, kKeysAt, s);
    CommitProducts(kStep);
    WaitProducts<0>(kStep, s);
    // Weights of their own, since products of scores would not be exact.
    for (int k = 0; k < kKeys / 16; ++k) {
      for (int w = 0; w < 4; ++w) {
        const FragmentIndex low = FragmentA(lane, w, 0);
        const int at = (row + low.row) * kKeys + k * 16 + low.column;
        weights[k][w] = PackBf16(Whole(3, at), Whole(3, at + 1));
      }
    }
    Pin(kStep, weights);
    Pin(kStep, o);
    FenceProducts(kStep);
    StartValues<kDim, kKeys>(weights, kKeysAt, o);
    CommitProducts(kStep);
    WaitProducts<0>(kStep, o);
    for (int w = 0; w < 4; ++w) {
      const FragmentIndex at = FragmentC(lane, w);
      for (int n = 0; n < kKeys / 8; ++n) scores[(row + at.row) * kKeys + n * 8 + at.column] = s[n][w];
      for (int n = 0; n < kDim / 8; ++n) outputs[(row + at.row) * kDim + n * 8 + at.column] = o[n][w];
    }
  }));
  for (int row = 0; row < kRows; ++row) {
    for (int key = 0; key < kKeys; ++key) {
      float want = 0;
      for (int d = 0; d < kDim; ++d) want += Whole(1, row * kDim + d) * Whole(2, key * kDim + d);
      if (scores[row * kKeys + key] != want) return "a score of head dim " + std::to_string(kDim) + " is wrong";
    }
    for (int d = 0; d < kDim; ++d) {
      float want = 0;
      for (int key = 0; key < kKeys; ++key) want += Whole(3, row * kKeys + key) * Whole(2, key * kDim + d);
      if (outputs[row * kDim + d] != want) return "an output of head dim " + std::to_string(kDim) + " is wrong";
    }
  }
  return "";
}

std::string CheckAllProducts() {
  for (const std::string& verdict :
       {CheckProducts<64>(), CheckProducts<80>(), CheckProducts<96>(), CheckProducts<112>(), CheckProducts<128>(),
        CheckProducts<192>(), CheckProducts<256>()}) {
    if (!verdict.empty()) return verdict;
  }
  return "";
}

// What a warpgroup does with one product of 64 x 64 x 16, with one mistake.
enum class Mistake {
  kNone,
  kNoFence,
  kNoAsyncFence,
  kEarlyUse,
  kTouched,
  kOperandChanged,
  kWeightsChanged,
  kNotAwaited,
  kNotCommitted,
};
std::string ProductFault(Mistake mistake) {
  bool right = true;
  const std::string fault = FaultOf(kWarpgroupThreads, [&] {
    constexpr int kValues = 0;
    StoreTile(kValues, 64, 64, 2);
    if (mistake != Mistake::kNoAsyncFence) FenceAsync(kStep);
    SyncThreads();
    float o[8][4] = {};
    uint32_t weights[1][4] = {};
    weights[0][0] = PackBf16(1, 1);
    Pin(kStep, weights);
    Pin(kStep, o);
    if (mistake != Mistake::kNoFence) FenceProducts(kStep);
    StartProduct<64, 0>(weights[0], OperandDescriptor(SharedAddress(kValues) / 16, 64, 8192), o);
    if (mistake != Mistake::kNotCommitted) CommitProducts(kStep);
    if (mistake == Mistake::kEarlyUse) right = right && !std::isnan(o[0][0]);
    if (mistake == Mistake::kTouched) o[0][0] = 0;
    if (mistake == Mistake::kOperandChanged) StoreTile(kValues, 64, 64, 4);
    if (mistake == Mistake::kWeightsChanged) weights[0][0] = 0;
    if (mistake != Mistake::kNotAwaited) WaitProducts<0>(kStep, o);
    right = right && !std::isnan(o[0][0]);
  });
  return !fault.empty() ? fault : right ? "" : "NaN";
}

std::string CheckProductMistakes() {
  const std::pair<Mistake, const char*> rows[] = {{Mistake::kNone, ""},
                                                  {Mistake::kNoFence, "were not fenced"},
                                                  {Mistake::kNoAsyncFence, "NaN"},
                                                  {Mistake::kEarlyUse, "NaN"},
                                                  {Mistake::kTouched, "were touched before the wait"},
                                                  {Mistake::kOperandChanged, "operand changed before the wait"},
                                                  {Mistake::kWeightsChanged, "operand changed before the wait"},
                                                  {Mistake::kNotAwaited, "ended before its products"},
                                                  {Mistake::kNotCommitted, "ended before its products"}};
  for (const auto& [mistake, words] : rows) {
    const std::string fault = ProductFault(mistake);
    if (words[0] == 0 ? !fault.empty() : fault.find(words) == fault.npos)
      return "instead of \"" + std::string(words) + "\" the emulator says \"" + fault + "\"";
  }
  return "";
}

// A producer warp copies four pieces of 512 bytes through a ring of two; four warps add them.
struct RingMistake {
  int expected = 512;
  bool waits_full = true, waits_empty = true, initialises = true;
  int arrivals = 4;
  uint32_t flipped = 0;
};
std::string RingFault(const RingMistake& mistake) {
  constexpr int kPieces = 4, kSlots = 2, kBytes = 512, kBarriers = kSlots * kBytes;
  alignas(16) float numbers[kPieces * 128];
  for (int i = 0; i < kPieces * 128; ++i) numbers[i] = i;
  float sums[128] = {};
  RETURN_COMPLAINT(FaultOf(160, [&] {
    if (ThreadX() == 0 && mistake.initialises) {
      for (int slot = 0; slot < kSlots; ++slot) {
        InitBarrier(kStep, kBarriers + 16 * slot, 1);
        InitBarrier(kStep, kBarriers + 16 * slot + 8, mistake.arrivals);
      }
    }
    SyncThreads();
    for (int piece = 0; piece < kPieces; ++piece) {
      const int slot = piece % kSlots, full = kBarriers + 16 * slot, empty = full + 8;
      const uint32_t parity = (piece / kSlots & 1) ^ mistake.flipped;
      if (ThreadX() == 128) {
        if (mistake.waits_empty) AwaitPhase(kStep, empty, parity ^ 1);
        ArriveExpecting(kStep, full, mistake.expected);
        CopyBulk(kStep, slot * kBytes, numbers + piece * 128, kBytes, full);
      } else if (ThreadX() < 128) {
        if (mistake.waits_full) AwaitPhase(kStep, full, parity);
        sums[ThreadX()] += reinterpret_cast<const float*>(SharedMemory() + slot * kBytes)[ThreadX()];
        SyncWarp();
        if (LaneIndex() == 0) Arrive(kStep, empty);
      }
    }
  }));
  for (int i = 0; i < 128; ++i) {
    if (!(sums[i] == 4 * i + 128 * 6)) return "wrong sums";
  }
  return "";
}

std::string CheckRingMistakes() {
  if (const std::string fault = RingFault({}); !fault.empty()) return "a ring without a mistake: " + fault;
  const RingMistake mistakes[] = {{.expected = 496},      {.expected = 528},      {.waits_full = false},
                                  {.waits_empty = false}, {.initialises = false}, {.arrivals = 3},
                                  {.arrivals = 5},        {.flipped = 1}};
  int index = 0;
  for (const RingMistake& mistake : mistakes) {
    bool seen = false;
    for (uint64_t seed = 0; seed < 32 && !seen; ++seed) {
      emulator::SetScheduleSeed(seed);
      seen = !RingFault(mistake).empty();
    }
    emulator::SetScheduleSeed(0);
    if (!seen) return "mistake " + std::to_string(index) + " of a ring was not seen";
    ++index;
  }
  return "";
}

std::string CheckOtherMistakes() {
  const std::pair<const char*, std::string> rows[] = {
      {"alignment", FaultOf(32,
                            [] {
                              alignas(16) static const unsigned char from[64] = {};
                              if (ThreadX() != 0) return;
                              InitBarrier(kStep, 64, 1);
                              CopyBulk(kStep, 8, from, 16, 64);
                            })},
      {"a copy that outlives its block", FaultOf(32,
                                                 [] {
                                                   alignas(16) static const unsigned char from[64] = {};
                                                   if (ThreadX() != 0) return;
                                                   InitBarrier(kStep, 64, 1);
                                                   CopyBulk(kStep, 0, from, 16, 64);
                                                 })},
      {"a barrier on other data", FaultOf(32,
                                          [] {
                                            SharedMemory()[ThreadX()] = 0;
                                            SyncWarp();
                                            if (ThreadX() == 0) InitBarrier(kStep, 0, 1);
                                          })},
      {"a named barrier that stays open", FaultOf(64,
                                                  [] {
                                                    if (WarpIndex() == 0) ArriveNamed<1>(kStep, 64);
                                                  })},
      {"two numbers of threads", FaultOf(64,
                                         [] {
                                           if (WarpIndex() == 0) {
                                             ArriveNamed<1>(kStep, 64);
                                           } else {
                                             SyncNamed<1>(kStep, 96);
                                           }
                                         })},
      {"registers that no thread released", FaultOf(384, [] {
         if (WarpgroupIndex() > 0) TakeMoreRegisters<224>(kStep);
       })}};
  for (const auto& [what, fault] : rows) {
    if (fault.empty()) return std::string("not seen: ") + what;
  }
  return FaultOf(384, [] {
    if (WarpgroupIndex() == 0) {
      TakeFewerRegisters<56>(kStep);
    } else {
      TakeMoreRegisters<224>(kStep);
    }
  });
}

}  // namespace

std::vector<NamedCheck> HopperChecks() {
  return {{"hopper_products", CheckAllProducts},
          {"hopper_product_mistakes", CheckProductMistakes},
          {"hopper_ring_mistakes", CheckRingMistakes},
          {"hopper_other_mistakes", CheckOtherMistakes}};
}

}  // namespace varifocal::kernels::cuda
