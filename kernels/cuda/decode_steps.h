// Synchronisation points, clears and orders of sums of the decode kernels by name, for a table of mutants that each leave one out or
// turn it around (checks/decode_mutant_checks.cc). The device ignores them.
#pragma once

#include "kernels/cuda/simt.h"

namespace varifocal::kernels::cuda {

// name, and why no test on the emulator can see its mutant; empty where one must.
#define VF_DECODE_STEPS(X)                                                                           \
  /* The last block of a product's columns (last_block.h): what it needs of the blocks before. */    \
  X(kMeetParts, "")                                                                                  \
  X(kFenceParts, "")                                                                                 \
  X(kCountParts, "")                                                                                 \
  X(kExpectParts, "")                                                                                \
  X(kFenceOthersParts, "")                                                                           \
  X(kResetParts, "")                                                                                 \
  X(kMeetLastParts, "")                                                                              \
  /* The same, in the same order, of a row's splits of attention. */                                 \
  X(kMeetSplits, "")                                                                                 \
  X(kFenceSplits, "")                                                                                \
  X(kCountSplits, "")                                                                                \
  X(kExpectSplits, "")                                                                               \
  X(kFenceOthersSplits, "")                                                                          \
  X(kResetSplits, "")                                                                                \
  X(kMeetLastSplits, "")                                                                             \
  /* A group of columns at the end of a product has fewer tiles. */                                  \
  X(kShortGroup, "")                                                                                 \
  /* A partial product. */                                                                           \
  X(kWaitForLaunch, "")                                                                              \
  X(kAskAfterWait, "")                                                                               \
  X(kClearSums, "")                                                                                  \
  X(kCommitStages, "")                                                                               \
  X(kWaitStages, "")                                                                                 \
  X(kSyncStages, "")                                                                                 \
  X(kWaitLastStages, "only groups without copies are left")                                          \
  X(kOrderOfInner, "")                                                                               \
  X(kOrderOfParts, "")                                                                               \
  /* The norm in a product's prologue. */                                                            \
  X(kSyncNorm, "")                                                                                   \
  X(kOrderOfNorm, "")                                                                                \
  X(kClearBelowRows, "no row of a product depends on rows below, and those are not stored")          \
  /* Attention of a split. */                                                                        \
  X(kWaitForQueries, "")                                                                             \
  X(kCommitKeys, "")                                                                                 \
  X(kWaitKeys, "")                                                                                   \
  X(kSyncKeys, "")                                                                                   \
  X(kWaitLastKeys, "only groups without copies are left")                                            \
  X(kClearOutputs, "")                                                                               \
  X(kClearWeights, "")                                                                               \
  X(kSyncReused, "")                                                                                 \
  X(kSyncResults, "")                                                                                \
  X(kOrderOfWarps, "")                                                                               \
  /* The merge of a row's splits. */                                                                 \
  X(kClearMerged, "")                                                                                \
  X(kSyncFactorsRead, "only a row of more than 32 splits, 16K keys, uses the factors' memory twice") \
  X(kSyncFactors, "")                                                                                \
  X(kOrderOfSplits, "")

enum class DecodeStep {
#define VF_DECODE_STEP(name, unseen) name,
  VF_DECODE_STEPS(VF_DECODE_STEP)
#undef VF_DECODE_STEP
};

struct DecodeStepRow {
  const char* name;
  const char* unseen;
};
inline constexpr DecodeStepRow kDecodeSteps[] = {
#define VF_DECODE_STEP(name, unseen) {#name, unseen},
    VF_DECODE_STEPS(VF_DECODE_STEP)
#undef VF_DECODE_STEP
};
// Numbers of steps that the emulator leaves out are those of all tables (gather_steps.h).
inline constexpr int kFirstDecodeStep = 1000;

#if defined(__CUDACC__)
VF_DEVICE constexpr bool IsOmitted(DecodeStep) { return false; }
#elif defined(VF_EMULATE)
inline bool IsOmitted(DecodeStep step) { return emulator::OmittedStep() == kFirstDecodeStep + static_cast<int>(step); }
#endif

#if defined(__CUDACC__) || defined(VF_EMULATE)
// The index-th of `count`, which a mutant counts from the end.
VF_DEVICE int InOrder(DecodeStep step, int index, int count) { return IsOmitted(step) ? count - 1 - index : index; }
#endif

}  // namespace varifocal::kernels::cuda
