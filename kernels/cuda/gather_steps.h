// Steps of attention by groups with gathered keys by name, for a table of mutants that each leave one out (checks/gathered_checks.cc).
// The device ignores them.
#pragma once

#include "kernels/cuda/simt.h"

namespace varifocal::kernels::cuda {

enum class GatherStep {
  kNone,
  kListSync,      // between the warps' counts and their sums
  kListOrder,     // entries in order of position
  kListBegin,     // a warp's entries after those of the warps before
  kCommitPlaces,  // the places of the first block
  kAwaitPlaces,
  kSyncPlaces,
  kSyncRows,  // between the tile's rows and its queries
  kCommitKeys,
  kAwaitKeys,
  kSyncKeys,
  kOwnSwizzle,   // a copied row's own swizzle is undone
  kZeroPast,     // rows past the tile's last key are not read
  kSeenByRank,   // a row sees keys up to its own
  kLowerGroups,  // pairs of a lower group are left out
  kLoadStates,
  kStoreStates,
  kWindowBegin,     // the window's part begins with the window
  kWindowDisjoint,  // and leaves out pairs with a group in common
  kWindowAwait,
  kWindowSync,
  kWindowRowsBelow,  // only rows that are computed by groups
  kCount
};

#if defined(__CUDACC__)
VF_DEVICE constexpr bool IsOmitted(GatherStep) { return false; }
#elif defined(VF_EMULATE)
inline bool IsOmitted(GatherStep step) { return emulator::OmittedStep() == static_cast<int>(step); }
#endif

}  // namespace varifocal::kernels::cuda
