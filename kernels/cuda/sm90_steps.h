// The synchronisation points of the sm90 kernels, of attention and of products, by name: for the emulator's reports, and for the
// tables of mutants that leave out or falsify one of them at a time (checks/sm90_checks.cc, checks/sm90_product_checks.cc). The
// device ignores them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace varifocal::kernels::cuda {

// name, and what can go wrong with it: (O)mitted, (P)arity flipped, too few (B)ytes.
#define VF_SM90_STEPS(X)                                                                              \
  X(kInitBarriers, "O")                                                                               \
  X(kPublishBarriers, "O")                                                                            \
  X(kFewerRegisters, "O")                                                                             \
  X(kMoreRegisters, "O")                                                                              \
  /* The work record of a tile, and the counter of tiles. */                                          \
  X(kResetWork, "O")                                                                                  \
  X(kAwaitWorkEmpty, "OP")                                                                            \
  X(kPublishWork, "O")                                                                                \
  X(kAwaitWorkToStage, "OP")                                                                          \
  X(kReleaseStagedWork, "O")                                                                          \
  X(kAwaitWork, "OP")                                                                                 \
  X(kReleaseWork, "O")                                                                                \
  /* Queries. */                                                                                      \
  X(kAwaitQueriesEmpty, "OP")                                                                         \
  X(kFenceQueries, "O")                                                                               \
  X(kPublishQueries, "O")                                                                             \
  X(kAwaitQueries, "OP")                                                                              \
  X(kReleaseQueries, "O")                                                                             \
  /* Keys and values. */                                                                              \
  X(kAwaitKeysEmpty, "OP")                                                                            \
  X(kExpectKeys, "OB")                                                                                \
  X(kCopyKeys, "O")                                                                                   \
  X(kCopyGroups, "O")                                                                                 \
  X(kAwaitFirstKeys, "OP")                                                                            \
  X(kAwaitKeys, "OP")                                                                                 \
  X(kReleaseFirstKeys, "O")                                                                           \
  X(kReleaseKeys, "O")                                                                                \
  X(kAwaitValuesEmpty, "OP")                                                                          \
  X(kZeroTail, "O")                                                                                   \
  X(kFenceTail, "O")                                                                                  \
  X(kExpectValues, "OB")                                                                              \
  X(kCopyValues, "O")                                                                                 \
  X(kAwaitValues, "OP")                                                                               \
  X(kAwaitLastValues, "OP")                                                                           \
  X(kReleaseValues, "O")                                                                              \
  X(kReleaseLastValues, "O")                                                                          \
  /* Products: QK of a segment's first block, of a later one, PV of the block before, of the last. */ \
  X(kPinFirstScores, "O")                                                                             \
  X(kFenceFirst, "O")                                                                                 \
  X(kCommitFirst, "O")                                                                                \
  X(kWaitFirst, "O")                                                                                  \
  X(kPinScores, "O")                                                                                  \
  X(kFenceScores, "O")                                                                                \
  X(kCommitScores, "O")                                                                               \
  X(kPinWeights, "O")                                                                                 \
  X(kPinOutputs, "O")                                                                                 \
  X(kFenceValues, "O")                                                                                \
  X(kCommitValues, "O")                                                                               \
  X(kWaitScores, "O")                                                                                 \
  X(kWaitValues, "O")                                                                                 \
  X(kPinLastWeights, "O")                                                                             \
  X(kPinLastOutputs, "O")                                                                             \
  X(kFenceLast, "O")                                                                                  \
  X(kCommitLast, "O")                                                                                 \
  X(kWaitLast, "O")                                                                                   \
  /* Turns of the two consumers. */                                                                   \
  X(kFirstTurn, "O")                                                                                  \
  X(kAwaitTurn, "O")                                                                                  \
  X(kPassTurn, "O")                                                                                   \
  X(kLastTurn, "O")

// And of the kernel of gathered keys (attention_sm90_gathered.h).
#define VF_SM90_GATHERED_STEPS(X)                                                       \
  X(kCopyGatheredKeys, "O")                                                             \
  X(kCopyGatheredGroups, "O")                                                           \
  X(kCopyGatheredValues, "O")                                                           \
  X(kCommitGathered, "O")                                                               \
  /* A copy is reported after the next one has begun, the last of a tile at its end. */ \
  X(kAwaitGathered, "O")                                                                \
  X(kFenceGathered, "O")                                                                \
  X(kPublishGathered, "O")                                                              \
  X(kAwaitLastGathered, "O")                                                            \
  X(kFenceLastGathered, "O")                                                            \
  X(kPublishLastGathered, "O")

// Of the sm90 product kernel.
#define VF_SM90_PRODUCT_STEPS(X)                                                           \
  X(kInitStages, "O")                                                                      \
  X(kPublishStages, "O")                                                                   \
  X(kFewerProductRegisters, "O")                                                           \
  X(kMoreProductRegisters, "O")                                                            \
  X(kAwaitStageEmpty, "OP")                                                                \
  X(kExpectStage, "OB")                                                                    \
  X(kCopyRows, "O")                                                                        \
  X(kCopyWeights, "O")                                                                     \
  X(kAwaitFirstStage, "OP")                                                                \
  X(kAwaitStage, "OP")                                                                     \
  X(kPinSums, "O")                                                                         \
  X(kFenceSums, "O")                                                                       \
  /* Needed by no rule, since products follow on products; ptxas injects one otherwise. */ \
  X(kFenceStage, "")                                                                       \
  X(kCommitStage, "O")                                                                     \
  X(kWaitStage, "O")                                                                       \
  X(kReleaseStage, "O")                                                                    \
  X(kWaitSums, "O")                                                                        \
  X(kReleaseLastStage, "O")

enum class Sm90Step : int32_t {
#define VF_SM90_STEP(name, faults) name,
  VF_SM90_STEPS(VF_SM90_STEP) VF_SM90_GATHERED_STEPS(VF_SM90_STEP) VF_SM90_PRODUCT_STEPS(VF_SM90_STEP)
#undef VF_SM90_STEP
};

struct Sm90StepRow {
  const char* name;
  const char* faults;
};
inline constexpr Sm90StepRow kSm90Steps[] = {
#define VF_SM90_STEP(name, faults) {#name, faults},
    VF_SM90_STEPS(VF_SM90_STEP) VF_SM90_GATHERED_STEPS(VF_SM90_STEP) VF_SM90_PRODUCT_STEPS(VF_SM90_STEP)
#undef VF_SM90_STEP
};
// Those of gathered keys follow the attention kernel's, then those of the product kernel.
inline constexpr size_t kFirstGatheredStep = static_cast<size_t>(Sm90Step::kCopyGatheredKeys);
inline constexpr size_t kFirstProductStep = static_cast<size_t>(Sm90Step::kInitStages);

// For tests: a mutant of an emulated kernel; `fault` as above, 0 for none.
struct Sm90Mutant {
  Sm90Step step = Sm90Step::kInitBarriers;
  char fault = 0;
};

}  // namespace varifocal::kernels::cuda
