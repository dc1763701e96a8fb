// Device primitives of compute capability 9.0 beside simt.h's, for nvcc and for the emulator: barriers in shared memory with
// phases, bulk copies, asynchronous products of a warpgroup (wgmma), named barriers, reallocation of registers.
//
// Files that include it are compiled for sm_90a alone. Offsets are bytes in dynamic shared memory. A call names the step of the
// kernel that it is (sm90_steps.h).
//
// Source:  PTX ISA 9.0: mbarrier, cp.async.bulk, fence.proxy.async, wgmma (fragments, descriptors), setmaxnreg, barrier.
#pragma once

#include "kernels/cuda/simt.h"
#include "kernels/cuda/sm90_operands.h"
#include "kernels/cuda/sm90_steps.h"
#include "kernels/cuda/tensor_map.h"

#if !defined(__CUDACC__) && defined(VF_EMULATE)
#include "kernels/cuda/emulator/hopper.h"
#endif

#if defined(__CUDACC__) || defined(VF_EMULATE)
namespace varifocal::kernels::cuda {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kBarrierBytes = 8;

// Where operand tiles are and how: bits 0-13 address, 16-29 leading offset, 32-45 stride offset, all in units of 16 bytes; 62-63
// swizzle (1, 2, 3: 128, 64, 32 bytes). A K-major operand ([rows, K], K contiguous) has rows of a panel of `width` columns, eight
// of them `stride` bytes before the next eight. A transposed one ([K, N], N contiguous) has the same rows, now along K; its
// next 64 columns are `leading` bytes on.
// `address` is in units of 16 bytes, so that a kernel computes a tile's once and adds constants.
VF_HD constexpr uint64_t OperandDescriptor(uint32_t address, int width, int leading_bytes) {
  const uint32_t stride = width * 16 / 16, swizzle = width == 64 ? 1 : width == 32 ? 2 : 3;
  const uint32_t low = address | static_cast<uint32_t>(leading_bytes >> 4) << 16;
  return static_cast<uint64_t>(stride | swizzle << 30) << 32 | low;
}

#if defined(__CUDACC__)

// A value that is the same in a warp, for the compiler to know it: it may then be in a uniform register.
VF_DEVICE int Uniform(int value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }
// The warpgroup of this thread, known to be the same in a warp.
VF_DEVICE int WarpgroupIndex() { return Uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads); }
VF_DEVICE bool WarpAny(bool value) { return __any_sync(0xFFFFFFFFu, value) != 0; }

VF_DEVICE void InitBarrier(Sm90Step, int barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(SharedAddress(barrier)), "r"(count) : "memory");
}
// One thread, after InitBarrier, before SyncThreads.
VF_DEVICE void PublishBarriers(Sm90Step) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
VF_DEVICE void Arrive(Sm90Step, int barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(SharedAddress(barrier)) : "memory");
}
// Arrives, and makes the phase wait for so many bytes of bulk copies.
VF_DEVICE void ArriveExpecting(Sm90Step, int barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(SharedAddress(barrier)), "r"(bytes)
               : "memory");
}
// Stops the kernel with an error, by an address that is none. In a kernel with a trap, ptxas limits all threads to the registers
// of the launch, whatever setmaxnreg asks for.
VF_DEVICE void StopKernel() { asm volatile("st.global.u32 [%0], %1;" : : "l"(0ull), "r"(0) : "memory"); }
// Waits until the barrier's phase of this parity is complete. A wait without an end stops the kernel with an error.
VF_DEVICE void AwaitPhase(Sm90Step, int barrier, uint32_t parity) {
  const uint32_t address = SharedAddress(barrier);
  for (int round = 0;; ++round) {
    uint32_t done;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(address), "r"(parity)
        : "memory");
    if (done != 0) return;
    if (round > 1 << 24) StopKernel();
  }
}

// By one thread; both addresses on 16 bytes, `bytes` a multiple of 16, counted by the barrier.
VF_DEVICE void CopyBulk(Sm90Step, int to, const void* from, int bytes, int barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :
               : "r"(SharedAddress(to)), "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
               : "memory");
}
// The box of a tensor map from this column and row on, zeros where it is outside; all of its bytes are counted by the barrier. By one
// thread; `to` on 1,024 bytes, the map a parameter of the kernel that is not copied.
VF_DEVICE void CopyTensor(Sm90Step, int to, const TensorMap& map, int column, int row, int barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
      :
      : "r"(SharedAddress(to)), "l"(&map), "r"(column), "r"(row), "r"(SharedAddress(barrier))
      : "memory");
}
// 16 bytes that a product reads, after the thread's FenceAsync.
VF_DEVICE void StoreOperand(int to, const uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(SharedAddress(to)), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}
VF_DEVICE void FenceAsync(Sm90Step) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Registers of products: the compiler moves no access across a pin. Pinned before the fence that admits them to products, and
// by the wait after which they may be used again.
template <int kColumns>
VF_DEVICE void Pin(Sm90Step, float (&sums)[kColumns][4]) {
  VF_UNROLL
  for (int n = 0; n < kColumns; ++n) {
    VF_UNROLL
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(sums[n][i])::"memory");
  }
}
template <int kSteps>
VF_DEVICE void Pin(Sm90Step, uint32_t (&words)[kSteps][4]) {
  VF_UNROLL
  for (int n = 0; n < kSteps; ++n) {
    VF_UNROLL
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(words[n][i])::"memory");
  }
}
VF_DEVICE void FenceProducts(Sm90Step) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
VF_DEVICE void CommitProducts(Sm90Step) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most `pending` of the committed groups are incomplete.
template <int pending, typename... Registers>
VF_DEVICE void WaitProducts(Sm90Step step, Registers&... registers) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
  (Pin(step, registers), ...);
}

#define VF_PRODUCT_OF_SHARED(N, registers, sums, a_at, b_at, adds_at)                                  \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds_at ", 0;\nwgmma.mma_async.sync.aligned.m64n" N \
               "k16.f32.bf16.bf16 {" registers "}, " a_at ", " b_at ", p, 1, 1, 0, 0;\n}"              \
               : sums                                                                                  \
               : "l"(a), "l"(b), "r"(static_cast<int>(adds)))
#define VF_PRODUCT_OF_REGISTERS(N, registers, sums, w0, w1, w2, w3, b_at)                                      \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n" N                   \
               "k16.f32.bf16.bf16 {" registers "}, {" w0 ", " w1 ", " w2 ", " w3 "}, " b_at ", p, 1, 1, 1;\n}" \
               : sums                                                                                          \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

// d [64, N] = a b^T (+ d where `adds`): a [64, 16] and b [N, 16] K-major, N = 8 kColumns.
template <int kColumns>
VF_DEVICE void StartProduct(uint64_t a, uint64_t b, bool adds, float (&d)[kColumns][4]) {
  static_assert(kColumns == 8 || kColumns == 16 || kColumns == 24 || kColumns == 32);
  if constexpr (kColumns == 8) {
    VF_PRODUCT_OF_SHARED("64", VF_REGISTERS_OF_32, VF_SUMS_8(d, 0), "%32", "%33", "%34");
  } else if constexpr (kColumns == 16) {
    VF_PRODUCT_OF_SHARED("128", VF_REGISTERS_OF_64, VF_SUMS_16(d, 0), "%64", "%65", "%66");
  } else if constexpr (kColumns == 24) {
    VF_PRODUCT_OF_SHARED("192", VF_REGISTERS_OF_96, VF_SUMS_24(d, 0), "%96", "%97", "%98");
  } else {
    VF_PRODUCT_OF_SHARED("256", VF_REGISTERS_OF_128, VF_SUMS_32(d, 0), "%128", "%129", "%130");
  }
}
// d [64, kN] += a b from column 8 kFirst on: a [64, 16] as FragmentA a warp, b [16, kN] transposed.
template <int kN, int kFirst, int kColumns>
VF_DEVICE void StartProduct(const uint32_t (&a)[4], uint64_t b, float (&d)[kColumns][4]) {
  static_assert(kFirst + kN / 8 <= kColumns);
  if constexpr (kN == 16) {
    VF_PRODUCT_OF_REGISTERS("16", VF_REGISTERS_OF_8, VF_SUMS_2(d, kFirst), "%8", "%9", "%10", "%11", "%12");
  } else if constexpr (kN == 32) {
    VF_PRODUCT_OF_REGISTERS("32", VF_REGISTERS_OF_16, VF_SUMS_4(d, kFirst), "%16", "%17", "%18", "%19", "%20");
  } else if constexpr (kN == 64) {
    VF_PRODUCT_OF_REGISTERS("64", VF_REGISTERS_OF_32, VF_SUMS_8(d, kFirst), "%32", "%33", "%34", "%35", "%36");
  } else if constexpr (kN == 128) {
    VF_PRODUCT_OF_REGISTERS("128", VF_REGISTERS_OF_64, VF_SUMS_16(d, kFirst), "%64", "%65", "%66", "%67", "%68");
  } else if constexpr (kN == 192) {
    VF_PRODUCT_OF_REGISTERS("192", VF_REGISTERS_OF_96, VF_SUMS_24(d, kFirst), "%96", "%97", "%98", "%99", "%100");
  } else {
    static_assert(kN == 256);
    VF_PRODUCT_OF_REGISTERS("256", VF_REGISTERS_OF_128, VF_SUMS_32(d, kFirst), "%128", "%129", "%130", "%131", "%132");
  }
}
#undef VF_PRODUCT_OF_SHARED
#undef VF_PRODUCT_OF_REGISTERS

// All threads of a warpgroup; what others gave up is there when it returns.
template <int kCount>
VF_DEVICE void TakeFewerRegisters(Sm90Step) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kCount));
}
template <int kCount>
VF_DEVICE void TakeMoreRegisters(Sm90Step) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kCount));
}

// A named barrier of `threads`: some only arrive, the others wait for all.
template <int kId>
VF_DEVICE void SyncNamed(Sm90Step, int threads) {
  asm volatile("bar.sync %0, %1;" : : "n"(kId), "r"(threads) : "memory");
}
template <int kId>
VF_DEVICE void ArriveNamed(Sm90Step, int threads) {
  asm volatile("bar.arrive %0, %1;" : : "n"(kId), "r"(threads) : "memory");
}
// For the compiler: no access is moved across.
VF_DEVICE void Settle() { asm volatile("" ::: "memory"); }
// For the emulator: bytes of shared memory that were written.
VF_DEVICE void ExpectData(const void*, int) {}
VF_DEVICE bool IsStepOmitted(Sm90Step) { return false; }

#else

inline uint32_t SharedAddress(int offset) { return offset; }
inline int WarpgroupIndex() { return ThreadX() / kWarpgroupThreads; }
inline int Uniform(int value) { return value; }
inline bool WarpAny(bool value) { return WarpOr(value) != 0; }
inline void InitBarrier(Sm90Step step, int barrier, int count) { emulator::InitBarrier(step, barrier, count); }
inline void PublishBarriers(Sm90Step) {}
inline void Arrive(Sm90Step step, int barrier) { emulator::Arrive(step, barrier, 0); }
inline void ArriveExpecting(Sm90Step step, int barrier, int bytes) { emulator::Arrive(step, barrier, bytes); }
inline void AwaitPhase(Sm90Step step, int barrier, uint32_t parity) { emulator::AwaitPhase(step, barrier, parity); }
inline void CopyBulk(Sm90Step step, int to, const void* from, int bytes, int barrier) {
  emulator::CopyBulk(step, to, from, bytes, barrier);
}
inline void CopyTensor(Sm90Step step, int to, const TensorMap& map, int column, int row, int barrier) {
  emulator::CopyTensor(step, to, map, column, row, barrier);
}
inline void StoreOperand(int to, const uint32_t (&words)[4]) { emulator::StoreOperand(to, words); }
inline void FenceAsync(Sm90Step step) { emulator::FenceAsync(step); }
template <typename T, int kCount>
inline void Pin(Sm90Step step, T (&registers)[kCount][4]) {
  emulator::Pin(step, registers, kCount * 4);
}
inline void FenceProducts(Sm90Step step) { emulator::FenceProducts(step); }
inline void CommitProducts(Sm90Step step) { emulator::CommitProducts(step); }
template <int pending, typename... Registers>
inline void WaitProducts(Sm90Step step, Registers&...) {
  emulator::WaitProducts(step, pending);
}
template <int kColumns>
inline void StartProduct(uint64_t a, uint64_t b, bool adds, float (&d)[kColumns][4]) {
  emulator::StartProduct(a, nullptr, b, adds, d[0], kColumns);
}
template <int kN, int kFirst, int kColumns>
inline void StartProduct(const uint32_t (&a)[4], uint64_t b, float (&d)[kColumns][4]) {
  static_assert(kFirst + kN / 8 <= kColumns);
  emulator::StartProduct(0, a, b, true, d[kFirst], kN / 8);
}
template <int kCount>
inline void TakeFewerRegisters(Sm90Step step) {
  emulator::SetRegisters(step, kCount, false);
}
template <int kCount>
inline void TakeMoreRegisters(Sm90Step step) {
  emulator::SetRegisters(step, kCount, true);
}
template <int kId>
inline void SyncNamed(Sm90Step step, int threads) {
  emulator::MeetNamed(step, kId, threads, true);
}
template <int kId>
inline void ArriveNamed(Sm90Step step, int threads) {
  emulator::MeetNamed(step, kId, threads, false);
}
inline void Settle() {}
inline void ExpectData(const void* from, int bytes) { emulator::ExpectData(from, bytes); }
inline bool IsStepOmitted(Sm90Step step) { return emulator::IsOmitted(step); }

#endif

}  // namespace varifocal::kernels::cuda
#endif
