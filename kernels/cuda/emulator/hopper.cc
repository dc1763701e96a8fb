#include "kernels/cuda/emulator/hopper.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/emulator/block.h"
#include "kernels/cuda/emulator/hopper_products.h"

namespace varifocal::kernels::cuda::emulator {
namespace {

constexpr int kChunk = 16;
constexpr int kRegisterFile = 64 << 10, kRegisterUnit = 8, kRegistersMax = 255;
constexpr int kNamedBarriers = 16;

struct PhaseBarrier {
  const char* name = "";
  int count = 0, pending = 0;
  int64_t due_bytes = 0;
  uint32_t phase = 0;  // complete ones
  std::vector<Fiber*> waiting;
};

struct BulkCopy {
  const char* name;
  int to;
  const void* from;
  int bytes, barrier;
  // Of a box: its matrix, and where it begins in it. `from` is null then.
  TensorMapSpec matrix = {};
  int column = 0, row = 0;
};

struct NamedBarrier {
  int threads = 0, arrived = 0;
  std::vector<Fiber*> waiting;
};

// State of the block's shared memory and registers beyond what its threads see.
struct Hopper {
  std::vector<unsigned char> async_view;
  std::map<int, PhaseBarrier> barriers;  // by offset
  std::vector<BulkCopy> copies;          // not landed
  std::vector<Fiber*> wait_for_own;      // for copies that a thread made itself
  NamedBarrier named[kNamedBarriers];
  std::vector<int> registers;  // a thread, by warpgroup
  int free_registers = 0, free_at_launch = 0;
  std::vector<Fiber*> wait_for_registers;
};
thread_local Hopper hopper;
thread_local HopperCounters counters;
Sm90Mutant mutant;

const char* NameOf(Sm90Step step) { return kSm90Steps[static_cast<int>(step)].name; }
bool Has(Sm90Step step, char fault) { return mutant.fault == fault && mutant.step == step; }

void Wake(std::vector<Fiber*>& fibers) {
  block.ready.insert(block.ready.end(), fibers.begin(), fibers.end());
  fibers.clear();
}

void CheckRange(Sm90Step step, int offset, int bytes) {
  if (offset < 0 || bytes < 0 || offset + bytes > block.shared_bytes)
    Fault(std::string(NameOf(step)) + ": outside the block's shared memory");
}

PhaseBarrier& BarrierAt(Sm90Step step, int offset) {
  const auto it = hopper.barriers.find(offset);
  if (it == hopper.barriers.end()) Fault(std::string(NameOf(step)) + ": a barrier that was not initialised");
  return it->second;
}

void CompleteIfDone(PhaseBarrier& barrier) {
  if (barrier.pending > 0 || barrier.due_bytes > 0) return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  Wake(barrier.waiting);
}

}  // namespace

void SetMutant(const Sm90Mutant& to) { mutant = to; }
bool IsOmitted(Sm90Step step) { return Has(step, 'O'); }
const HopperCounters& GetHopperCounters() { return counters; }
HopperCounters& MutableHopperCounters() { return counters; }
unsigned char* AsyncView() { return hopper.async_view.data(); }

void BeginHopper() {
  hopper.async_view.assign(block.shared_bytes, 0xFF);
  hopper.barriers.clear();
  hopper.copies.clear();
  hopper.wait_for_own.clear();
  for (NamedBarrier& named : hopper.named) named = {};
  const int per_thread = std::min(kRegisterFile / block.thread_count / kRegisterUnit * kRegisterUnit, kRegistersMax);
  hopper.registers.assign(block.thread_count / 128 + 1, per_thread);
  hopper.free_registers = hopper.free_at_launch = kRegisterFile - per_thread * block.thread_count;
  hopper.wait_for_registers.clear();
  for (int t = 0; t < block.thread_count; ++t) {
    Fiber& fiber = *block.fibers[t];
    fiber.unfenced.clear();
    fiber.pinned.clear();
    fiber.admitted.clear();
  }
  BeginProducts();
}

// Runs after the threads, outside them.
void EndHopper() {
  if (!hopper.copies.empty()) ReportFault("a block ended before its bulk copies");
  for (int id = 0; id < kNamedBarriers; ++id) {
    if (hopper.named[id].arrived != 0) ReportFault("a block ended with threads at named barrier " + std::to_string(id));
  }
  if (hopper.free_registers > hopper.free_at_launch) ReportFault("registers were released that no thread took");
  if (const std::string left = LeftOverProducts(); !left.empty()) ReportFault(left);
}

namespace {

// Rows of 64 numbers, whose 16-byte chunks are exclusive-ored by the address bits above; zeros outside of the matrix.
void LandBox(const BulkCopy& copy) {
  const TensorMapSpec& matrix = copy.matrix;
  for (int i = 0; i < matrix.box_rows; ++i) {
    for (int j = 0; j < kTensorBoxColumns; ++j) {
      const int64_t row = copy.row + i, column = copy.column + j;
      uint16_t number = 0;
      if (row >= 0 && row < matrix.rows && column >= 0 && column < matrix.columns) {
        std::memcpy(&number, static_cast<const unsigned char*>(matrix.data) + row * matrix.row_bytes + column * 2,
                    sizeof number);
      }
      const int linear = copy.to + (i * kTensorBoxColumns + j) * 2, at = linear ^ ((linear >> 7 & 7) << 4);
      std::memcpy(block.shared + at, &number, sizeof number);
      std::memcpy(hopper.async_view.data() + at, &number, sizeof number);
    }
  }
}

}  // namespace

bool LandCopy(bool must) {
  if (must && !hopper.wait_for_own.empty()) {
    Fiber*& chosen = hopper.wait_for_own[NextOrder() % hopper.wait_for_own.size()];
    block.ready.push_back(std::exchange(chosen, hopper.wait_for_own.back()));
    hopper.wait_for_own.pop_back();
    return true;
  }
  if (hopper.copies.empty()) return false;
  // A copy completes at random, or with late copies only when all threads wait.
  constexpr int kOneIn = 64;
  if (!must && (CopiesAreLate() || NextOrder() % kOneIn != 0)) return false;
  const size_t which = IsShuffled() ? NextOrder() % hopper.copies.size() : 0;
  const BulkCopy copy = hopper.copies[which];
  hopper.copies.erase(hopper.copies.begin() + which);
  if (copy.from == nullptr) {
    LandBox(copy);
  } else {
    std::memcpy(block.shared + copy.to, copy.from, copy.bytes);
    std::memcpy(hopper.async_view.data() + copy.to, copy.from, copy.bytes);
  }
  counters.copied_bytes += copy.bytes;
  PhaseBarrier& barrier = hopper.barriers.at(copy.barrier);
  barrier.due_bytes -= copy.bytes;
  if (barrier.due_bytes < 0) {
    ReportFault(std::string(copy.name) + ": more bytes than its barrier expects");
  } else {
    CompleteIfDone(barrier);
  }
  return !block.faulted;
}

void InitBarrier(Sm90Step step, int offset, int count) {
  if (Has(step, 'O')) return;
  CheckRange(step, offset, 8);
  const auto is_poison = [](unsigned char byte) { return byte == 0xFF; };
  if (offset % 8 != 0 || !std::all_of(block.shared + offset, block.shared + offset + 8, is_poison))
    Fault(std::string(NameOf(step)) + ": a barrier where something else is");
  std::memset(block.shared + offset, 0, 8);
  PhaseBarrier& barrier = hopper.barriers[offset];
  barrier.count = barrier.pending = count;
}

void Arrive(Sm90Step step, int offset, int bytes) {
  if (Has(step, 'O')) return;
  PhaseBarrier& barrier = BarrierAt(step, offset);
  barrier.name = NameOf(step);
  if (Has(step, 'B')) bytes -= kChunk;
  if (barrier.pending == 0) Fault(std::string(NameOf(step)) + ": more arrivals than the barrier's count");
  barrier.due_bytes += bytes;
  --barrier.pending;
  CompleteIfDone(barrier);
}

void AwaitPhase(Sm90Step step, int offset, uint32_t parity) {
  if (Has(step, 'O')) return;
  if (Has(step, 'P')) parity ^= 1;
  PhaseBarrier& barrier = BarrierAt(step, offset);
  Fiber* self = block.running;
  while ((barrier.phase & 1) == parity) {
    self->waits = std::string(NameOf(step)) + ", parity " + std::to_string(parity) + " (" +
                  std::to_string(barrier.pending) + " arrivals and " + std::to_string(barrier.due_bytes) +
                  " bytes missing)";
    barrier.waiting.push_back(self);
    Pause();
  }
  self->waits.clear();
}

void CopyBulk(Sm90Step step, int to, const void* from, int bytes, int barrier) {
  if (Has(step, 'O')) return;
  CheckRange(step, to, bytes);
  if (to % kChunk != 0 || reinterpret_cast<uintptr_t>(from) % kChunk != 0 || bytes % kChunk != 0 || bytes == 0)
    Fault(std::string(NameOf(step)) + ": a bulk copy needs addresses and sizes of 16 bytes");
  BarrierAt(step, barrier);
  std::memset(block.shared + to, 0xFF, bytes);
  std::memset(hopper.async_view.data() + to, 0xFF, bytes);
  hopper.copies.push_back({NameOf(step), to, from, bytes, barrier});
}

bool EncodeTensorMap(const TensorMapSpec& spec, TensorMap* map) {
  static_assert(sizeof spec <= sizeof map->words);
  const auto address = reinterpret_cast<uintptr_t>(spec.data);
  if (address == 0 || address % kChunk != 0 || spec.row_bytes % kChunk != 0 || spec.row_bytes <= 0 || spec.rows < 1 ||
      spec.columns < 1 || spec.box_rows < 1 || spec.box_rows > 256) {
    return false;
  }
  *map = {};
  std::memcpy(map->words, &spec, sizeof spec);
  return true;
}

void CopyTensor(Sm90Step step, int to, const TensorMap& map, int column, int row, int barrier) {
  if (Has(step, 'O')) return;
  TensorMapSpec matrix;
  std::memcpy(&matrix, map.words, sizeof matrix);
  const int bytes = matrix.box_rows * kTensorBoxColumns * 2;
  CheckRange(step, to, bytes);
  if (matrix.data == nullptr || to % 1024 != 0 || reinterpret_cast<uintptr_t>(&map) % alignof(TensorMap) != 0)
    Fault(std::string(NameOf(step)) + ": a box needs a map on 128 bytes and a place on 1,024");
  BarrierAt(step, barrier);
  std::memset(block.shared + to, 0xFF, bytes);
  std::memset(hopper.async_view.data() + to, 0xFF, bytes);
  hopper.copies.push_back({NameOf(step), to, nullptr, bytes, barrier, matrix, column, row});
}

void StoreOperand(int to, const uint32_t (&words)[4]) {
  VF_CHECK(to % kChunk == 0 && to + kChunk <= block.shared_bytes, "an operand's 16 bytes");
  std::memcpy(block.shared + to, words, sizeof words);
  std::memset(hopper.async_view.data() + to, 0xFF, sizeof words);
  block.running->unfenced.push_back(to);
}

// Kernels without barriers of phases have no products that read.
void BeginOwnCopy(const unsigned char* to) {
  if (!hopper.barriers.empty()) std::memset(hopper.async_view.data() + (to - block.shared), 0xFF, kChunk);
}
void AwaitOwnCopies() {
  if (hopper.barriers.empty() || !CopiesAreLate()) return;
  block.running->waits = "copies of its own";
  hopper.wait_for_own.push_back(block.running);
  Pause();
  block.running->waits.clear();
}
void EndOwnCopy(const unsigned char* to) {
  if (!hopper.barriers.empty()) block.running->unfenced.push_back(static_cast<int>(to - block.shared));
}

void ExpectData(const void* from, int bytes) {
  const auto* data = static_cast<const unsigned char*>(from);
  if (std::all_of(data, data + bytes, [](unsigned char byte) { return byte == 0xFF; }))
    Fault("data was read before it was written");
}

void FenceAsync(Sm90Step step) {
  if (Has(step, 'O')) return;
  for (const int at : block.running->unfenced) std::memcpy(hopper.async_view.data() + at, block.shared + at, kChunk);
  block.running->unfenced.clear();
}

void SetRegisters(Sm90Step step, int count, bool more) {
  if (Has(step, 'O')) return;
  if (count % kRegisterUnit != 0 || count < 24 || count > 256)
    Fault(std::string(NameOf(step)) + ": a number of registers");
  MeetWarpgroup();
  const int thread = block.running->place.thread, group = thread / 128;
  if (thread % 128 == 0) {
    int& now = hopper.registers[group];
    if (more == (count < now)) Fault(std::string(NameOf(step)) + ": the wrong direction");
    const int needed = (count - now) * 128;
    while (hopper.free_registers < needed) {
      block.running->waits = std::string(NameOf(step)) + " (" + std::to_string(needed) + " registers)";
      hopper.wait_for_registers.push_back(block.running);
      Pause();
    }
    block.running->waits.clear();
    hopper.free_registers -= needed;
    now = count;
    Wake(hopper.wait_for_registers);
  }
  MeetWarpgroup();
}

void MeetNamed(Sm90Step step, int id, int threads, bool waits) {
  if (Has(step, 'O')) return;
  NamedBarrier& named = hopper.named[id];
  if (named.arrived > 0 && named.threads != threads)
    Fault(std::string(NameOf(step)) + ": two numbers of threads at one barrier");
  named.threads = threads;
  if (++named.arrived == threads) {
    named.arrived = 0;
    Wake(named.waiting);
    return;
  }
  if (!waits) return;
  block.running->waits = std::string(NameOf(step)) + ", named barrier " + std::to_string(id);
  named.waiting.push_back(block.running);
  Pause();
  block.running->waits.clear();
}

}  // namespace varifocal::kernels::cuda::emulator
