// The block that a host thread is running: its fibers and what they wait for. Internal to the emulator.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/emulator/context_switch.h"
#include "kernels/cuda/emulator/fibers.h"
#include "kernels/cuda/emulator/primitives.h"

namespace varifocal::kernels::cuda::emulator {

inline constexpr int kWarp = 32;

struct PendingCopy {
  unsigned char* to;
  const void* from;  // null: zeros
};

// Registers of a thread as they were when a fence admitted them to products, or as a product left them.
struct Admitted {
  const void* at;
  std::vector<uint32_t> words;
};

// A store that no other block sees yet.
struct LateStore {
  void* to;
  int bytes;
  unsigned char value[16];
};

struct Fiber {
  FiberContext context;
  Place place;
  std::vector<PendingCopy> copies;  // in the order they were issued
  std::vector<size_t> committed;    // ends of the committed groups, as indices into copies
  std::vector<LateStore> stored;    // since the last barrier and FenceDevice
  std::vector<int> unfenced;        // offsets of StoreOperand's 16 bytes since the last FenceAsync
  std::vector<Admitted> pinned;     // since the last FenceProducts; without words
  std::vector<Admitted> admitted;
  std::string waits;  // what it sleeps on, where that has a name
  bool done = false, waited_for_previous = false;
};

// Input of a lane to a collective instruction; the last lane to arrive computes for all.
struct Slot {
  const void* in[2];
  void* out;
  int argument;
};

struct Warp {
  Slot slots[kWarp];
  int arrived = 0;
};

struct Block {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  std::vector<Fiber*> ready;
  std::vector<unsigned char> shared_storage;
  unsigned char* shared = nullptr;
  int shared_bytes = 0;
  FiberContext main;
  Fiber* running = nullptr;
  int thread_count = 0, at_barrier = 0, finished = 0;
  bool faulted = false, counted = false;
  const LaunchShape* launch = nullptr;
  const Limits* limits = nullptr;
  std::vector<LateStore> met;  // stored before the last barrier, since the last FenceDevice
  // Of the launch's blocks: fenced, and not.
  std::vector<LateStore> fenced, unfenced;
  uint64_t order = 0;
  const std::function<void()>* kernel = nullptr;
};
extern thread_local Block block;

// Switches to another fiber; this one must be put into `ready` again by another.
void Pause();
// A number drawn by the seed of the schedule.
uint64_t NextOrder();
bool IsShuffled();
// Whether bulk copies complete only when all threads wait: with odd seeds.
bool CopiesAreLate();

// A mistake of the kernel: aborts, or ends the block where faults are caught. Outside a fiber it returns then.
void ReportFault(const std::string& message);
// The same inside a fiber, which ends.
[[noreturn]] void Fault(const std::string& message);

// In hopper.cc. Resets the state of the block, before its threads start.
void BeginHopper();
// Completes one bulk copy, always if `must`; returns whether one completed.
bool LandCopy(bool must);
// Reports what is incomplete, after the threads have ended.
void EndHopper();

}  // namespace varifocal::kernels::cuda::emulator
