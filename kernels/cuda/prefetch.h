// Each block of a kernel asks for its share of the weights that later kernels read, before it waits for the previous launch:
// weights depend on none.
#pragma once

#include "kernels/cuda/params.h"

#if defined(__CUDACC__) || defined(VF_EMULATE)
namespace varifocal::kernels::cuda {

inline constexpr int64_t kPrefetchBytes = 32 << 10;  // of one instruction
inline constexpr int64_t kPrefetchUnit = 128;        // a line of the cache

VF_DEVICE void PrefetchAhead(const WeightsAhead& ahead) {
  if (ThreadX() != 0) return;
  const int64_t blocks = BlockCount(), block = LinearBlock();
  for (int i = 0; i < kAheadPieces; ++i) {
    const AheadPiece& piece = ahead.pieces[i];
    const int64_t lines = (piece.bytes + kPrefetchUnit - 1) / kPrefetchUnit;
    const int64_t share = (lines + blocks - 1) / blocks * kPrefetchUnit, end = (block + 1) * share;
    const int64_t last = end < piece.bytes ? end : piece.bytes;
    for (int64_t from = block * share; from < last; from += kPrefetchBytes) {
      PrefetchL2(piece.at + from, static_cast<uint32_t>(last - from < kPrefetchBytes ? last - from : kPrefetchBytes));
    }
  }
}

}  // namespace varifocal::kernels::cuda
#endif
