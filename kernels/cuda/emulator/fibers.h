// Runs a kernel's threads on the host: every thread of a block is a fiber, a warp's collective instructions happen when
// its 32 lanes have arrived, copies land only when they are waited for.
//
// It is no model of time. It is strict where a GPU is forgiving: shared memory starts as NaNs, a copy's target holds
// NaNs until the copy is waited for, and threads run in an order that a seed shuffles, so that a missing barrier changes
// results. A barrier that not every thread reaches ends the program with a sentence.
//
// Threads: one block runs at a time in a host thread; several host threads may each run blocks.
// Cost:    about 20 ns a switch; an mma about half a microsecond.
#pragma once

#include <cstdint>
#include <functional>

namespace varifocal::kernels::cuda::emulator {

struct Launch {
  int grid[3] = {1, 1, 1};
  int thread_count = 32;
  int shared_bytes = 0;
};

// Order in which threads that may run do run: 0 first come, otherwise shuffled by the seed.
void SetScheduleSeed(uint64_t seed);

// Runs kernel() once per thread of every block.
void Run(const Launch& launch, const std::function<void()>& kernel);

// Counted over the life of the process, for tests: mma instructions and blocks executed; 8x8 matrices that ldmatrix read,
// and how many of their rows met another row of theirs in its four banks and had to wait.
struct Counters {
  int64_t multiplies = 0;
  int64_t blocks = 0;
  int64_t matrices = 0;
  int64_t bank_conflicts = 0;
};
const Counters& GetCounters();

// ---- what simt.h asks for, inside a running kernel ----

struct Place {
  int thread = 0;
  int block[3] = {0, 0, 0};
};
const Place& Current();

void SyncThreads();
unsigned char* SharedMemory();
float ShuffleXor(float value, int mask);
int ShuffleXor(int value, int mask);
double ShuffleXor(double value, int mask);
uint32_t WarpOr(uint32_t value);
void LoadMatrices(const unsigned char* row, uint32_t (&words)[4], bool transposed);
void MultiplyAccumulate(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void CopyAsync(unsigned char* to, const void* from, bool valid);
void CommitCopies();
void WaitCopies(int pending);

float FusedMultiplyAdd(float a, float b, float c);
float Exp2(float x);
uint32_t PackBf16(float low, float high);

}  // namespace varifocal::kernels::cuda::emulator
