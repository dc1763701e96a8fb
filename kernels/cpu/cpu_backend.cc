#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/wide_product.h"
#include "kernels/cpu/cpu_attention.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/cpu_layers.h"
#include "kernels/cpu/cpu_lm_head.h"
#include "kernels/cpu/cpu_matmul.h"
#include "kernels/cpu/cpu_mixture.h"
#include "kernels/cpu/cpu_recurrence.h"
#include "kernels/cpu/cpu_streams.h"
#include "kernels/cpu/cpu_workspace.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/page_pool.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/group_routing.h"
#include "kernels/host_backend.h"
#include "kernels/state_pool.h"

namespace varifocal::kernels {
namespace cpu {
namespace {

// Rows of one work item for cheap rows.
constexpr int kRowsPerItem = 16;
constexpr int kThreadsMax = 1024;

CpuWorkspace& Cast(Workspace& workspace) { return static_cast<CpuWorkspace&>(workspace); }
const PackedWeight& Cast(const Weight& weight) { return static_cast<const PackedWeight&>(weight); }

Error OkUnlessCancelled(bool finished) { return finished ? Error{} : CancelledError(); }

void Rotate(const HostRopeTable& table, int position, float* head) {
  const int half = table.rotary_dim() / 2;
  const float* cosines = table.cosines(position);
  const float* sines = table.sines(position);
  for (int i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + half] = b * cosines[i] + a * sines[i];
  }
}

class CpuBackend final : public HostBackend {
 public:
  CpuBackend(const KernelTable& kernels, const BackendOptions& options, int threads)
      : kernels_(kernels), pool_(threads) {
    info_.name = std::string("cpu-") + kernels.isa + "-" + DTypeName(options.dtype);
    info_.device = CpuModelName();
    info_.dtype = options.dtype;
    info_.thread_count = threads;
    info_.gathers_groups = true;
    info_.gather_costs = HostGatherCosts(options.dtype);
    info_.notes = options.notes;
    info_.notes.push_back("computing with " + std::string(kernels.isa) + " in " + DTypeName(options.dtype) + " on " +
                          std::to_string(threads) + (threads == 1 ? " thread" : " threads"));
    if (threads > UsableCores()) {
      info_.notes.push_back(std::to_string(threads) + " threads are more than the " + std::to_string(UsableCores()) +
                            " cores this process may use; expect it to be slower");
    }
  }

  Result<std::unique_ptr<Weight>> CreateWeight(std::span<const HostMatrix> parts, WeightUse use) override {
    return PackedWeight::Create(parts, use, kernels_);
  }
  Result<std::unique_ptr<Weight>> CreateExperts(std::span<const HostMatrix> parts, int expert_count,
                                                WeightUse use) override {
    return PackedExperts::Create(parts, expert_count, use, kernels_);
  }

  Error CheckShape(const KvShape& shape) const override {
    if (shape.holds_states()) return {};
    if (shape.head_dim <= 0 || shape.head_dim > kHeadDimMax) {
      return {ErrorCode::kUnsupported, "the cpu backend has no kernel for head dim " + std::to_string(shape.head_dim) +
                                           ", only for 1 to " + std::to_string(kHeadDimMax)};
    }
    return {};
  }
  size_t KvBytesPerPageAndLayer(const KvShape& shape) const override {
    if (shape.holds_states()) return StatePool<float>::BytesPerPageAndLayer(shape);
    return PagePool::BytesPerPageAndLayer(shape, info_.dtype);
  }
  Result<std::unique_ptr<KvPool>> CreateKvPool(const KvShape& shape, int page_count) override {
    if (Error error = CheckShape(shape); !error.ok()) return error;
    if (shape.holds_states()) return StatePool<float>::Create(shape, page_count);
    return PagePool::Create(shape, info_.dtype, page_count);
  }
  Error CopyPage(KvPool& pool, int from, int to) override {
    if (auto* states = dynamic_cast<StatePool<float>*>(&pool); states != nullptr) {
      states->CopyPage(from, to);
    } else {
      static_cast<PagePool&>(pool).CopyPage(from, to);
    }
    return {};
  }
  Error ReadPage(const KvPool& pool, int layer, int page, int row_count, float* keys, float* values) override {
    const auto& own = static_cast<const PagePool&>(pool);
    const KvShape& shape = own.shape();
    for (int row = 0; row < row_count; ++row) {
      for (int head = 0; head < shape.kv_head_count; ++head) {
        const size_t to = (WideProduct(row, shape.kv_head_count) + head) * shape.head_dim;
        own.ReadKey(layer, page, row, head, keys + to);
        own.ReadValue(layer, page, row, head, values + to);
      }
    }
    return {};
  }
  Error ReadGroups(const KvPool& pool, int layer, std::span<const int32_t> pages, int annotation_offset,
                   std::span<uint32_t> groups) override {
    const auto& own = static_cast<const PagePool&>(pool);
    CopyGroups(
        pages, annotation_offset, [&](int32_t page) { return own.annotations(layer, page); }, groups);
    return {};
  }

  size_t WorkspaceBytes(const StepShape& shape) const override {
    return CpuWorkspace::SizesFor(shape, kernels_).total_bytes(pool_.thread_count());
  }
  Result<std::unique_ptr<Workspace>> CreateWorkspace(const StepShape& shape) override {
    return CpuWorkspace::Create(shape, kernels_, pool_.thread_count());
  }
  Error BeginStep(Workspace& workspace, const Batch& batch) override {
    return Cast(workspace).flat.Assign(batch, Cast(workspace).shape);
  }

  Error Embed(Workspace& workspace, const EmbedArgs& args) override {
    const PackedWeight& table = Cast(*args.table);
    const FlatBatch& flat = Cast(workspace).flat;
    VF_CHECK(std::ssize(args.tokens) == flat.row_count(), "one token per row");
    const int64_t width = table.columns();
    float* out = HostData<float>(args.out, flat.row_count() * width);
    return EachRow(flat, [&](int row, int) {
      VF_CHECK(args.tokens[row] >= 0 && args.tokens[row] < table.rows(), "token id outside the vocabulary");
      float* to = out + row * width;
      table.ReadRow(args.tokens[row], to);
      if (args.multiplier != 1.0f) {
        for (int64_t i = 0; i < width; ++i) to[i] *= args.multiplier;
      }
      if (args.positions == nullptr) return;
      VF_CHECK(flat.row_positions[row] < args.positions->rows(), "a position beyond the position table");
      Cast(*args.positions).AddRow(flat.row_positions[row], to);
    });
  }

  Error Norm(Workspace& workspace, const NormArgs& args) override {
    const FlatBatch& flat = Cast(workspace).flat;
    const int64_t width = Cast(workspace).shape.model_dim;
    const float* x = HostData<float>(args.x, flat.row_count() * width);
    const float* weight = OptionalHostData<float>(args.weight, width);
    VF_CHECK(weight != nullptr || args.kind == NormKind::kNone, "a norm has a weight");
    const float* bias = OptionalHostData<float>(args.bias, width);
    float* out = HostData<float>(args.out, flat.row_count() * width);
    return EachRow(flat, [&](int row, int) {
      kernels_.norm_row({.kind = args.kind,
                         .x = x + row * width,
                         .weight = weight,
                         .bias = bias,
                         .width = width,
                         .epsilon = args.epsilon,
                         .out = out + row * width});
    });
  }

  Error FocalTau(Workspace& workspace, const FocalTauArgs& args) override;
  Error RouteGroups(Workspace& workspace, const RouteGroupsArgs& args) override;
  Error QkvRopeWrite(Workspace& workspace, const QkvRopeWriteArgs& args) override;

  Error Attend(Workspace& workspace, const AttendArgs& args) override {
    return OkUnlessCancelled(RunAttention(kernels_, pool_, Cast(workspace), args));
  }

  Error Linear(Workspace& workspace, const LinearArgs& args) override {
    const PackedWeight& weight = Cast(*args.weight);
    const int rows = Cast(workspace).flat.row_count();
    return Multiply(workspace, {.x = HostData<float>(args.x, rows * weight.columns()),
                                .weight = &weight,
                                .row_count = rows,
                                .epilogue = Epilogue::kStore,
                                .activation = args.activation,
                                .terms = args.terms,
                                .bias = OptionalHostData<float>(args.bias, weight.rows()),
                                .out = HostData<float>(args.out, rows * weight.rows())});
  }
  Error LinearResidual(Workspace& workspace, const LinearResidualArgs& args) override {
    const PackedWeight& weight = Cast(*args.weight);
    const int rows = Cast(workspace).flat.row_count();
    const MatmulArgs product{.x = HostData<float>(args.x, rows * weight.columns()),
                             .weight = &weight,
                             .row_count = rows,
                             .epilogue = Epilogue::kResidual,
                             .bias = OptionalHostData<float>(args.bias, weight.rows()),
                             .multiplier = args.multiplier,
                             .out = HostData<float>(args.residual, rows * weight.rows())};
    return NextNorm(workspace, args.next_norm, Multiply(workspace, product));
  }
  Error LinearNormResidual(Workspace& workspace, const LinearNormResidualArgs& args) override;
  Error NormResidual(Workspace& workspace, const NormResidualArgs& args) override {
    const Error done = OkUnlessCancelled(RunNormResidual(kernels_, pool_, Cast(workspace), args));
    return NextNorm(workspace, args.next_norm, done);
  }
  Error LayerInputs(Workspace& workspace, const LayerInputsArgs& args) override {
    return OkUnlessCancelled(RunLayerInputs(kernels_, pool_, Cast(workspace), args));
  }
  Error MatchStreams(Workspace& workspace, const MatchStreamsArgs& args) override {
    return OkUnlessCancelled(RunMatchStreams(kernels_, pool_, Cast(workspace), args));
  }
  Error PredictStreams(Workspace& workspace, const PredictStreamsArgs& args) override {
    const bool finished = RunPredictStreams(kernels_, pool_, Cast(workspace), args);
    return NextNorm(workspace, args.next_norm, OkUnlessCancelled(finished));
  }
  Error CorrectStreams(Workspace& workspace, const CorrectStreamsArgs& args) override {
    return OkUnlessCancelled(RunCorrectStreams(kernels_, pool_, Cast(workspace), args));
  }
  Error AddToStreams(Workspace& workspace, const AddToStreamsArgs& args) override {
    return OkUnlessCancelled(RunAddToStreams(pool_, Cast(workspace), args));
  }
  Error CutGated(Workspace& workspace, const CutGatedArgs& args) override {
    return OkUnlessCancelled(RunCutGated(pool_, Cast(workspace), args));
  }
  Error LinearGated(Workspace& workspace, const LinearGatedArgs& args) override {
    const PackedWeight& weight = Cast(*args.weight);
    VF_CHECK(weight.gated(), "LinearGated needs a kGateUp weight");
    const int rows = Cast(workspace).flat.row_count();
    return Multiply(workspace, {.x = HostData<float>(args.x, rows * weight.columns()),
                                .weight = &weight,
                                .row_count = rows,
                                .epilogue = Epilogue::kGated,
                                .activation = args.activation,
                                .terms = args.terms,
                                .bias = OptionalHostData<float>(args.bias, weight.rows()),
                                .out = HostData<float>(args.out, rows * weight.rows() / 2)});
  }

  Error Mixture(Workspace& workspace, const MixtureArgs& args) override {
    const bool finished = RunMixture(kernels_, pool_, Cast(workspace), args);
    return NextNorm(workspace, args.next_norm, OkUnlessCancelled(finished));
  }

  Error NormColumns(Workspace& workspace, const NormColumnsArgs& args) override {
    const FlatBatch& flat = Cast(workspace).flat;
    float* x = HostData<float>(args.x, WideProduct(flat.row_count(), args.columns));
    const float* weight = HostData<float>(args.weight, args.count);
    return EachRow(flat, [&](int row, int) {
      float* columns = x + WideProduct(row, args.columns);
      kernels_.norm_row({.x = columns, .weight = weight, .width = args.count, .epsilon = args.epsilon, .out = columns});
    });
  }
  Error ApplyGate(Workspace& workspace, const ApplyGateArgs& args) override {
    const FlatBatch& flat = Cast(workspace).flat;
    const size_t count = WideProduct(flat.row_count(), args.columns);
    const float* gate = HostData<float>(args.gate, count);
    float* x = HostData<float>(args.x, count);
    return EachRow(flat, [&](int row, int) {
      const size_t at = WideProduct(row, args.columns);
      const GateForm form = args.sigmoid ? GateForm::kSigmoid : GateForm::kPlain;
      kernels_.gate_row({.gate = gate + at, .count = args.columns, .form = form, .x = x + at});
    });
  }
  Error Recur(Workspace& workspace, const RecurArgs& args) override {
    return OkUnlessCancelled(RunRecurrence(kernels_, pool_, Cast(workspace), args));
  }

  Error LmHead(Workspace& workspace, const LmHeadArgs& args) override {
    if (std::ssize(args.rows) > Cast(workspace).shape.head_row_count_max) {
      return {ErrorCode::kInvalidArgument, "an LM head call of " + std::to_string(args.rows.size()) +
                                               " rows exceeds the planned " +
                                               std::to_string(Cast(workspace).shape.head_row_count_max)};
    }
    return OkUnlessCancelled(RunLmHead(kernels_, pool_, Cast(workspace), args));
  }

  Error InspectAttention(Workspace& workspace, const InspectAttentionArgs& args) override {
    return OkUnlessCancelled(RunInspection(kernels_, pool_, Cast(workspace), args));
  }

 private:
  // item(first row, row count, thread) for all rows of the step, up to kRowsPerItem at a time.
  template <typename Item>
  Error EachItem(const FlatBatch& flat, const Item& item) {
    const int rows = flat.row_count(), items = (rows + kRowsPerItem - 1) / kRowsPerItem;
    return OkUnlessCancelled(pool_.Run(items, flat.batch.cancelled, [&](int index, int thread) {
      const int first = index * kRowsPerItem;
      item(first, std::min(rows - first, kRowsPerItem), thread);
    }));
  }
  // item(row, thread) for every row of the step.
  template <typename Item>
  Error EachRow(const FlatBatch& flat, const Item& item) {
    return EachItem(flat, [&](int first, int rows, int thread) {
      for (int row = first; row < first + rows; ++row) item(row, thread);
    });
  }

  Error Multiply(Workspace& workspace, const MatmulArgs& args) {
    CpuWorkspace& own = Cast(workspace);
    VF_CHECK(kernels_.elements_per_word == 1 || args.weight->columns() <= ProductInputsMax(own.shape),
             "the workspace was planned for this model");
    return OkUnlessCancelled(RunMatmul(kernels_, pool_, args, own.words.get(), own.flat.batch.cancelled));
  }

  // A product and its bias, into the workspace.
  Error Project(Workspace& workspace, const Slice& x, const PackedWeight& weight, const Slice& bias) {
    const int rows = Cast(workspace).flat.row_count();
    return Multiply(workspace, {.x = HostData<float>(x, rows * weight.columns()),
                                .weight = &weight,
                                .row_count = rows,
                                .epilogue = Epilogue::kStore,
                                .bias = OptionalHostData<float>(bias, weight.rows()),
                                .out = Cast(workspace).projected.get()});
  }

  const KernelTable& kernels_;
  ThreadPool pool_;
};

Error CpuBackend::FocalTau(Workspace& workspace, const FocalTauArgs& args) {
  const FlatBatch& flat = Cast(workspace).flat;
  if (Error error = CheckTauRows(flat.batch, args.mean); !error.ok()) return error;
  const int64_t width = Cast(workspace).shape.model_dim;
  auto& pool = static_cast<PagePool&>(*args.pool);
  const float* x = HostData<float>(args.x, flat.row_count() * width);
  const float* weight = HostData<float>(args.weight, width);
  float* scales = HostData<float>(args.row_scales, flat.row_count());
  uint32_t* counts = OptionalHostData<uint32_t>(args.bound_counts, flat.batch.sequences.size() * 2);
  float* raw = Cast(workspace).row_values.get();
  if (Error error =
          EachRow(flat, [&](int row, int) { raw[row] = kernels_.dot(x + row * width, weight, width) + args.bias; });
      !error.ok()) {
    return error;
  }
  for (size_t s = 0; s < flat.batch.sequences.size(); ++s) {
    const SequenceRows& sequence = flat.batch.sequences[s];
    const int first = flat.first_rows[s];
    const auto sum_at = [&](int position) {
      char* page = pool.annotations(args.layer, PageOf(sequence, args.page_group, position));
      return reinterpret_cast<double*>(page + WideProduct(args.annotation_offset, kPageTokens)) +
             position % kPageTokens;
    };
    // Summed sequentially in position order, so that the sum at a position does not depend on step boundaries.
    double sum = sequence.first_position == 0 ? 0.0 : *sum_at(sequence.first_position - 1);
    for (int i = 0; i < sequence.row_count; ++i) {
      sum += raw[first + i];
      *sum_at(sequence.first_position + i) = sum;
    }
    for (int i = 0; i < sequence.row_count; ++i) {
      const int position = sequence.first_position + i;
      double mean = raw[first + i];
      if (args.mean != TauMean::kToken) {
        const bool whole = args.mean == TauMean::kSequence && position < sequence.prompt_row_count;
        const int last = whole ? sequence.prompt_row_count - 1 : position;
        mean = *sum_at(last) / (last + 1);
      }
      scales[first + i] = TauScale(ClipTau(mean, args.tau_min, args.tau_max));
      if (counts != nullptr) {
        counts[2 * s] += static_cast<float>(mean) <= args.tau_min;
        counts[2 * s + 1] += static_cast<float>(mean) >= args.tau_max;
      }
    }
  }
  return {};
}

Error CpuBackend::RouteGroups(Workspace& workspace, const RouteGroupsArgs& args) {
  const FlatBatch& flat = Cast(workspace).flat;
  const int64_t width = Cast(workspace).shape.model_dim;
  auto& pool = static_cast<PagePool&>(*args.pool);
  VF_CHECK(Cast(workspace).shape.gather_top_k_max > 0, "the workspace was planned for groups");
  const int count = args.group_count, routing_dim = args.routing_dim;
  const float* x = HostData<float>(args.x, flat.row_count() * width);
  const float* projection = HostData<float>(args.projection, routing_dim * width);
  const float* centroids = HostData<float>(args.centroids, WideProduct(count, routing_dim));
  const float* bias = OptionalHostData<float>(args.group_bias, count);
  float* scores = Cast(workspace).row_values.get();
  VF_CHECK(WideProduct(kRowsPerItem, routing_dim) <= PrefillScratchFloats(pool.shape().head_dim),
           "scratch has room for an item's routed rows");
  if (Error error = EachItem(flat,
                             [&](int row, int rows, int thread) {
                               float* routed = Cast(workspace).scratch(thread);
                               kernels_.row_products({.a = x + row * width,
                                                      .a_rows = rows,
                                                      .b = projection,
                                                      .b_rows = routing_dim,
                                                      .count = width,
                                                      .out = routed});
                               kernels_.row_products({.a = routed,
                                                      .a_rows = rows,
                                                      .b = centroids,
                                                      .b_rows = count,
                                                      .count = routing_dim,
                                                      .out = scores + row * count});
                             });
      !error.ok()) {
    return error;
  }
  return AssignGroups(
      flat, args, scores, bias,
      [&](const SequenceRows& sequence, int32_t position) {
        return pool.annotations(args.layer, PageOf(sequence, args.page_group, position));
      },
      [&](int items, const std::function<void(int)>& item) {
        return pool_.Run(PoolWork::kRows, items, flat.batch.cancelled, [&](int index, int) { item(index); });
      });
}

Error CpuBackend::LinearNormResidual(Workspace& workspace, const LinearNormResidualArgs& args) {
  CpuWorkspace& own = Cast(workspace);
  const PackedWeight& weight = Cast(*args.weight);
  const int rows = own.flat.row_count();
  const int64_t width = weight.rows();
  VF_CHECK(width == own.shape.model_dim, "a product added to the residual is as wide as the model");
  if (Error error = Project(workspace, args.x, weight, args.bias); !error.ok()) return error;
  const float* norm_weight = HostData<float>(args.norm_weight, width);
  float* residual = HostData<float>(args.residual, rows * width);
  const Error done = EachRow(own.flat, [&](int row, int) {
    float* product = own.projected.get() + row * width;
    kernels_.norm_row(
        {.x = product, .weight = norm_weight, .width = width, .epsilon = args.norm_epsilon, .out = product});
    float* to = residual + row * width;
    for (int64_t i = 0; i < width; ++i) to[i] = (to[i] + args.multiplier * product[i]) * args.scale;
  });
  return NextNorm(workspace, args.next_norm, done);
}

Error CpuBackend::QkvRopeWrite(Workspace& workspace, const QkvRopeWriteArgs& args) {
  CpuWorkspace& own = Cast(workspace);
  const FlatBatch& flat = own.flat;
  const PackedWeight& weight = Cast(*args.weight);
  auto& pool = static_cast<PagePool&>(*args.pool);
  const int dim = pool.shape().head_dim, kv_heads = pool.shape().kv_head_count, query_heads = args.query_head_count;
  const int keys = args.queries_alone ? 0 : kv_heads;  // heads of keys, and of values, that are written
  const int width = (query_heads + 2 * keys) * dim;
  VF_CHECK(weight.rows() == width &&
               width <= (own.shape.query_head_count + 2 * own.shape.kv_head_count) * own.shape.head_dim,
           "the weight has (H + 2K) D rows, or H D");
  const int rows = flat.row_count();
  if (Error error = Project(workspace, args.x, weight, args.bias); !error.ok()) return error;
  // Heads that one norm spans.
  const int query_span = args.norm_over_width ? query_heads : 1, key_span = args.norm_over_width ? kv_heads : 1;
  const float* query_norm = OptionalHostData<float>(args.query_norm, query_span * dim);
  const float* key_norm = OptionalHostData<float>(args.key_norm, key_span * dim);
  const float* value_norm = OptionalHostData<float>(args.value_norm, dim);
  const auto normalize = [&](float* heads, int count, int span, const float* weight_of_norm) {
    for (int h = 0; weight_of_norm != nullptr && h < count; h += span) {
      float* x = heads + h * dim;
      kernels_.norm_row(
          {.x = x, .weight = weight_of_norm, .width = span * dim, .epsilon = args.norm_epsilon, .out = x});
    }
  };
  float* queries = HostData<float>(args.queries, WideProduct(rows, query_heads, dim));
  return EachRow(flat, [&](int row, int) {
    float* projected = own.projected.get() + WideProduct(row, width);
    const SequenceRows& sequence = flat.batch.sequences[flat.row_sequences[row]];
    const int position = flat.row_positions[row];
    const HostRopeTable* rope =
        args.rope_tables.empty() ? nullptr : static_cast<const HostRopeTable*>(args.rope_tables[sequence.rope_table]);
    VF_CHECK(rope == nullptr || position < rope->position_count(), "a position beyond the rope table");
    const auto normalize_both = [&] {
      normalize(projected, query_heads, query_span, query_norm);
      normalize(projected + query_heads * dim, keys, key_span, key_norm);
      normalize(projected + (query_heads + keys) * dim, keys, 1, value_norm);
    };
    if (!args.norm_after_rotation) normalize_both();
    for (int i = 0; args.clip > 0 && i < width; ++i) projected[i] = std::clamp(projected[i], -args.clip, args.clip);
    for (int h = 0; rope != nullptr && h < query_heads + keys; ++h) Rotate(*rope, position, projected + h * dim);
    if (args.norm_after_rotation) normalize_both();
    std::memcpy(queries + WideProduct(row, query_heads, dim), projected, sizeof(float) * query_heads * dim);
    if (args.queries_alone) return;
    const bool last = row + 1 == flat.first_rows[flat.row_sequences[row] + 1];
    pool.WriteToken(args.layer, PageOf(sequence, args.page_group, position), position % kPageTokens,
                    projected + query_heads * dim, projected + (query_heads + kv_heads) * dim, last);
  });
}

}  // namespace
}  // namespace cpu

Result<std::unique_ptr<Backend>> CreateCpuBackend(const BackendOptions& options) {
  if (options.dtype == DType::kF16) {
    return Error{ErrorCode::kUnsupported,
                 "the cpu backend computes in f32 or bf16, not f16 (f16 weights are converted)"};
  }
  if (options.thread_count < 0 || options.thread_count > cpu::kThreadsMax) {
    return Error{ErrorCode::kInvalidArgument, "a thread count of " + std::to_string(options.thread_count) +
                                                  " is outside 0.." + std::to_string(cpu::kThreadsMax)};
  }
  auto kernels = cpu::ChooseKernels(options.cpu_isa, options.dtype);
  if (!kernels.ok()) return kernels.error();
  const int threads = options.thread_count == 0 ? cpu::UsableCores() : options.thread_count;
  return std::unique_ptr<Backend>(std::make_unique<cpu::CpuBackend>(**kernels, options, threads));
}

}  // namespace varifocal::kernels
