// Prefill attention of kind `sm90`: for compute capability 9.0, by asynchronous products of warpgroups (wgmma).
//
// A block has three warpgroups. Of the first, warp 0 copies whole pages of keys and values into rings (bulk copies), and warps
// 1 to 3 round queries to bf16. The other two consume: each has 64 rows of a tile, keeps scores, weights and outputs in
// registers, and starts the scores of a block before the weighted values of the block before, so that one's softmax runs under
// products. They take turns at starting products. A block of the grid processes several tiles.
//
// Definition: as attention_prefill.h but for the order of sums, so bits differ: key blocks of 128 (64 above head dim 128) at
// multiples of their size; a thread adds a row's weights of even and of odd columns apart, then both, block after block; the
// four threads of a row are added at the end of a segment. Scores are one chain over the head dim, values one over a
// segment's keys, in steps of 16. A block in which a row sees nothing leaves its numbers unchanged, bit for bit.
//
// Source:  Shah et al. 2024, arXiv:2407.08608 (section 3: warp specialisation, overlap of softmax and products).
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/attention_sm90_consumer.h"
#include "kernels/cuda/attention_sm90_producer.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

template <int kDim, typename Mask>
VF_KERNEL(kSm90Threads, 1)
AttendSm90Kernel(VF_PARAMS(AttendParams) p) {
  FollowPreviousLaunch();
  using Memory = Sm90Memory<kDim, Mask::kReadsGroups>;
  using Registers = Sm90Registers<kDim>;
  InitBarriers<Memory>(Mask::kReadsGroups, kSm90QueryThreads, 1);
  // No role returns early: setmaxnreg needs all of a warpgroup.
  const int warpgroup = WarpgroupIndex();
  if (warpgroup == 0) {
    TakeFewerRegisters<Registers::kProducer>(Sm90Step::kFewerRegisters);
    if (WarpIndex() == 0) {
      ProduceKeys<kDim, Mask>(p);
    } else {
      ProduceQueries<kDim, Mask>(p);
    }
  } else {
    TakeMoreRegisters<Registers::kConsumer>(Sm90Step::kMoreRegisters);
    Consume<kDim, Mask, WholePart>(p, warpgroup - 1);
  }
}

}  // namespace

template <int kDim, typename Mask>
int StartSm90(const AttendParams& params, LaunchStream stream) {
  AttendParams p = params;
  p.turns = p.sm90.turns;
  p.sm90_grid = PlanSm90Grid(p.item_count, p.pool.kv_head_count, p.key_count, p.segments_apart, kDim, p.sm90,
                             p.multiprocessor_count);
  const int code = VF_LAUNCH((AttendSm90Kernel<kDim, Mask>), p.sm90_grid.block_count, 1, 1, kSm90Threads,
                             (Sm90Memory<kDim, Mask::kReadsGroups>::kBytes), stream, p);
  if (code != 0 || !p.segments_apart) return code;
  return StartMergeSegments(p, stream);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
