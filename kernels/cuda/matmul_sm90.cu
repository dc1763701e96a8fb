// Products of kind `sm90`: x [M, K] times weight [N, K] transposed, for compute capability 9.0, by asynchronous products of
// warpgroups (wgmma), with an epilogue.
//
// A block has three warpgroups. One thread of the first copies tiles of x and of the weight into a ring of four stages, by tensor
// maps, which fill what is outside with zeros. The other two consume: each has 64 rows of a tile, its sums in registers. A
// block of the grid computes several tiles; the copies of the next tile run while the present one's sums are stored.
//
// Definition: an element is one chain over K in steps of 16 from its start, the first step without an addend, K filled with zeros to
// a multiple of 64; then the epilogue in f32. So its bits depend neither on the number of rows nor on the tile.
#include "base/wide_product.h"
#include "kernels/cuda/device_activation.h"
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/matmul_sm90_layout.h"
#include "kernels/cuda/sm90_ring.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

inline constexpr int kProductProducerRegisters = 40, kProductConsumerRegisters = 232;

template <typename Memory>
VF_DEVICE void InitProductBarriers() {
  if (ThreadX() == 0) {
    for (int slot = 0; slot < kSm90ProductStages; ++slot) {
      InitBarrier(Sm90Step::kInitStages, FullBarrier(Memory::kBarriers, slot), 1);
      InitBarrier(Sm90Step::kInitStages, EmptyBarrier(Memory::kBarriers, slot), kSm90Consumers);
    }
    PublishBarriers(Sm90Step::kPublishStages);
  }
  SyncThreads();
}

template <int kOutputs>
VF_DEVICE void CopyStages(const ProductSm90Params& p) {
  using Memory = Sm90ProductMemory<kOutputs>;
  RingPlace<kSm90ProductStages> at;
  const int steps = CeilDivide(p.inner, kSm90ProductColumns), tiles = p.grid.tiles();
  VF_UNROLL_BY(1)
  for (int tile = BlockX(); tile < tiles; tile += p.grid.block_count) {
    const Sm90ProductPlace place = Sm90ProductPlaceOf(p.grid, tile);
    VF_UNROLL_BY(1)
    for (int step = 0; step < steps; ++step) {
      AwaitPhase(Sm90Step::kAwaitStageEmpty, EmptyBarrier(Memory::kBarriers, at.slot), at.parity ^ 1);
      const int to = at.slot * Memory::kStageBytes, barrier = FullBarrier(Memory::kBarriers, at.slot);
      ArriveExpecting(Sm90Step::kExpectStage, barrier, Memory::kStageBytes);
      const int column = step * kSm90ProductColumns;
      CopyTensor(Sm90Step::kCopyRows, to, p.x_map, column, place.row_tile * kSm90ProductRows, barrier);
      CopyTensor(Sm90Step::kCopyWeights, to + Memory::kRowBytes, p.weight_map, column, place.output_tile * kOutputs,
                 barrier);
      at.Next();
    }
  }
}

// The sums of two neighbouring outputs of a row, to memory.
template <ProductEpilogue kEpilogue>
VF_DEVICE void StorePairOfSums(const ProductSm90Params& p, size_t at, float low, float high) {
  if constexpr (kEpilogue == ProductEpilogue::kBf16) {
    StorePair(static_cast<uint16_t*>(p.out) + at, PackBf16(low, high));
  } else {
    float* out = static_cast<float*>(p.out) + at;
    TwoFloats pair{{low, high}};
    if constexpr (kEpilogue == ProductEpilogue::kResidual) {
      const auto before = LoadAligned<TwoFloats>(out);
      pair = {{before.at[0] + p.multiplier * low, before.at[1] + p.multiplier * high}};
    }
    StoreAligned(out, pair);
  }
}

// Four hidden units of a row: those of groups n and n + 1 of eight columns, two a lane. A lane of even number has a gate and its
// up of both groups, and so has its neighbour; after an exchange each has two neighbouring units of one group.
VF_DEVICE void StoreGated(const ProductSm90Params& p, int row, int column, int rows, const float (&first)[2],
                          const float (&second)[2]) {
  const bool odd = LaneIndex() % 2 != 0;
  const float mine[2] = {ActivateGate(Activation::kSilu, {}, first[0], first[1]),
                         ActivateGate(Activation::kSilu, {}, second[0], second[1])};
  const float other = ShuffleXor(odd ? mine[0] : mine[1], 1);
  const uint32_t word = odd ? PackBf16(other, mine[1]) : PackBf16(mine[0], other);
  // The units of the even lane and the odd one, of the first group; of the second four units on.
  const int unit = (column + LaneIndex() % 4 / 2 * 4) / 2 + (odd ? 4 : 0);
  if (row < rows && 2 * unit < p.outputs) {
    StorePair(static_cast<uint16_t*>(p.out) + WideProduct(row, p.outputs / 2) + unit, word);
  }
}

// `row` and `column` are the first of the warp's 16 rows and of the tile.
template <int kOutputs, ProductEpilogue kEpilogue>
VF_DEVICE void StoreTile(const ProductSm90Params& p, int row, int column, const float (&sums)[kOutputs / 8][4]) {
  const FragmentIndex at = FragmentC(LaneIndex(), 0);
  VF_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int own = row + at.row + 8 * half;
    if constexpr (kEpilogue == ProductEpilogue::kGated) {
      VF_UNROLL
      for (int n = 0; n < kOutputs / 8; n += 2) {
        StoreGated(p, own, column + 8 * n, p.rows, {sums[n][2 * half], sums[n][2 * half + 1]},
                   {sums[n + 1][2 * half], sums[n + 1][2 * half + 1]});
      }
    } else {
      const size_t first = WideProduct(own, p.outputs) + column + at.column;
      if (own < p.rows) {
        VF_UNROLL
        for (int n = 0; n < kOutputs / 8; ++n) {
          if (column + 8 * n < p.outputs)
            StorePairOfSums<kEpilogue>(p, first + 8 * n, sums[n][2 * half], sums[n][2 * half + 1]);
        }
      }
    }
  }
}

template <int kOutputs, ProductEpilogue kEpilogue>
VF_DEVICE void ConsumeStages(const ProductSm90Params& p, int consumer) {
  using Memory = Sm90ProductMemory<kOutputs>;
  const bool leads = ThreadX() % kWarpgroupThreads == 0;
  const int steps = CeilDivide(p.inner, kSm90ProductColumns), tiles = p.grid.tiles();
  const uint32_t first = SharedAddress(0) / 16;
  RingPlace<kSm90ProductStages> at;
  float sums[kOutputs / 8][4];
  // The products of a stage's columns, which are committed as a group.
  const auto multiply = [&](bool adds) {
    const uint32_t stage = first + at.slot * (Memory::kStageBytes / 16);
    VF_UNROLL
    for (int k = 0; k < kSm90ProductColumns / 16; ++k) {
      StartProduct(OperandDescriptor(stage + (consumer * Memory::kRowBytes / kSm90Consumers + k * 32) / 16, 64, 16),
                   OperandDescriptor(stage + (Memory::kRowBytes + k * 32) / 16, 64, 16), adds || k > 0, sums);
    }
    CommitProducts(Sm90Step::kCommitStage);
  };
  const auto release = [&](Sm90Step step, int slot) {
    if (leads) Arrive(step, EmptyBarrier(Memory::kBarriers, slot));
  };
  VF_UNROLL_BY(1)
  for (int tile = BlockX(); tile < tiles; tile += p.grid.block_count) {
    AwaitPhase(Sm90Step::kAwaitFirstStage, FullBarrier(Memory::kBarriers, at.slot), at.parity);
    Pin(Sm90Step::kPinSums, sums);
    FenceProducts(Sm90Step::kFenceSums);
    multiply(false);
    at.Next();
    VF_UNROLL_BY(1)
    for (int step = 1; step < steps; ++step) {
      AwaitPhase(Sm90Step::kAwaitStage, FullBarrier(Memory::kBarriers, at.slot), at.parity);
      FenceProducts(Sm90Step::kFenceStage);
      multiply(true);
      // The stage before this one has been read.
      WaitProducts<1>(Sm90Step::kWaitStage);
      release(Sm90Step::kReleaseStage, at.Previous().slot);
      at.Next();
    }
    WaitProducts<0>(Sm90Step::kWaitSums, sums);
    release(Sm90Step::kReleaseLastStage, at.Previous().slot);
    const Sm90ProductPlace place = Sm90ProductPlaceOf(p.grid, tile);
    StoreTile<kOutputs, kEpilogue>(p, place.row_tile * kSm90ProductRows + consumer * 64 + WarpIndex() % 4 * 16,
                                   place.output_tile * kOutputs, sums);
  }
}

template <int kOutputs, ProductEpilogue kEpilogue>
VF_KERNEL(kSm90Threads, 1)
ProductSm90Kernel(VF_PARAMS(ProductSm90Params) p) {
  FollowPreviousLaunch();
  InitProductBarriers<Sm90ProductMemory<kOutputs>>();
  // No role returns early: setmaxnreg needs all of a warpgroup.
  const int warpgroup = WarpgroupIndex();
  if (warpgroup == 0) {
    TakeFewerRegisters<kProductProducerRegisters>(Sm90Step::kFewerProductRegisters);
    if (ThreadX() == 0) CopyStages<kOutputs>(p);
  } else {
    TakeMoreRegisters<kProductConsumerRegisters>(Sm90Step::kMoreProductRegisters);
    ConsumeStages<kOutputs, kEpilogue>(p, warpgroup - 1);
  }
}

template <int kOutputs, ProductEpilogue kEpilogue>
int StartProductSm90(const ProductSm90Params& p, LaunchStream stream) {
  return VF_LAUNCH((ProductSm90Kernel<kOutputs, kEpilogue>), p.grid.block_count, 1, 1, kSm90Threads,
                   Sm90ProductMemory<kOutputs>::kBytes, stream, p);
}

template <ProductEpilogue kEpilogue>
int StartProductOf(const ProductSm90Params& p, LaunchStream stream) {
  return p.grid.tile_outputs == 256 ? StartProductSm90<256, kEpilogue>(p, stream)
                                    : StartProductSm90<128, kEpilogue>(p, stream);
}

}  // namespace

int LaunchProductSm90(const ProductSm90Params& p, LaunchStream stream) {
  switch (p.epilogue) {
    case ProductEpilogue::kF32:
      return StartProductOf<ProductEpilogue::kF32>(p, stream);
    case ProductEpilogue::kBf16:
      return StartProductOf<ProductEpilogue::kBf16>(p, stream);
    case ProductEpilogue::kResidual:
      return StartProductOf<ProductEpilogue::kResidual>(p, stream);
    default:
      return StartProductOf<ProductEpilogue::kGated>(p, stream);
  }
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
