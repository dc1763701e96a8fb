#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/wide_product.h"
#include "kernels/cuda/cuda_fusion.h"
#include "kernels/cuda/cuda_gather.h"
#include "kernels/cuda/cuda_head.h"
#include "kernels/cuda/cuda_inspection.h"
#include "kernels/cuda/cuda_mixture.h"
#include "kernels/cuda/cuda_products.h"
#include "kernels/cuda/cuda_recurrence.h"
#include "kernels/cuda/cuda_storage.h"
#include "kernels/cuda/cuda_streams.h"
#include "kernels/cuda/fused_choice.h"
#include "kernels/group_routing.h"

namespace varifocal::kernels::cuda {
namespace {

CudaWorkspace& Own(Workspace& workspace) { return static_cast<CudaWorkspace&>(workspace); }
using cuda::Own;

class CudaBackend final : public CudaStorage {
 public:
  CudaBackend(std::unique_ptr<Runtime> runtime, const BackendOptions& options)
      : CudaStorage(std::move(runtime), options), products_(device_, product_choice_), fusion_(device_, products_) {}

  Error BeginStep(Workspace& workspace, const Batch& batch) override { return Own(workspace).Begin(batch); }
  void EndStep(Workspace& workspace) override { Own(workspace).turn().End(); }
  int64_t StepRowsMax(const Workspace& workspace, int64_t first_position) const override {
    const auto& own = static_cast<const CudaWorkspace&>(workspace);
    if (!own.turn().MustBeSmall()) return own.shape.row_count_max;
    return PieceRowsMax(own.shape, first_position, device_.properties().flops_per_second);
  }

  Error Embed(Workspace& workspace, const EmbedArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    if (Error error = Ready(own); !error.ok()) return error;
    const CudaWeight& table = Own(*args.table);
    const int rows = own.flat.row_count();
    if (Error error = UploadTokens(own, args.tokens, table); !error.ok()) return error;
    EmbedParams p;
    p.table = table.data();
    p.table_stride = table.stride();
    if (args.positions != nullptr) {
      const CudaWeight& positions = Own(*args.positions);
      for (const int32_t position : own.flat.row_positions) {
        VF_CHECK(position < positions.rows(), "a position beyond the position table");
      }
      p.positions = positions.data();
      p.positions_stride = positions.stride();
    }
    p.tokens = own.tokens.as<int32_t>();
    p.row_positions = own.step().row_positions;
    p.multiplier = args.multiplier;
    p.row_count = rows;
    p.width = table.columns();
    p.out = DeviceData<float>(args.out, WideProduct(rows, p.width));
    return Launched(device_.kernels().embed(p, own.stream()), "starting the embedding");
  }

  void QueueWithHead(Workspace& workspace) override {
    CudaWorkspace& own = Own(workspace);
    if (graphs_ && own.flat.batch.phase == Phase::kDecode && own.flat.row_count() <= kGraphRowsMax) own.KeepLaunches();
  }

  Error Clear(Workspace& workspace, Slice slice, size_t bytes) override {
    CudaWorkspace& own = Own(workspace);
    if (Error error = Ready(own); !error.ok()) return error;
    const size_t count = bytes / sizeof(float);
    const ClearParams p{.x = DeviceData<float>(slice, count), .count = count};
    return Launched(device_.kernels().clear(p, own.stream()), "clearing a sum");
  }

  Error Norm(Workspace& workspace, const NormArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    if (Error error = Ready(own); !error.ok()) return error;
    const NormParams p = ParamsOf(own, args);
    if (own.fuses() && args.read_once && Fuses(p)) {
      own.KeepNorm(p);
      return {};
    }
    return Launched(device_.kernels().norm(p, own.stream()), "starting a norm");
  }

  Error FocalTau(Workspace& workspace, const FocalTauArgs& args) override;
  Error RouteGroups(Workspace& workspace, const RouteGroupsArgs& args) override;
  Error QkvRopeWrite(Workspace& workspace, const QkvRopeWriteArgs& args) override;
  Error Attend(Workspace& workspace, const AttendArgs& args) override;

  Error Linear(Workspace& workspace, const LinearArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    const CudaWeight& weight = Own(*args.weight);
    const size_t rows = own.flat.row_count();
    uint16_t* out = DeviceData<uint16_t>(args.out, rows * weight.rows());
    if (args.bias.buffer == nullptr && args.activation == Activation::kNone &&
        own.flat.batch.phase == Phase::kPrefill) {
      // No epilogue, so the product is written to its destination.
      if (Error error = Ready(own); !error.ok()) return error;
      const uint16_t* x = DeviceData<uint16_t>(args.x, rows * weight.columns());
      return products_.InOnePiece(x, own.flat.row_count(), weight, 0, weight.rows(), ProductType::kBf16, out);
    }
    if (args.activation != Activation::kNone) {  // an MLP begins
      if (Error error = own.Yield(); !error.ok()) return error;
    }
    FinishParams p;
    p.activation = args.activation;
    p.terms = args.terms;
    p.out = out;
    return Finish(own, args.x, weight, args.bias, ProductType::kF32, p);
  }
  Error LinearResidual(Workspace& workspace, const LinearResidualArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    const CudaWeight& weight = Own(*args.weight);
    const size_t rows = own.flat.row_count();
    float* residual = DeviceData<float>(args.residual, rows * weight.rows());
    const uint16_t* x = DeviceData<uint16_t>(args.x, rows * weight.columns());
    // The kernel sm90 and the library add to the existing output within the product.
    if (products_.FusesSm90(own, weight, x)) {
      if (Error error = Ready(own); !error.ok()) return error;
      const Error done = products_.BySm90(x, own.flat.row_count(), weight, 0, weight.rows(),
                                          {.epilogue = ProductEpilogue::kResidual,
                                           .bias = OptionalDeviceData<float>(args.bias, weight.rows()),
                                           .multiplier = args.multiplier,
                                           .out = residual});
      return NextNorm(workspace, args.next_norm, done);
    }
    if (args.bias.buffer == nullptr && own.flat.batch.phase == Phase::kPrefill &&
        !products_.TakesSm90(weight, weight.rows(), x)) {
      if (Error error = Ready(own); !error.ok()) return error;
      const int plan = products_.PlanFor(weight, weight.rows(), ProductType::kF32, x);
      if (plan >= 0) {
        const Error done = Launched(device_.runtime().products()->Multiply(plan, own.flat.row_count(), x, weight.data(),
                                                                           args.multiplier, 1.0f, residual),
                                    "starting a product");
        return NextNorm(workspace, args.next_norm, done);
      }
    }
    ResidualParams p;
    p.multiplier = args.multiplier;
    p.residual = residual;
    return AddProduct(own, args.x, weight, args.bias, args.next_norm, p);
  }
  Error LinearGated(Workspace& workspace, const LinearGatedArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    const CudaWeight& weight = Own(*args.weight);
    VF_CHECK(weight.gated(), "LinearGated needs a kGateUp weight");
    if (Error error = own.Yield(); !error.ok()) return error;
    const size_t rows = own.flat.row_count();
    FinishParams p;
    p.mode = FinishMode::kGated;
    p.activation = args.activation;
    p.terms = args.terms;
    p.out = DeviceData<uint16_t>(args.out, rows * weight.rows() / 2);
    const uint16_t* x = DeviceData<uint16_t>(args.x, rows * weight.columns());
    if (Sm90ProductGates(args.activation) && products_.FusesSm90(own, weight, x)) {
      if (Error error = Ready(own); !error.ok()) return error;
      return products_.BySm90(x, own.flat.row_count(), weight, 0, weight.rows(),
                              {.epilogue = ProductEpilogue::kGated,
                               .activation = args.activation,
                               .bias = OptionalDeviceData<float>(args.bias, weight.rows()),
                               .out = p.out});
    }
    return Finish(own, args.x, weight, args.bias, products_.GatedType(weight, x), p);
  }
  Error LinearNormResidual(Workspace& workspace, const LinearNormResidualArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    const CudaWeight& weight = Own(*args.weight);
    const size_t rows = own.flat.row_count();
    ResidualParams p;
    p.norm_weight = DeviceData<float>(args.norm_weight, weight.rows());
    p.norm_epsilon = args.norm_epsilon;
    p.multiplier = args.multiplier;
    p.scale = args.scale;
    p.residual = DeviceData<float>(args.residual, rows * weight.rows());
    return AddProduct(own, args.x, weight, args.bias, args.next_norm, p);
  }
  Error NormResidual(Workspace& workspace, const NormResidualArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    if (Error error = Ready(own); !error.ok()) return error;
    const int width = own.shape.model_dim;
    const size_t count = WideProduct(own.flat.row_count(), width);
    ResidualParams p;
    p.product = {.data = DeviceData<float>(args.x, count), .columns = width};
    p.norm_weight = DeviceData<float>(args.norm_weight, width);
    p.norm_epsilon = args.norm_epsilon;
    p.multiplier = args.multiplier;
    p.scale = args.scale;
    p.residual = DeviceData<float>(args.residual, count);
    p.row_count = own.flat.row_count();
    if (args.next_norm != nullptr) p.next = ParamsOf(own, *args.next_norm);
    return Launched(device_.kernels().residual(p, own.stream()), "adding to the residual");
  }
  Error LayerInputs(Workspace& workspace, const LayerInputsArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    if (Error error = Ready(own); !error.ok()) return error;
    const CudaWeight& table = Own(*args.table);
    LayerInputsParams p;
    p.row_count = own.flat.row_count();
    p.layer_count = args.layer_count;
    p.width = static_cast<int>(table.columns() / args.layer_count);
    const size_t count = WideProduct(p.row_count, table.columns());
    if (Error error = UploadTokens(own, args.tokens, table); !error.ok()) return error;
    p.projected = DeviceData<uint16_t>(args.projected, count);
    p.norm_weight = DeviceData<float>(args.norm_weight, p.width);
    p.norm_epsilon = args.norm_epsilon;
    p.table = table.data();
    p.table_stride = table.stride();
    p.tokens = own.tokens.as<int32_t>();
    p.multiplier = args.multiplier;
    p.factor = args.factor;
    p.out = DeviceData<uint16_t>(args.out, count);
    return Launched(device_.kernels().layer_inputs(p, own.stream()), "starting the inputs of layers");
  }

  Error MatchStreams(Workspace& workspace, const MatchStreamsArgs& args) override {
    return RunReady(workspace, RunMatchStreams, args);
  }
  Error PredictStreams(Workspace& workspace, const PredictStreamsArgs& args) override {
    return NextNorm(workspace, args.next_norm, RunReady(workspace, RunPredictStreams, args));
  }
  Error CorrectStreams(Workspace& workspace, const CorrectStreamsArgs& args) override {
    return RunReady(workspace, RunCorrectStreams, args);
  }
  Error AddToStreams(Workspace& workspace, const AddToStreamsArgs& args) override {
    return RunReady(workspace, RunAddToStreams, args);
  }
  Error CutGated(Workspace& workspace, const CutGatedArgs& args) override {
    return RunReady(workspace, RunCutGated, args);
  }

  Error Mixture(Workspace& workspace, const MixtureArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    if (Error error = own.Yield(); !error.ok()) return error;
    if (Error error = Ready(own); !error.ok()) return error;
    return RunMixture(device_, products_, own, args,
                      args.next_norm == nullptr ? NormParams{} : ParamsOf(own, *args.next_norm));
  }

  Error NormColumns(Workspace& workspace, const NormColumnsArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    if (Error error = Ready(own); !error.ok()) return error;
    const NormColumnsParams p{.x = DeviceData<uint16_t>(args.x, WideProduct(own.flat.row_count(), args.columns)),
                              .weight = DeviceData<float>(args.weight, args.count),
                              .row_count = own.flat.row_count(),
                              .stride = args.columns,
                              .count = args.count,
                              .epsilon = args.epsilon};
    return Launched(device_.kernels().norm_columns(p, own.stream()), "starting a norm");
  }
  Error ApplyGate(Workspace& workspace, const ApplyGateArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    if (Error error = Ready(own); !error.ok()) return error;
    GateParams p;
    p.count = WideProduct(own.flat.row_count(), args.columns);
    p.sigmoid = args.sigmoid;
    p.gate = DeviceData<uint16_t>(args.gate, p.count);
    p.x = DeviceData<uint16_t>(args.x, p.count);
    return Launched(device_.kernels().gate(p, own.stream()), "starting a gate");
  }
  Error Recur(Workspace& workspace, const RecurArgs& args) override {
    if (Error error = Own(workspace).Yield(); !error.ok()) return error;
    return RunReady(workspace, RunRecurrence, args);
  }

  Error LmHead(Workspace& workspace, const LmHeadArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    if (Error error = Ready(own); !error.ok()) return error;
    return RunHead(device_, products_, own, args);
  }
  Error InspectAttention(Workspace& workspace, const InspectAttentionArgs& args) override {
    CudaWorkspace& own = Own(workspace);
    if (Error error = Ready(own); !error.ok()) return error;
    const AttendArgs& attend = args.attend;
    return RunInspection(*this, own, ViewOf(own, *attend.pool, attend.layer, attend.page_group), args);
  }

 private:
  // Whether an operation may begin; a norm that waits is run before one that does not take it (cuda_fusion.h).
  Error Ready(CudaWorkspace& workspace) {
    const Error error = ReadyToFuse(workspace);
    return error.ok() ? workspace.RunWaitingNorm() : error;
  }
  Error ReadyToFuse(const CudaWorkspace& workspace) {
    if (Error error = device_.Fault(); !error.ok()) return error;
    return IsCancelled(workspace.flat.batch) ? CancelledError() : Error{};
  }
  // An operation in a file of its own.
  template <typename Args>
  Error RunReady(Workspace& workspace, Error (*run)(Device&, CudaWorkspace&, const Args&), const Args& args) {
    CudaWorkspace& own = Own(workspace);
    Error error = Ready(own);
    return error.ok() ? run(device_, own, args) : error;
  }
  Error Launched(int code, const char* doing) { return device_.Check(code, doing); }

  // A token for each row of the step, for rows of the table.
  Error UploadTokens(CudaWorkspace& workspace, std::span<const int32_t> tokens, const CudaWeight& table) {
    VF_CHECK(std::ssize(tokens) == workspace.flat.row_count(), "one token per row");
    for (const int32_t token : tokens) {
      VF_CHECK(token >= 0 && token < table.rows(), "a token id outside the vocabulary");
    }
    return device_.Upload(workspace.tokens.as(), tokens.data(), tokens.size_bytes());
  }

  static ProductOf Of(const CudaWorkspace& workspace, const Slice& x, const CudaWeight& weight, const Slice& bias) {
    return {.x = DeviceData<uint16_t>(x, WideProduct(workspace.flat.row_count(), weight.columns())),
            .weight = &weight,
            .bias = OptionalDeviceData<float>(bias, weight.rows())};
  }

  static NormParams ParamsOf(const CudaWorkspace& workspace, const NormArgs& args) {
    NormParams p = NormOf(args.kind, args.weight, args.bias, args.epsilon, workspace.shape.model_dim);
    p.row_count = workspace.flat.row_count();
    const size_t count = WideProduct(p.row_count, p.width);
    p.x = DeviceData<float>(args.x, count);
    p.out = DeviceData<uint16_t>(args.out, count);
    return p;
  }

  Error AddProduct(CudaWorkspace& workspace, const Slice& x, const CudaWeight& weight, const Slice& bias,
                   const NormArgs* next_norm, ResidualParams& p) {
    if (Error error = ReadyToFuse(workspace); !error.ok()) return error;
    const NormParams next = next_norm == nullptr ? NormParams{} : ParamsOf(workspace, *next_norm);
    return fusion_.Residual(workspace, Of(workspace, x, weight, bias), p, next,
                            next_norm != nullptr && next_norm->read_once);
  }

  // The product, then the epilogue in `p`.
  Error Finish(CudaWorkspace& workspace, const Slice& x, const CudaWeight& weight, const Slice& bias, ProductType type,
               FinishParams& p) {
    if (Error error = ReadyToFuse(workspace); !error.ok()) return error;
    return fusion_.Finish(workspace, Of(workspace, x, weight, bias), type, p);
  }

  PoolView ViewOf(const CudaWorkspace& workspace, const KvPool& pool, int layer, int page_group) {
    PoolView view = static_cast<const CudaPool&>(pool).view(layer);
    view.table_starts = workspace.table_starts(page_group);
    return view;
  }

  static void CheckAnnotation(const KvPool& pool, int offset, int bytes) {
    VF_CHECK(offset >= 0 && offset + bytes <= static_cast<const CudaPool&>(pool).shape().annotation_bytes,
             "the pool has no such annotation");
  }

  CudaProducts products_;
  CudaFusion fusion_;
};

Error CudaBackend::FocalTau(Workspace& workspace, const FocalTauArgs& args) {
  CudaWorkspace& own = Own(workspace);
  if (Error error = Ready(own); !error.ok()) return error;
  const size_t rows = own.flat.row_count();
  if (Error error = CheckTauRows(own.flat.batch, args.mean); !error.ok()) return error;
  TauParams p;
  p.step = own.step();
  p.pool = ViewOf(own, *args.pool, args.layer, args.page_group);
  CheckAnnotation(*args.pool, args.annotation_offset, kTauAnnotationBytes);
  p.annotation_offset = args.annotation_offset;
  p.width = own.shape.model_dim;
  p.x = DeviceData<uint16_t>(args.x, rows * p.width);
  p.weight = DeviceData<float>(args.weight, p.width);
  p.bias = args.bias;
  p.tau_min = args.tau_min;
  p.tau_max = args.tau_max;
  p.mean = args.mean;
  p.raw = own.row_numbers.as<float>();
  p.scales = DeviceData<float>(args.row_scales, rows);
  p.bound_counts = OptionalDeviceData<uint32_t>(args.bound_counts, own.flat.batch.sequences.size() * 2);
  return Launched(device_.kernels().tau(p, own.stream()), "starting the learned temperature");
}

Error CudaBackend::RouteGroups(Workspace& workspace, const RouteGroupsArgs& args) {
  CudaWorkspace& own = Own(workspace);
  if (Error error = Ready(own); !error.ok()) return error;
  if (Error error = CheckRoute(own.flat.batch, args); !error.ok()) return error;
  CheckAnnotation(*args.pool, args.annotation_offset, GroupAnnotationBytes(args.bias, args.group_count));
  const size_t rows = own.flat.row_count();
  VF_CHECK(own.group_scores.bytes() >= rows * args.group_count * sizeof(float), "the workspace was planned for groups");
  RouteParams p;
  p.step = own.step();
  p.pool = ViewOf(own, *args.pool, args.layer, args.page_group);
  p.width = own.shape.model_dim;
  p.routing_dim = args.routing_dim;
  p.group_count = args.group_count;
  p.top_k = args.top_k;
  p.x = DeviceData<uint16_t>(args.x, rows * p.width);
  p.projection = DeviceData<float>(args.projection, WideProduct(p.routing_dim, p.width));
  p.centroids = DeviceData<float>(args.centroids, WideProduct(p.group_count, p.routing_dim));
  if (args.bias == GroupBias::kStored) p.group_bias = DeviceData<float>(args.group_bias, p.group_count);
  p.temperature = args.temperature;
  p.bias = args.bias;
  const GroupAnnotationOffsets offsets = GroupAnnotationOffsetsOf(args.annotation_offset);
  p.groups_offset = offsets.groups;
  p.bias_offset = offsets.bias;
  p.scores_offset = offsets.scores;
  // One for the prompt, or one for each page that a sequence starts.
  p.bias_count = args.bias == GroupBias::kPrompt ? 1 : 0;
  for (const SequenceRows& sequence : own.flat.batch.sequences) {
    if (args.bias != GroupBias::kPaged) break;
    p.bias_count = std::max(p.bias_count, CeilDivide(sequence.first_position + sequence.row_count, kPageTokens) -
                                              CeilDivide(sequence.first_position, kPageTokens));
  }
  p.scores = own.group_scores.as<float>();
  return Launched(device_.kernels().route(p, own.stream()), "starting the routing of groups");
}

Error CudaBackend::QkvRopeWrite(Workspace& workspace, const QkvRopeWriteArgs& args) {
  CudaWorkspace& own = Own(workspace);
  const CudaWeight& weight = Own(*args.weight);
  const int rows = own.flat.row_count();
  if (Error error = own.Yield(); !error.ok()) return error;
  if (Error error = ReadyToFuse(own); !error.ok()) return error;
  QkvParams p;
  p.step = own.step();
  p.pool = ViewOf(own, *args.pool, args.layer, args.page_group);
  const int dim = p.pool.head_dim, heads = args.query_head_count;
  const int kv_heads = args.queries_alone ? 0 : p.pool.kv_head_count;
  VF_CHECK(weight.rows() == static_cast<int64_t>(heads + 2 * kv_heads) * dim, "the weight has (H + 2K) D rows");
  p.query_norm = OptionalDeviceData<float>(args.query_norm, args.norm_over_width ? heads * dim : dim);
  p.key_norm = OptionalDeviceData<float>(args.key_norm, args.norm_over_width ? kv_heads * dim : dim);
  p.value_norm = OptionalDeviceData<float>(args.value_norm, dim);
  p.norm_over_width = args.norm_over_width;
  p.norm_after_rotation = args.norm_after_rotation;
  p.norm_epsilon = args.norm_epsilon;
  p.clip = args.clip;
  p.query_head_count = heads;
  p.kv_head_count = kv_heads;
  if (args.rope_tables.size() > kRopeTablesMax) {
    return {ErrorCode::kInvalidArgument, "a step of " + std::to_string(args.rope_tables.size()) +
                                             " rotary tables exceeds " + std::to_string(kRopeTablesMax)};
  }
  for (size_t i = 0; i < args.rope_tables.size(); ++i) {
    p.ropes[i] = static_cast<const CudaRopeTable*>(args.rope_tables[i])->view();
  }
  if (!args.rope_tables.empty()) {
    p.sequence_ropes = own.sequence_ropes();
    for (const SequenceRows& sequence : own.flat.batch.sequences) {
      VF_CHECK(sequence.row_count == 0 || sequence.first_position + sequence.row_count <=
                                              args.rope_tables[sequence.rope_table]->position_count(),
               "a position beyond the rope table");
    }
  }
  p.queries = DeviceData<float>(args.queries, WideProduct(rows, heads, dim));
  return fusion_.Qkv(own, Of(own, args.x, weight, args.bias), p);
}

Error CudaBackend::Attend(Workspace& workspace, const AttendArgs& args) {
  CudaWorkspace& own = Own(workspace);
  if (Error error = Ready(own); !error.ok()) return error;
  const size_t rows = own.flat.row_count(), heads = args.query_head_count;
  AttendParams p;
  p.step = own.step();
  p.pool = ViewOf(own, *args.pool, args.layer, args.page_group);
  const AttentionWork work = own.attention(args.mask_index);
  VF_CHECK(args.query_head_count == own.shape.query_head_count && p.pool.head_dim == work.heads.head_dim &&
               p.pool.kv_head_count == work.heads.kv_head_count,
           "the workspace was planned for this model");
  p.mask = work.mask;
  p.item_count = work.count;
  if (args.groups != nullptr) {
    CheckAnnotation(*args.pool, args.groups->annotation_offset, sizeof(uint32_t));
    const size_t offset = GroupAnnotationOffsetsOf(args.groups->annotation_offset).groups;
    p.token_groups = {.words = reinterpret_cast<const TokenGroups*>(p.pool.annotations + offset),
                      .page_stride = p.pool.annotation_stride / static_cast<int>(sizeof(uint32_t)),
                      .window = args.groups->window};
  }
  p.queries = DeviceData<float>(args.queries, rows * heads * p.pool.head_dim);
  p.row_scales = OptionalDeviceData<float>(args.row_scales, rows);
  p.head_scales = OptionalDeviceData<float>(args.head_scales, heads);
  p.scale = args.scale;
  p.soft_cap = args.soft_cap;
  p.sink = args.sink;
  p.sinks = OptionalDeviceData<float>(args.sinks, heads);
  p.query_head_count = args.query_head_count;
  p.queries_per_kv = args.query_head_count / p.pool.kv_head_count;
  p.out = DeviceData<uint16_t>(args.out, rows * heads * p.pool.head_dim);
  p.log_sum_exp = OptionalDeviceData<float>(args.log_sum_exp, rows * heads);
  p.partials = own.partials.as<float>();
  p.shared_bytes_max = device_.properties().shared_bytes_max;
  p.multiprocessor_count = device_.properties().multiprocessor_count;
  if (own.flat.batch.phase == Phase::kPrefill) {
    p.uses_sm90 = attention_.UsesSm90(p.pool.head_dim, args.groups != nullptr, p.soft_cap > 0);
    p.sm90 = attention_.tuning;
    p.sm90_taken = work.sm90_taken;
    p.tiles = p.uses_sm90 ? work.sm90_tiles : work.tiles;
    p.item_count = p.uses_sm90 ? work.sm90_count : work.count;
    p.key_count = work.key_count;
    p.segment_count = CeilDivide(work.key_count, kSegmentKeys);
    p.segments_apart = p.uses_sm90 ? work.sm90_segments_apart : work.segments_apart;
    if (attention_.gathered && args.groups != nullptr && args.groups->gather_from < INT32_MAX &&
        GatherSupports(p.pool.head_dim, args.groups->top_k)) {
      p.gather.uses_sm90 = attention_.UsesSm90(p.pool.head_dim, false, p.soft_cap > 0);
      return RunAttentionByGroups(device_, own, *args.groups, work, p);
    }
    return Launched(device_.kernels().attend_prefill(p, own.stream()), "starting attention");
  }
  p.items = work.items;
  p.item_rows = work.item_rows;
  p.split_count_max = own.split_count_max();
  const size_t counters = rows * heads * ValueParts(p.pool.head_dim);
  if (own.fuses() && work.all_see_keys && counters <= kCounterCount) p.arrived = own.arrived();
  p.ahead = own.Ahead(false);
  return Launched(device_.kernels().attend_decode(p, own.stream()), "starting attention");
}

}  // namespace

Result<std::unique_ptr<Backend>> CreateBackendOn(std::unique_ptr<Runtime> runtime, int index,
                                                 const BackendOptions& options) {
  if (options.dtype != DType::kBF16) {
    return Error{ErrorCode::kUnsupported,
                 std::string("the cuda backend computes in bf16, not ") + DTypeName(options.dtype)};
  }
  auto backend = std::make_unique<CudaBackend>(std::move(runtime), options);
  if (Error error = backend->Open(index); !error.ok()) return error;
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace varifocal::kernels::cuda
