#include "kernels/cuda/emulator/fibers.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>

#include "base/check.h"
#include "kernels/cuda/emulator/block.h"
#include "kernels/cuda/emulator/hopper.h"
#include "kernels/cuda/fragments.h"
#include "kernels/tensor.h"

namespace varifocal::kernels::cuda::emulator {
thread_local Block block;

namespace {

constexpr size_t kStackBytes = 128 << 10;

uint64_t schedule_seed = 0;
thread_local Counters counters;
std::atomic<int64_t> launch_count{0};

thread_local std::string* caught = nullptr;

void FiberMain() {
  EnterContext(block.main);
  (*block.kernel)();
  Fiber* self = block.running;
  if (!self->copies.empty()) Fault("a thread ended with copies it never waited for");
  self->done = true;
  ++block.finished;
  LeaveContext(self->context, block.main);
}

Warp& MyWarp() { return block.warps[block.running->place.thread / kWarp]; }
int MyLane() { return block.running->place.thread % kWarp; }

// Waits for the warp; `compute` runs once, when all 32 lanes have arrived.
template <typename Compute>
void Collective(Slot slot, const Compute& compute) {
  Warp& warp = MyWarp();
  const int first = block.running->place.thread / kWarp * kWarp;
  warp.slots[MyLane()] = slot;
  if (++warp.arrived < kWarp) {
    Pause();
    return;
  }
  warp.arrived = 0;
  compute(warp.slots);
  for (int lane = 0; lane < kWarp; ++lane) {
    Fiber* fiber = block.fibers[first + lane].get();
    if (fiber != block.running) block.ready.push_back(fiber);
  }
}

template <typename T>
T Shuffle(T value, int mask) {
  T result;
  Collective({{&value, nullptr}, &result, mask}, [](const Slot* slots) {
    for (int lane = 0; lane < kWarp; ++lane) {
      std::memcpy(slots[lane].out, slots[lane ^ slots[lane].argument].in[0], sizeof(T));
    }
  });
  return result;
}

float Widen(uint32_t word, int half) { return WidenBF16(half == 0 ? word & 0xFFFFu : word >> 16); }

void Move(std::vector<LateStore>& from, std::vector<LateStore>& to) {
  if (from.empty()) return;
  to.insert(to.end(), from.begin(), from.end());
  from.clear();
}
void Show(std::vector<LateStore>& stores) {
  for (const LateStore& store : stores) std::memcpy(store.to, store.value, store.bytes);
  stores.clear();
}

// What the sleeping threads wait for, each with its number of threads.
std::string Sleepers() {
  std::map<std::string, int> waiting;
  for (int t = 0; t < block.thread_count; ++t) {
    const Fiber& fiber = *block.fibers[t];
    if (!fiber.done) ++waiting[fiber.waits.empty() ? "a barrier or their warp" : fiber.waits];
  }
  std::string text;
  for (const auto& [what, count] : waiting) text += "; " + std::to_string(count) + " at " + what;
  return text;
}

void RunBlock() {
  block.at_barrier = block.finished = 0;
  block.faulted = block.counted = false;
  std::fill_n(block.shared, block.shared_storage.size() - 1024, static_cast<unsigned char>(0xFF));
  block.ready.clear();
  for (int t = 0; t < block.thread_count; ++t) {
    Fiber& fiber = *block.fibers[t];
    fiber.place.thread = t;
    fiber.done = false;
    fiber.copies.clear();
    fiber.committed.clear();
    fiber.waits.clear();
    fiber.stored.clear();
    StartContext(fiber.context, FiberMain);
    block.ready.push_back(&fiber);
  }
  for (Warp& warp : block.warps) warp.arrived = 0;
  BeginHopper();
  size_t next = 0;
  while (block.finished < block.thread_count && !block.faulted) {
    while (LandCopy(next == block.ready.size())) {
    }
    if (next == block.ready.size()) {
      ReportFault("deadlock in a block: not every thread reaches its barrier" + Sleepers());
      break;
    }
    if (schedule_seed != 0) std::swap(block.ready[next], block.ready[next + NextOrder() % (block.ready.size() - next)]);
    block.running = block.ready[next++];
    if (next > 4096) {
      block.ready.erase(block.ready.begin(), block.ready.begin() + next);
      next = 0;
    }
    SwitchContext(block.main, block.running->context);
  }
  if (block.faulted) {
    for (int t = 0; t < block.thread_count; ++t) {
      if (!block.fibers[t]->done) AbandonContext(block.fibers[t]->context);
    }
    return;
  }
  EndHopper();
  VF_CHECK(block.at_barrier == 0, "a thread waits at a barrier that another one left out");
}

}  // namespace

void Pause() {
  Fiber* self = block.running;
  SwitchContext(self->context, block.main);
}

uint64_t NextOrder() {
  block.order = block.order * 6364136223846793005u + 1442695040888963407u;
  return block.order >> 33;
}
bool IsShuffled() { return schedule_seed != 0; }
bool CopiesAreLate() { return schedule_seed % 2 == 1; }

void CatchFaults(std::string* fault) { caught = fault; }

void ReportFault(const std::string& message) {
  if (caught == nullptr) CheckFailed(__FILE__, __LINE__, "a kernel of the emulator", message.c_str());
  if (caught->empty()) *caught = message;
  block.faulted = true;
}

void Fault(const std::string& message) {
  Fiber* self = block.running;
  ReportFault(message);
  LeaveContext(self->context, block.main);
  CheckFailed(__FILE__, __LINE__, "a fiber that ended", "runs on");
}

void SetScheduleSeed(uint64_t seed) { schedule_seed = seed; }
const Counters& GetCounters() { return counters; }
int64_t LaunchCount() { return launch_count.load(std::memory_order_relaxed); }

void Run(const LaunchShape& launch, const std::function<void()>& kernel) {
  VF_CHECK(launch.thread_count % kWarp == 0, "a block is whole warps");
  const int block_count = launch.grid[0] * launch.grid[1] * launch.grid[2];
  block.kernel = &kernel;
  block.thread_count = launch.thread_count;
  block.order = schedule_seed;
  block.warps.resize(launch.thread_count / kWarp);
  while (std::ssize(block.fibers) < launch.thread_count) {
    block.fibers.push_back(std::make_unique<Fiber>());
    block.fibers.back()->context.Allocate(kStackBytes);
  }
  block.shared_storage.resize(static_cast<size_t>(launch.shared_bytes) + 1024);
  const auto address = reinterpret_cast<uintptr_t>(block.shared_storage.data());
  block.shared = block.shared_storage.data() + (1024 - address % 1024) % 1024;
  block.shared_bytes = launch.shared_bytes;
  block.launch = &launch;
  std::vector<int> order(block_count);
  for (int i = 0; i < block_count; ++i) order[i] = i;
  if (IsShuffled()) {
    for (int i = 0; i < block_count; ++i) std::swap(order[i], order[i + NextOrder() % (block_count - i)]);
  }
  block.faulted = false;
  for (const int index : order) {
    for (int t = 0; t < launch.thread_count; ++t) {
      int* at = block.fibers[t]->place.block;
      at[0] = index % launch.grid[0];
      at[1] = index / launch.grid[0] % launch.grid[1];
      at[2] = index / launch.grid[0] / launch.grid[1];
    }
    ++counters.blocks;
    RunBlock();
    for (int t = 0; t < launch.thread_count; ++t) Move(block.fibers[t]->stored, block.unfenced);
    Move(block.met, block.unfenced);
    if (block.faulted) break;
  }
  Show(block.fenced);
  Show(block.unfenced);
}

int Start(const Limits* limits, const LaunchShape& launch, const std::function<void()>& kernel) {
  if (launch.empty()) return 0;
  const auto [x, y, z] = launch.grid;
  if (limits != nullptr) {
    if (launch.shared_bytes > limits->shared_bytes_max) return 1;
    if (y > limits->grid_yz_max || z > limits->grid_yz_max || launch.thread_count > limits->thread_count_max) return 9;
  }
  launch_count.fetch_add(1, std::memory_order_relaxed);
  block.limits = limits;
  Run(launch, kernel);
  block.limits = nullptr;
  return 0;
}

int Start(const Limits* limits, const KeptLaunch& launch) {
  return Start(limits, launch.shape, [&] {
    block.running->waited_for_previous = false;
    launch.call(launch.kernel, launch.params);
    VF_CHECK(block.running->waited_for_previous, "every thread of a kernel waits for the previous launch");
  });
}

void WaitForPreviousLaunch() { block.running->waited_for_previous = true; }

int BlockCount() { return block.launch->grid[0] * block.launch->grid[1] * block.launch->grid[2]; }
int LinearBlock() {
  const auto& [x, y, z] = block.running->place.block;
  return (z * block.launch->grid[1] + y) * block.launch->grid[0] + x;
}

void PrefetchL2(const void* from, uint32_t bytes) {
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0)
    Fault("a prefetch of " + std::to_string(bytes) + " bytes that is not on 16 bytes");
  if (block.running->waited_for_previous) Fault("a prefetch after the wait for the previous launch");
  if (block.limits != nullptr && block.limits->prefetch != nullptr && !block.limits->prefetch(from, bytes))
    Fault("a prefetch of " + std::to_string(bytes) + " bytes outside the device's memory");
}

void StoreForOthers(void* to, const void* from, int bytes) {
  LateStore store{to, bytes, {}};
  VF_CHECK(bytes <= static_cast<int>(sizeof store.value), "a store of at most 16 bytes");
  std::memcpy(store.value, from, bytes);
  std::memset(to, 0xFF, bytes);
  block.running->stored.push_back(store);
}
void FenceDevice() {
  Move(block.running->stored, block.fenced);
  Move(block.met, block.fenced);
  if (block.counted) Show(block.fenced);
}
void CountBlock() { block.counted = true; }

const Place& Current() { return block.running->place; }
unsigned char* SharedMemory() { return block.shared; }

void SyncThreads() {
  if (++block.at_barrier < block.thread_count) {
    Pause();
    return;
  }
  block.at_barrier = 0;
  for (int t = 0; t < block.thread_count; ++t) Move(block.fibers[t]->stored, block.met);
  for (int t = 0; t < block.thread_count; ++t) {
    if (block.fibers[t].get() != block.running) block.ready.push_back(block.fibers[t].get());
  }
}

float ShuffleXor(float value, int mask) { return Shuffle(value, mask); }
int ShuffleXor(int value, int mask) { return Shuffle(value, mask); }
double ShuffleXor(double value, int mask) { return Shuffle(value, mask); }

uint32_t WarpOr(uint32_t value) {
  uint32_t result;
  Collective({{&value, nullptr}, &result, 0}, [](const Slot* slots) {
    uint32_t all = 0;
    for (int lane = 0; lane < kWarp; ++lane) all |= *static_cast<const uint32_t*>(slots[lane].in[0]);
    for (int lane = 0; lane < kWarp; ++lane) *static_cast<uint32_t*>(slots[lane].out) = all;
  });
  return result;
}

void LoadMatrices(const unsigned char* row, uint32_t (&words)[4], bool transposed) {
  Collective({{row, nullptr}, words, transposed}, [](const Slot* slots) {
    uint32_t out[kWarp][4];
    // 32 banks of 4 bytes: a matrix's eight rows of 16 bytes need all of them once.
    for (int m = 0; m < 4; ++m) {
      bool taken[8] = {};
      for (int row = 0; row < 8; ++row) {
        const auto address = reinterpret_cast<uintptr_t>(slots[8 * m + row].in[0]);
        counters.bank_conflicts += taken[address / 16 % 8];
        taken[address / 16 % 8] = true;
      }
      ++counters.matrices;
    }
    for (int lane = 0; lane < kWarp; ++lane) {
      for (int m = 0; m < 4; ++m) {
        uint16_t halves[2];
        for (int half = 0; half < 2; ++half) {
          const FragmentIndex at = FragmentLoaded(lane, half, slots[lane].argument != 0);
          const auto* address = static_cast<const unsigned char*>(slots[8 * m + at.row].in[0]);
          VF_CHECK(reinterpret_cast<uintptr_t>(address) % 16 == 0, "ldmatrix needs rows on 16 bytes");
          std::memcpy(&halves[half], address + at.column * 2, 2);
        }
        out[lane][m] = halves[0] | static_cast<uint32_t>(halves[1]) << 16;
      }
    }
    for (int lane = 0; lane < kWarp; ++lane) std::memcpy(slots[lane].out, out[lane], sizeof out[lane]);
  });
}

void MultiplyAccumulate(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const uint32_t b[2] = {b0, b1};
  Collective({{a, b}, c, 0}, [](const Slot* slots) {
    float left[16][16], right[16][8], sums[16][8];
    for (int lane = 0; lane < kWarp; ++lane) {
      const auto* words = static_cast<const uint32_t*>(slots[lane].in[0]);
      for (int word = 0; word < 4; ++word) {
        for (int half = 0; half < 2; ++half) {
          const FragmentIndex at = FragmentA(lane, word, half);
          left[at.row][at.column] = Widen(words[word], half);
        }
      }
      words = static_cast<const uint32_t*>(slots[lane].in[1]);
      for (int word = 0; word < 2; ++word) {
        for (int half = 0; half < 2; ++half) {
          const FragmentIndex at = FragmentB(lane, word, half);
          right[at.row][at.column] = Widen(words[word], half);
        }
      }
    }
    for (int i = 0; i < 16; ++i) {
      float row[8] = {};  // of its own, so that the compiler keeps it in registers
      for (int k = 0; k < 16; ++k) {
        for (int j = 0; j < 8; ++j) row[j] += left[i][k] * right[k][j];
      }
      std::copy_n(row, 8, sums[i]);
    }
    for (int lane = 0; lane < kWarp; ++lane) {
      for (int word = 0; word < 4; ++word) {
        const FragmentIndex at = FragmentC(lane, word);
        static_cast<float*>(slots[lane].out)[word] += sums[at.row][at.column];
      }
    }
    ++counters.multiplies;
  });
}

void CopyAsync(unsigned char* to, const void* from, bool valid) {
  VF_CHECK(reinterpret_cast<uintptr_t>(to) % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0,
           "an asynchronous copy of 16 bytes needs both addresses on 16 bytes");
  std::memset(to, 0xFF, 16);
  BeginOwnCopy(to);
  block.running->copies.push_back({to, valid ? from : nullptr});
}

void CommitCopies() { block.running->committed.push_back(block.running->copies.size()); }

void WaitCopies(int pending) {
  Fiber& self = *block.running;
  const int landing = static_cast<int>(self.committed.size()) - pending;
  if (landing <= 0) return;
  AwaitOwnCopies();
  const size_t end = self.committed[landing - 1];
  for (size_t i = 0; i < end; ++i) {
    if (self.copies[i].from == nullptr) {
      std::memset(self.copies[i].to, 0, 16);
    } else {
      std::memcpy(self.copies[i].to, self.copies[i].from, 16);
    }
    EndOwnCopy(self.copies[i].to);
  }
  self.copies.erase(self.copies.begin(), self.copies.begin() + end);
  self.committed.erase(self.committed.begin(), self.committed.begin() + landing);
  for (size_t& at : self.committed) at -= end;
}

namespace {
int omitted_step = 0;
}  // namespace
void OmitStep(int step) { omitted_step = step; }
int OmittedStep() { return omitted_step; }

float FusedMultiplyAdd(float a, float b, float c) { return std::fma(a, b, c); }

float Exp2(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;
}

uint32_t PackBf16(float low, float high) { return RoundToBF16(low) | static_cast<uint32_t>(RoundToBF16(high)) << 16; }

}  // namespace varifocal::kernels::cuda::emulator
