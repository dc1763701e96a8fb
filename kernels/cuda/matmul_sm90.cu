// Products of kind `sm90`: x [M, K] times weight [N, K] transposed, for compute capability 9.0, by asynchronous products of
// warpgroups (wgmma), with an epilogue.
//
// A block has three warpgroups. One thread of the first copies tiles of x and of the weight into a ring of four stages, by tensor
// maps, which fill what is outside with zeros. The other two consume: each has 64 rows of a tile, its sums in registers. A
// block of the grid computes several tiles; the copies of the next tile run while the present one's sums are stored.
//
// Definition: an element is one chain over K in steps of 16 from its start, the first step without an addend, K filled with zeros to
// a multiple of 64; then the epilogue in f32. So its bits depend neither on the number of rows nor on the tile.
#include "kernels/cuda/matmul_sm90_epilogues.h"
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

template <int kOutputs, typename Epilogue>
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
    const Sm90ProductPlace place = Sm90ProductPlaceOf(p.grid, tile);
    const int row = place.row_tile * kSm90ProductRows + consumer * 64 + WarpIndex() % 4 * 16;
    // What an epilogue loads of its rows is there when the products are.
    const typename Epilogue::Rows rows(p, row);
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
    Epilogue::Store(p, rows, row, place.output_tile * kOutputs, sums);
  }
}

template <int kOutputs, typename Epilogue>
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
    ConsumeStages<kOutputs, Epilogue>(p, warpgroup - 1);
  }
}

template <int kOutputs, typename Epilogue>
int StartProductSm90(const ProductSm90Params& p, LaunchStream stream) {
  return VF_LAUNCH((ProductSm90Kernel<kOutputs, Epilogue>), p.grid.block_count, 1, 1, kSm90Threads,
                   Sm90ProductMemory<kOutputs>::kBytes, stream, p);
}

template <typename Epilogue>
int StartProductOf(const ProductSm90Params& p, LaunchStream stream) {
  return p.grid.tile_outputs == 256 ? StartProductSm90<256, Epilogue>(p, stream)
                                    : StartProductSm90<128, Epilogue>(p, stream);
}
// A row for each head dim that Sm90ProductWritesHeads has, with the tiles of Sm90ProductTile.
int StartProductOfHeads(const ProductSm90Params& p, LaunchStream stream) {
  switch (p.heads.pool.head_dim) {
    case 16:
      return StartProductSm90<128, WriteHeads<16>>(p, stream);
    case 32:
      return StartProductSm90<128, WriteHeads<32>>(p, stream);
    case 64:
      return StartProductOf<WriteHeads<64>>(p, stream);
    case 96:
      return StartProductSm90<192, WriteHeads<96>>(p, stream);
    case 128:
      return StartProductOf<WriteHeads<128>>(p, stream);
    default:
      return StartProductSm90<256, WriteHeads<256>>(p, stream);
  }
}

}  // namespace

int LaunchProductSm90(const ProductSm90Params& p, LaunchStream stream) {
  switch (p.epilogue) {
    case ProductEpilogue::kF32:
      return StartProductOf<StorePairs<ProductEpilogue::kF32>>(p, stream);
    case ProductEpilogue::kBf16:
      return StartProductOf<StorePairs<ProductEpilogue::kBf16>>(p, stream);
    case ProductEpilogue::kResidual:
      return StartProductOf<StorePairs<ProductEpilogue::kResidual>>(p, stream);
    case ProductEpilogue::kHeads:
      return StartProductOfHeads(p, stream);
    default:
      return p.activation == Activation::kSilu ? StartProductOf<StoreGates<Activation::kSilu>>(p, stream)
                                               : StartProductOf<StoreGates<Activation::kGeluTanh>>(p, stream);
  }
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
