// Device primitives for kernels, implemented for nvcc and for the emulator.
//
// Kernels use only these functions. nvcc compiles them to instructions; a C++ compiler with VF_EMULATE compiles the
// same kernel sources for the emulator (emulator/fibers.h), which runs every thread of a block and executes ldmatrix,
// mma and shuffles lane by lane. So host tests run the same code as a GPU.
//
// Source:  PTX ISA 9.0: ldmatrix, mma.m16n8k16, cp.async, ex2; fragment layouts in fragments.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define VF_HD __host__ __device__
#define VF_DEVICE __device__ __forceinline__
#define VF_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
#define VF_SHARED __shared__
#define VF_PARAMS(type) const __grid_constant__ type  // may be indexed without a copy on the stack
#define VF_RESTRICT __restrict__
#define VF_UNROLL _Pragma("unroll")
#define VF_PRAGMA(text) _Pragma(#text)
#define VF_UNROLL_BY(count) VF_PRAGMA(unroll count)
#else
#define VF_HD
#define VF_DEVICE inline
#define VF_KERNEL(threads, blocks) void
#define VF_SHARED static thread_local
#define VF_PARAMS(type) const type&
#define VF_RESTRICT __restrict__
#define VF_UNROLL
#define VF_UNROLL_BY(count)
#endif

#if !defined(__CUDACC__) && defined(VF_EMULATE)
#include "kernels/cuda/emulator/primitives.h"
#endif

namespace varifocal::kernels::cuda {
VF_HD inline bool IsAligned(const void* at, size_t bytes) { return reinterpret_cast<uintptr_t>(at) % bytes == 0; }
}  // namespace varifocal::kernels::cuda

#if defined(__CUDACC__) || defined(VF_EMULATE)
namespace varifocal::kernels::cuda {

#if defined(__CUDACC__)

VF_DEVICE int ThreadX() { return static_cast<int>(threadIdx.x); }
VF_DEVICE int BlockX() { return static_cast<int>(blockIdx.x); }
VF_DEVICE int BlockY() { return static_cast<int>(blockIdx.y); }
VF_DEVICE int BlockZ() { return static_cast<int>(blockIdx.z); }
VF_DEVICE void SyncThreads() { __syncthreads(); }
VF_DEVICE void SyncWarp() { __syncwarp(); }

// A block's dynamic shared memory.
VF_DEVICE unsigned char* SharedMemory() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  return dynamic_shared_memory;
}

VF_DEVICE float ShuffleXor(float value, int mask) { return __shfl_xor_sync(0xFFFFFFFFu, value, mask); }
VF_DEVICE int ShuffleXor(int value, int mask) { return __shfl_xor_sync(0xFFFFFFFFu, value, mask); }
VF_DEVICE double ShuffleXor(double value, int mask) { return __shfl_xor_sync(0xFFFFFFFFu, value, mask); }
// Bitwise or over the lanes of a warp, the same in every lane.
VF_DEVICE uint32_t WarpOr(uint32_t value) { return __reduce_or_sync(0xFFFFFFFFu, value); }
VF_DEVICE int CountBits(uint32_t word) { return __popc(word); }

VF_DEVICE float FusedMultiplyAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// 2^x, relative error below 2^-22; 2^0 is 1 and 2^-inf is 0.
VF_DEVICE float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x to about one unit in the last place; 0 for infinity.
VF_DEVICE float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Two f32 rounded to nearest even, the first in the lower half.
VF_DEVICE uint32_t PackBf16(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

VF_DEVICE uint32_t SharedAddress(int offset) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(SharedMemory())) + static_cast<uint32_t>(offset);
}
// Four 8x8 matrices of 16-bit values; lane 8m + r passes the offset in dynamic shared memory of row r of matrix m.
VF_DEVICE void LoadMatrices(int row, uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(SharedAddress(row))
               : "memory");
}
VF_DEVICE void LoadMatricesTransposed(int row, uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(SharedAddress(row))
               : "memory");
}
// c += a b: a [16, 16], b [16, 8], c f32 [16, 8].
VF_DEVICE void MultiplyAccumulate(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 bytes from global memory to an offset in dynamic shared memory, or zeros when not `valid`; done after WaitCopies.
VF_DEVICE void CopyAsync(int to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(SharedAddress(to)), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
VF_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `pending` of the committed groups are incomplete.
template <int pending>
VF_DEVICE void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}
// Loads from here on are not moved before it: a compiler that does so keeps their results in registers.
VF_DEVICE void HoldLoads() { asm volatile("" ::: "memory"); }
// Programmatic dependent launch (compute capability 9 and later): the next kernel's blocks may start once all of this
// one's have started. Every thread of every kernel waits until the previous kernel is complete before it writes, and
// before it reads anything but weights and what the host has uploaded for the step.
VF_DEVICE void AllowNextLaunch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
VF_DEVICE void WaitForPreviousLaunch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Asks for global memory in the L2 cache: address and bytes are multiples of 16. Devices before 9.0 do nothing.
VF_DEVICE void PrefetchL2(const void* from, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
               :
               : "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
#endif
}
VF_DEVICE int BlockCount() { return static_cast<int>(gridDim.x * gridDim.y * gridDim.z); }
VF_DEVICE int LinearBlock() { return static_cast<int>((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x); }
// Numbers that another block of the same launch will read (last_block.h).
template <typename T>
VF_DEVICE void StoreForOthers(T* to, const T& value) {
  *to = value;
}
VF_DEVICE void FenceDevice() { __threadfence(); }
// Returns the value before. There is no 64-bit one: in shared memory it compiles to a loop of compare-and-swap.
VF_DEVICE uint32_t AtomicAdd(uint32_t* to, uint32_t value) { return atomicAdd(to, value); }

#else

inline int ThreadX() { return emulator::Current().thread; }
inline int BlockX() { return emulator::Current().block[0]; }
inline int BlockY() { return emulator::Current().block[1]; }
inline int BlockZ() { return emulator::Current().block[2]; }
inline void SyncThreads() { emulator::SyncThreads(); }
inline void SyncWarp() { emulator::WarpOr(0); }
inline unsigned char* SharedMemory() { return emulator::SharedMemory(); }
inline float ShuffleXor(float value, int mask) { return emulator::ShuffleXor(value, mask); }
inline int ShuffleXor(int value, int mask) { return emulator::ShuffleXor(value, mask); }
inline double ShuffleXor(double value, int mask) { return emulator::ShuffleXor(value, mask); }
inline uint32_t WarpOr(uint32_t value) { return emulator::WarpOr(value); }
inline int CountBits(uint32_t word) { return std::popcount(word); }
inline float FusedMultiplyAdd(float a, float b, float c) { return emulator::FusedMultiplyAdd(a, b, c); }
inline float Exp2(float x) { return emulator::Exp2(x); }
inline float Reciprocal(float x) { return 1.0f / x; }
inline uint32_t PackBf16(float low, float high) { return emulator::PackBf16(low, high); }
inline void LoadMatrices(int row, uint32_t (&words)[4]) {
  emulator::LoadMatrices(emulator::SharedMemory() + row, words, false);
}
inline void LoadMatricesTransposed(int row, uint32_t (&words)[4]) {
  emulator::LoadMatrices(emulator::SharedMemory() + row, words, true);
}
inline void MultiplyAccumulate(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulator::MultiplyAccumulate(c, a, b0, b1);
}
inline void CopyAsync(int to, const void* from, bool valid) {
  emulator::CopyAsync(emulator::SharedMemory() + to, from, valid);
}
inline void CommitCopies() { emulator::CommitCopies(); }
template <int pending>
inline void WaitCopies() {
  emulator::WaitCopies(pending);
}
inline void HoldLoads() {}
inline void AllowNextLaunch() {}
inline void WaitForPreviousLaunch() { emulator::WaitForPreviousLaunch(); }
inline void PrefetchL2(const void* from, uint32_t bytes) { emulator::PrefetchL2(from, bytes); }
inline int BlockCount() { return emulator::BlockCount(); }
inline int LinearBlock() { return emulator::LinearBlock(); }
template <typename T>
inline void StoreForOthers(T* to, const T& value) {
  emulator::StoreForOthers(to, &value, sizeof value);
}
inline void FenceDevice() { emulator::FenceDevice(); }
inline uint32_t AtomicAdd(uint32_t* to, uint32_t value) {
  emulator::CountBlock();
  const uint32_t before = *to;
  *to += value;
  return before;
}

#endif

// What a kernel begins with that has nothing to do before the wait.
VF_DEVICE void FollowPreviousLaunch() {
  AllowNextLaunch();
  WaitForPreviousLaunch();
}

VF_DEVICE float WidenLow(uint32_t word) {
  const uint32_t bits = word << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
VF_DEVICE float WidenHigh(uint32_t word) {
  const uint32_t bits = word & 0xFFFF0000u;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
// Two 16-bit values to an address aligned to 4 bytes; memcpy would assume an alignment of 2 and store single bytes.
VF_DEVICE void StorePair(uint16_t* to, uint32_t word) {
#if defined(__CUDACC__)
  *reinterpret_cast<uint32_t*>(to) = word;
#else
  memcpy(to, &word, sizeof word);
#endif
}
// Four f32, or eight or four bf16, at an address aligned to their size: one load or store of 16 or 8 bytes.
struct FourFloats {
  float at[4];
};
struct FourWords {
  uint32_t at[4];
};
struct TwoWords {
  uint32_t at[2];
};
struct alignas(8) TwoFloats {
  float at[2];
};
template <typename T>
VF_DEVICE T LoadAligned(const void* from) {
  T value;
#if defined(__CUDACC__)
  if constexpr (sizeof(T) == 16) {
    const uint4 words = *static_cast<const uint4*>(from);
    memcpy(&value, &words, sizeof value);
  } else {
    const uint2 words = *static_cast<const uint2*>(from);
    memcpy(&value, &words, sizeof value);
  }
#else
  memcpy(&value, from, sizeof value);
#endif
  return value;
}
template <typename T>
VF_DEVICE void StoreAligned(void* to, const T& value) {
#if defined(__CUDACC__)
  if constexpr (sizeof(T) == 16) {
    uint4 words;
    memcpy(&words, &value, sizeof words);
    *static_cast<uint4*>(to) = words;
  } else {
    uint2 words;
    memcpy(&words, &value, sizeof words);
    *static_cast<uint2*>(to) = words;
  }
#else
  memcpy(to, &value, sizeof value);
#endif
}

VF_DEVICE uint16_t RoundBf16(float value) { return PackBf16(value, 0.0f) & 0xFFFFu; }

VF_DEVICE int LaneIndex() { return ThreadX() & 31; }
VF_DEVICE int WarpIndex() { return ThreadX() >> 5; }

// Sum and maximum over the 32 lanes of a warp, the same in every lane.
template <typename T>
VF_DEVICE T WarpSum(T value) {
  for (int mask = 16; mask > 0; mask >>= 1) value += ShuffleXor(value, mask);
  return value;
}
template <typename T>
VF_DEVICE T WarpMax(T value) {
  for (int mask = 16; mask > 0; mask >>= 1) {
    const T other = ShuffleXor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

}  // namespace varifocal::kernels::cuda
#endif
