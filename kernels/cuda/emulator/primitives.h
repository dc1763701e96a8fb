// The primitives of simt.h inside a running kernel of the emulator (fibers.h).
#pragma once

#include <cstdint>

namespace varifocal::kernels::cuda::emulator {

struct Place {
  int thread = 0;
  int block[3] = {0, 0, 0};
};
const Place& Current();

// Blocks of the launch, and the place of the running one among them.
int BlockCount();
int LinearBlock();
// Memory is NaN where StoreForOthers wrote until a thread of the block has fenced, the storing one or one that met it after the store,
// and then a block that has counted itself (CountBlock) fences; the end of the launch shows everything.
void StoreForOthers(void* to, const void* from, int bytes);
void FenceDevice();
void CountBlock();
// A mistake where Limits::prefetch does not admit it.
void PrefetchL2(const void* from, uint32_t bytes);
// Every kernel of the backend must call it: the next one may start before it is complete (simt.h).
void WaitForPreviousLaunch();
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

int OmittedStep();  // of gather_steps.h or decode_steps.h, of all threads

float FusedMultiplyAdd(float a, float b, float c);
float Exp2(float x);
uint32_t PackBf16(float low, float high);

}  // namespace varifocal::kernels::cuda::emulator
