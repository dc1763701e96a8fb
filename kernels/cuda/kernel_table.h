// One launch function per kernel of the backend: determines grid, shared memory and template instance.
//
// Two tables exist: the device's (kernels compiled by nvcc) and the emulator's (the same sources compiled for the
// host). A launch returns the runtime's error code, 0 when it was queued or kept (launch_list.h).
#pragma once

#include "kernels/cuda/launch_list.h"
#include "kernels/cuda/params.h"

namespace varifocal::kernels::cuda {

enum class ProductType { kF32, kBf16 };

struct KernelTable {
  const char* name;
  int (*embed)(const EmbedParams&, LaunchStream);
  int (*norm)(const NormParams&, LaunchStream);
  int (*residual)(const ResidualParams&, LaunchStream);
  int (*finish)(const FinishParams&, LaunchStream);
  int (*tau)(const TauParams&, LaunchStream);
  int (*route)(const RouteParams&, LaunchStream);
  int (*qkv)(const QkvParams&, LaunchStream);
  int (*attend_prefill)(const AttendParams&, LaunchStream);
  int (*attend_decode)(const AttendParams&, LaunchStream);
  // Parts of attention by groups (attention_gathered.h), in this order.
  int (*gather_window)(const AttendParams&, LaunchStream);
  int (*gather_lists)(const AttendParams&, LaunchStream);
  int (*gather_passes)(const AttendParams&, LaunchStream);
  int (*scores)(const ScoresParams&, LaunchStream);
  int (*matmul_prefill)(const MatmulParams&, ProductType, LaunchStream);
  int (*matmul_decode)(const MatmulParams&, LaunchStream);      // f32, split_count partial products
  int (*product_sm90)(const ProductSm90Params&, LaunchStream);  // compute capability 9.0
  int (*grouped_prefill)(const MatmulParams&, ProductType, LaunchStream);
  int (*grouped_decode)(const MatmulParams&, LaunchStream);  // f32, split_count partial products
  int (*mixture_route)(const MixtureRouteParams&, LaunchStream);
  int (*mixture_list)(const MixtureListParams&, LaunchStream);
  int (*mixture_sum)(const MixtureSumParams&, LaunchStream);
  int (*recurrence)(const RecurrenceParams&, LaunchStream);
  int (*norm_columns)(const NormColumnsParams&, LaunchStream);
  int (*gate)(const GateParams&, LaunchStream);
  int (*clear)(const ClearParams&, LaunchStream);
  int (*layer_inputs)(const LayerInputsParams&, LaunchStream);
  int (*match_streams)(const MatchStreamsParams&, LaunchStream);
  int (*predict_streams)(const PredictStreamsParams&, LaunchStream);
  int (*correct_streams)(const CorrectStreamsParams&, LaunchStream);
  int (*add_to_streams)(const AddToStreamsParams&, LaunchStream);
  int (*cut_gated)(const CutGatedParams&, LaunchStream);
  int (*head_stats)(const HeadStatsParams&, LaunchStream);
  int (*draw)(const DrawParams&, LaunchStream);
  // Where fused_choice.h has them.
  int (*fused_residual)(const FusedResidualParams&, LaunchStream);
  int (*fused_finish)(const FusedFinishParams&, LaunchStream);
  int (*fused_qkv)(const FusedQkvParams&, LaunchStream);
};

// Head dims that attention is compiled for.
inline constexpr int kHeadDims[] = {16, 32, 48, 64, 80, 96, 112, 128, 192, 256, 512};

}  // namespace varifocal::kernels::cuda
