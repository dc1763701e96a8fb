// The table of kernels, of the device or of the emulator, depending on the compiler.

#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda {
namespace VF_TABLE_NAMESPACE {

int LaunchEmbed(const EmbedParams&, LaunchStream);
int LaunchNorm(const NormParams&, LaunchStream);
int LaunchResidual(const ResidualParams&, LaunchStream);
int LaunchFinish(const FinishParams&, LaunchStream);
int LaunchTau(const TauParams&, LaunchStream);
int LaunchQkv(const QkvParams&, LaunchStream);
int LaunchScores(const ScoresParams&, LaunchStream);
int LaunchMatmulPrefill(const MatmulParams&, ProductType, LaunchStream);
int LaunchMatmulDecode(const MatmulParams&, LaunchStream);
int LaunchProductSm90(const ProductSm90Params&, LaunchStream);
int LaunchGroupedPrefill(const MatmulParams&, ProductType, LaunchStream);
int LaunchGroupedDecode(const MatmulParams&, LaunchStream);
int LaunchMixtureRoute(const MixtureRouteParams&, LaunchStream);
int LaunchMixtureList(const MixtureListParams&, LaunchStream);
int LaunchMixtureSum(const MixtureSumParams&, LaunchStream);
int LaunchRecurrence(const RecurrenceParams&, LaunchStream);
int LaunchNormColumns(const NormColumnsParams&, LaunchStream);
int LaunchGate(const GateParams&, LaunchStream);
int LaunchClear(const ClearParams&, LaunchStream);
int LaunchLayerInputs(const LayerInputsParams&, LaunchStream);
int LaunchMatchStreams(const MatchStreamsParams&, LaunchStream);
int LaunchPredictStreams(const PredictStreamsParams&, LaunchStream);
int LaunchCorrectStreams(const CorrectStreamsParams&, LaunchStream);
int LaunchAddToStreams(const AddToStreamsParams&, LaunchStream);
int LaunchCutGated(const CutGatedParams&, LaunchStream);
int LaunchHeadStats(const HeadStatsParams&, LaunchStream);
int LaunchDraw(const DrawParams&, LaunchStream);
int LaunchRoute(const RouteParams&, LaunchStream);
int LaunchGatherLists(const AttendParams&, LaunchStream);
template <int kDim>
int StartGatheredWindow(const AttendParams&, LaunchStream);
template <int kDim>
int StartGatheredPass(const AttendParams&, LaunchStream);
template <int kDim>
int StartGatheredSm90(const AttendParams&, LaunchStream);
int LaunchFusedResidual(const FusedResidualParams&, LaunchStream);
int LaunchFusedFinish(const FusedFinishParams&, LaunchStream);
int LaunchFusedQkv(const FusedQkvParams&, LaunchStream);
template <int kDim, typename Mask>
int StartPrefill(const AttendParams&, LaunchStream);
template <int kDim, typename Mask>
int StartSm90(const AttendParams&, LaunchStream);
template <int kDim, typename Mask>
int StartDecode(const AttendParams&, LaunchStream);

namespace {

using Start = int (*)(const AttendParams&, LaunchStream);

struct Starts {
  Start prefill, decode, sm90;  // the last null: no such kernel
};
struct AttentionRow {
  int head_dim;
  Starts interval, near_or_shared;                // by mask
  Start gather_window, gather_pass, gather_sm90;  // the last null: no such kernel
};

int NoSuchHeadDim(const AttendParams&, LaunchStream) { return 1; }

template <int kDim, typename Mask>
constexpr Starts StartsOf() {
  if constexpr (Sm90Supports(kDim, Mask::kReadsGroups, false)) {
    return {StartPrefill<kDim, Mask>, StartDecode<kDim, Mask>, StartSm90<kDim, Mask>};
  } else {
    return {StartPrefill<kDim, Mask>, StartDecode<kDim, Mask>, nullptr};
  }
}
template <int kDim>
constexpr AttentionRow Row() {
  const Starts interval = StartsOf<kDim, IntervalMask>(), groups = StartsOf<kDim, WindowOrGroupMask>();
  if constexpr (Sm90Supports(kDim, false, false)) {
    return {kDim, interval, groups, StartGatheredWindow<kDim>, StartGatheredPass<kDim>, StartGatheredSm90<kDim>};
  } else if constexpr (GatherSupports(kDim, 1)) {
    return {kDim, interval, groups, StartGatheredWindow<kDim>, StartGatheredPass<kDim>, nullptr};
  } else {
    return {kDim, interval, groups, NoSuchHeadDim, NoSuchHeadDim, nullptr};
  }
}

// One row per head dim, in the order of kHeadDims.
constexpr AttentionRow kRows[] = {Row<16>(),  Row<32>(),  Row<48>(),  Row<64>(),  Row<80>(), Row<96>(),
                                  Row<112>(), Row<128>(), Row<192>(), Row<256>(), Row<512>()};

AttentionRow RowFor(const AttendParams& p) {
  for (const AttentionRow& row : kRows) {
    if (row.head_dim == p.pool.head_dim) return row;
  }
  constexpr Starts kNone = {NoSuchHeadDim, NoSuchHeadDim, nullptr};
  return {0, kNone, kNone, NoSuchHeadDim, NoSuchHeadDim, nullptr};
}
Starts StartsFor(const AttendParams& p) {
  const AttentionRow row = RowFor(p);
  return p.token_groups.words == nullptr ? row.interval : row.near_or_shared;
}

int LaunchAttendPrefill(const AttendParams& p, LaunchStream stream) {
  const Starts starts = StartsFor(p);
  const Start start = p.uses_sm90 ? starts.sm90 : starts.prefill;
  return start == nullptr ? NoSuchHeadDim(p, stream) : start(p, stream);
}
int LaunchAttendDecode(const AttendParams& p, LaunchStream stream) { return StartsFor(p).decode(p, stream); }
int LaunchGatherWindow(const AttendParams& p, LaunchStream stream) { return RowFor(p).gather_window(p, stream); }
int LaunchGatherPasses(const AttendParams& base, LaunchStream stream) {
  const AttentionRow row = RowFor(base);
  AttendParams p = base;
  int code = 0;
  for (p.gather.pass = 0; code == 0 && p.gather.pass < p.gather.top_k; ++p.gather.pass) {
    code = (p.gather.uses_sm90 ? row.gather_sm90 : row.gather_pass)(p, stream);
  }
  return code;
}

}  // namespace

const KernelTable& Table() {
  static const KernelTable table = {"mma",
                                    LaunchEmbed,
                                    LaunchNorm,
                                    LaunchResidual,
                                    LaunchFinish,
                                    LaunchTau,
                                    LaunchRoute,
                                    LaunchQkv,
                                    LaunchAttendPrefill,
                                    LaunchAttendDecode,
                                    LaunchGatherWindow,
                                    LaunchGatherLists,
                                    LaunchGatherPasses,
                                    LaunchScores,
                                    LaunchMatmulPrefill,
                                    LaunchMatmulDecode,
                                    LaunchProductSm90,
                                    LaunchGroupedPrefill,
                                    LaunchGroupedDecode,
                                    LaunchMixtureRoute,
                                    LaunchMixtureList,
                                    LaunchMixtureSum,
                                    LaunchRecurrence,
                                    LaunchNormColumns,
                                    LaunchGate,
                                    LaunchClear,
                                    LaunchLayerInputs,
                                    LaunchMatchStreams,
                                    LaunchPredictStreams,
                                    LaunchCorrectStreams,
                                    LaunchAddToStreams,
                                    LaunchCutGated,
                                    LaunchHeadStats,
                                    LaunchDraw,
                                    LaunchFusedResidual,
                                    LaunchFusedFinish,
                                    LaunchFusedQkv};
  return table;
}

}  // namespace VF_TABLE_NAMESPACE
}  // namespace varifocal::kernels::cuda
