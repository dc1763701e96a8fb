#include "kernels/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/wide_product.h"
#include "kernels/expert_choice.h"
#include "kernels/group_routing.h"
#include "kernels/host_backend.h"
#include "kernels/reference/reference_attention.h"
#include "kernels/reference/reference_layers.h"
#include "kernels/reference/reference_math.h"
#include "kernels/reference/reference_recurrence.h"
#include "kernels/reference/reference_streams.h"
#include "kernels/state_pool.h"

namespace varifocal::kernels {
namespace {

class ReferenceWorkspace final : public Workspace {
 public:
  size_t bytes() const override { return 0; }
  StepShape shape;
  FlatBatch flat;
};

ReferenceWorkspace& Cast(Workspace& workspace) { return static_cast<ReferenceWorkspace&>(workspace); }

class ReferenceBackend final : public HostBackend {
 public:
  explicit ReferenceBackend(DType dtype) {
    info_ = {std::string("reference-") + DTypeName(dtype), CpuModelName(), dtype, 1, {}};
  }

  Result<std::unique_ptr<Weight>> CreateWeight(std::span<const HostMatrix> parts, WeightUse use) override {
    auto rows = StackedRows(parts, use);
    if (!rows.ok()) return rows.error();
    auto weight = std::make_unique<ReferenceWeight>(*rows, parts[0].columns);
    for (int64_t row = 0; row < *rows; ++row) {
      const auto [part, inner] = StackedRow(parts, row);
      float* out = weight->data.data() + row * parts[0].columns;
      WidenRow(*part, inner, out);
      if (info_.dtype == DType::kBF16) {
        for (int64_t i = 0; i < part->columns; ++i) out[i] = WidenBF16(RoundToBF16(out[i]));
      }
    }
    return std::unique_ptr<Weight>(std::move(weight));
  }

  Result<std::unique_ptr<Weight>> CreateExperts(std::span<const HostMatrix> parts, int expert_count,
                                                WeightUse use) override {
    if (auto rows = RowsOfExpert(parts, expert_count, use); !rows.ok()) return rows.error();
    return CreateWeight(parts, use);
  }

  Error CheckShape(const KvShape&) const override { return {}; }
  size_t KvBytesPerPageAndLayer(const KvShape& shape) const override {
    if (shape.holds_states()) return StatePool<double>::BytesPerPageAndLayer(shape);
    return kPageTokens * (2 * sizeof(double) * shape.kv_head_count * shape.head_dim + shape.annotation_bytes);
  }
  Result<std::unique_ptr<KvPool>> CreateKvPool(const KvShape& shape, int page_count) override {
    if (Error error = CheckShape(shape); !error.ok()) return error;
    if (shape.holds_states()) return StatePool<double>::Create(shape, page_count);
    return std::unique_ptr<KvPool>(std::make_unique<ReferencePool>(shape, page_count));
  }
  Error CopyPage(KvPool& pool, int from, int to) override {
    if (auto* states = dynamic_cast<StatePool<double>*>(&pool); states != nullptr) {
      states->CopyPage(from, to);
      return {};
    }
    auto& own = static_cast<ReferencePool&>(pool);
    auto copy = [&](std::vector<double>& values, size_t width, int layer) {
      const auto begin = values.begin() + own.token(layer, from, 0) * width;
      std::copy(begin, begin + kPageTokens * width, values.begin() + own.token(layer, to, 0) * width);
    };
    for (int layer = 0; layer < own.shape.layer_count; ++layer) {
      copy(own.keys, own.width(), layer);
      copy(own.values, own.width(), layer);
      std::copy_n(own.page_annotations(layer, from), kPageTokens * own.shape.annotation_bytes,
                  own.page_annotations(layer, to));
    }
    return {};
  }
  Error ReadPage(const KvPool& pool, int layer, int page, int row_count, float* keys, float* values) override {
    const auto& own = static_cast<const ReferencePool&>(pool);
    const size_t first = own.token(layer, page, 0) * own.width();
    for (size_t i = 0; i < row_count * own.width(); ++i) {
      keys[i] = own.keys[first + i];
      values[i] = own.values[first + i];
    }
    return {};
  }
  Error ReadGroups(const KvPool& pool, int layer, std::span<const int32_t> pages, int annotation_offset,
                   std::span<uint32_t> groups) override {
    const auto& own = static_cast<const ReferencePool&>(pool);
    CopyGroups(
        pages, annotation_offset, [&](int32_t page) { return own.page_annotations(layer, page); }, groups);
    return {};
  }

  size_t WorkspaceBytes(const StepShape&) const override { return 0; }
  Result<std::unique_ptr<Workspace>> CreateWorkspace(const StepShape& shape) override {
    auto workspace = std::make_unique<ReferenceWorkspace>();
    workspace->shape = shape;
    return std::unique_ptr<Workspace>(std::move(workspace));
  }
  Error BeginStep(Workspace& workspace, const Batch& batch) override {
    return Cast(workspace).flat.Assign(batch, Cast(workspace).shape);
  }

  Error Embed(Workspace& workspace, const EmbedArgs& args) override {
    const auto& table = static_cast<const ReferenceWeight&>(*args.table);
    const int rows = Cast(workspace).flat.row_count();
    VF_CHECK(std::ssize(args.tokens) == rows, "one token per row");
    float* out = HostData<float>(args.out, rows * table.columns());
    const auto* positions = static_cast<const ReferenceWeight*>(args.positions);
    for (int t = 0; t < rows; ++t) {
      VF_CHECK(args.tokens[t] >= 0 && args.tokens[t] < table.rows(), "token id outside the vocabulary");
      const int position = Cast(workspace).flat.row_positions[t];
      VF_CHECK(positions == nullptr || position < positions->rows(), "a position beyond the position table");
      for (int64_t i = 0; i < table.columns(); ++i) {
        double x = static_cast<double>(table.row(args.tokens[t])[i]) * args.multiplier;
        if (positions != nullptr) x += positions->row(position)[i];
        out[t * table.columns() + i] = x;
      }
    }
    return {};
  }

  Error Norm(Workspace& workspace, const NormArgs& args) override {
    const int rows = Cast(workspace).flat.row_count();
    const int64_t width = Cast(workspace).shape.model_dim;
    const float* x = HostData<float>(args.x, rows * width);
    const float* weight = OptionalHostData<float>(args.weight, width);
    VF_CHECK(weight != nullptr || args.kind == NormKind::kNone, "a norm has a weight");
    const float* bias = OptionalHostData<float>(args.bias, width);
    float* out = HostData<float>(args.out, rows * width);
    std::vector<double> normed(width);
    for (int t = 0; t < rows; ++t, x += width, out += width) {
      Normalize(args.kind, x, weight, bias, width, args.epsilon, normed.data());
      for (int64_t i = 0; i < width; ++i) out[i] = normed[i];
    }
    return {};
  }

  Error FocalTau(Workspace& workspace, const FocalTauArgs& args) override {
    const FlatBatch& flat = Cast(workspace).flat;
    if (Error error = CheckTauRows(flat.batch, args.mean); !error.ok()) return error;
    const int64_t width = Cast(workspace).shape.model_dim;
    auto& pool = static_cast<ReferencePool&>(*args.pool);
    VF_CHECK(pool.shape.annotation_bytes >= args.annotation_offset + kTauAnnotationBytes,
             "learned tau needs its annotation");
    const float* x = HostData<float>(args.x, flat.row_count() * width);
    const float* weight = HostData<float>(args.weight, width);
    float* scales = HostData<float>(args.row_scales, flat.row_count());
    uint32_t* counts = OptionalHostData<uint32_t>(args.bound_counts, flat.batch.sequences.size() * 2);
    for (size_t s = 0; s < flat.batch.sequences.size(); ++s) {
      const SequenceRows& sequence = flat.batch.sequences[s];
      const int first = flat.first_rows[s];
      const auto sum_at = [&](int position) -> double& {
        char* page = pool.page_annotations(args.layer, PageOf(sequence, args.page_group, position));
        return reinterpret_cast<double*>(page + args.annotation_offset * kPageTokens)[position % kPageTokens];
      };
      std::vector<double> raw(sequence.row_count);
      double sum = sequence.first_position == 0 ? 0.0 : sum_at(sequence.first_position - 1);
      for (int i = 0; i < sequence.row_count; ++i) {
        raw[i] = Dot(x + (first + i) * width, weight, width) + args.bias;
        sum += raw[i];
        sum_at(sequence.first_position + i) = sum;
      }
      for (int i = 0; i < sequence.row_count; ++i) {
        const int position = sequence.first_position + i;
        double mean = raw[i];
        if (args.mean != TauMean::kToken) {
          const bool whole = args.mean == TauMean::kSequence && position < sequence.prompt_row_count;
          const int last = whole ? sequence.prompt_row_count - 1 : position;
          mean = sum_at(last) / (last + 1);
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

  Error RouteGroups(Workspace& workspace, const RouteGroupsArgs& args) override {
    const FlatBatch& flat = Cast(workspace).flat;
    auto& pool = static_cast<ReferencePool&>(*args.pool);
    const int64_t width = Cast(workspace).shape.model_dim;
    const int count = args.group_count, routing_dim = args.routing_dim;
    const float* x = HostData<float>(args.x, flat.row_count() * width);
    const float* projection = HostData<float>(args.projection, routing_dim * width);
    const float* centroids = HostData<float>(args.centroids, WideProduct(count, routing_dim));
    std::vector<float> scores(WideProduct(flat.row_count(), count));
    std::vector<double> routed(routing_dim);
    for (int row = 0; row < flat.row_count(); ++row) {
      for (int r = 0; r < routing_dim; ++r) routed[r] = Dot(x + row * width, projection + r * width, width);
      for (int g = 0; g < count; ++g) {
        double sum = 0;
        for (int r = 0; r < routing_dim; ++r) sum += routed[r] * centroids[g * routing_dim + r];
        scores[WideProduct(row, count) + g] = sum;
      }
    }
    return AssignGroups(
        flat, args, scores.data(), OptionalHostData<float>(args.group_bias, count),
        [&](const SequenceRows& sequence, int32_t position) {
          return pool.page_annotations(args.layer, PageOf(sequence, args.page_group, position));
        },
        [](int items, const std::function<void(int)>& item) {
          for (int i = 0; i < items; ++i) item(i);
          return true;
        });
  }

  Error QkvRopeWrite(Workspace& workspace, const QkvRopeWriteArgs& args) override {
    ReferenceQkvRopeWrite(Cast(workspace).flat, args);
    return {};
  }

  Error Attend(Workspace& workspace, const AttendArgs& args) override {
    return ReferenceAttend(Cast(workspace).flat, args);
  }

  Error Linear(Workspace& workspace, const LinearArgs& args) override {
    return Project(workspace, args.x, args.weight, args.bias, args.out,
                   [&](float* out, double y) { *out = Activate(args.activation, args.terms, y); });
  }

  Error ApplyGate(Workspace& workspace, const ApplyGateArgs& args) override {
    const size_t count = WideProduct(Cast(workspace).flat.row_count(), args.columns);
    const float* gate = HostData<float>(args.gate, count);
    float* x = HostData<float>(args.x, count);
    for (size_t i = 0; i < count; ++i) {
      x[i] =
          args.sigmoid ? x[i] / (1.0 + std::exp(-static_cast<double>(gate[i]))) : static_cast<double>(x[i]) * gate[i];
    }
    return {};
  }

  Error NormColumns(Workspace& workspace, const NormColumnsArgs& args) override {
    const int rows = Cast(workspace).flat.row_count();
    float* x = HostData<float>(args.x, WideProduct(rows, args.columns));
    const float* weight = HostData<float>(args.weight, args.count);
    std::vector<double> normed(args.count);
    for (int t = 0; t < rows; ++t, x += args.columns) {
      Normalize(NormKind::kRms, x, weight, nullptr, args.count, args.epsilon, normed.data());
      std::copy(normed.begin(), normed.end(), x);
    }
    return {};
  }

  Error Recur(Workspace& workspace, const RecurArgs& args) override {
    return RunReferenceRecurrence(Cast(workspace).flat, args);
  }

  Error LinearResidual(Workspace& workspace, const LinearResidualArgs& args) override {
    const Error done = Project(workspace, args.x, args.weight, args.bias, args.residual,
                               [&](float* out, double y) { *out = *out + args.multiplier * y; });
    return NextNorm(workspace, args.next_norm, done);
  }

  Error LinearNormResidual(Workspace& workspace, const LinearNormResidualArgs& args) override {
    const auto& weight = static_cast<const ReferenceWeight&>(*args.weight);
    const int rows = Cast(workspace).flat.row_count();
    const int64_t width = weight.rows(), inner = weight.columns();
    VF_CHECK(width == Cast(workspace).shape.model_dim, "a product added to the residual is as wide as the model");
    const float* x = HostData<float>(args.x, rows * inner);
    const float* bias = OptionalHostData<float>(args.bias, width);
    const float* norm = HostData<float>(args.norm_weight, width);
    float* residual = HostData<float>(args.residual, rows * width);
    std::vector<double> product(width);
    for (int t = 0; t < rows; ++t, x += inner, residual += width) {
      for (int64_t n = 0; n < width; ++n) {
        product[n] = Dot(weight.row(n), x, inner) + (bias != nullptr ? bias[n] : 0.0f);
      }
      Normalize(NormKind::kRms, product.data(), norm, nullptr, width, args.norm_epsilon, product.data());
      for (int64_t n = 0; n < width; ++n) {
        residual[n] = args.scale * (residual[n] + args.multiplier * product[n]);
      }
    }
    return NextNorm(workspace, args.next_norm, {});
  }

  Error NormResidual(Workspace& workspace, const NormResidualArgs& args) override {
    ReferenceNormResidual(Cast(workspace).flat, Cast(workspace).shape, args);
    return NextNorm(workspace, args.next_norm, {});
  }

  Error LayerInputs(Workspace& workspace, const LayerInputsArgs& args) override {
    ReferenceLayerInputs(Cast(workspace).flat, args);
    return {};
  }

  Error MatchStreams(Workspace& workspace, const MatchStreamsArgs& args) override {
    ReferenceMatchStreams(Cast(workspace).flat, Cast(workspace).shape, args);
    return {};
  }
  Error PredictStreams(Workspace& workspace, const PredictStreamsArgs& args) override {
    ReferencePredictStreams(Cast(workspace).flat, Cast(workspace).shape, args);
    return NextNorm(workspace, args.next_norm, {});
  }
  Error CorrectStreams(Workspace& workspace, const CorrectStreamsArgs& args) override {
    ReferenceCorrectStreams(Cast(workspace).flat, Cast(workspace).shape, args);
    return {};
  }
  Error AddToStreams(Workspace& workspace, const AddToStreamsArgs& args) override {
    ReferenceAddToStreams(Cast(workspace).flat, Cast(workspace).shape, args);
    return {};
  }
  Error CutGated(Workspace& workspace, const CutGatedArgs& args) override {
    ReferenceCutGated(Cast(workspace).flat, args);
    return {};
  }
  Error LinearGated(Workspace& workspace, const LinearGatedArgs& args) override {
    const auto& weight = static_cast<const ReferenceWeight&>(*args.weight);
    const int rows = Cast(workspace).flat.row_count();
    const int64_t width = weight.rows() / 2, inner = weight.columns();
    const float* x = HostData<float>(args.x, rows * inner);
    const float* bias = OptionalHostData<float>(args.bias, weight.rows());
    float* out = HostData<float>(args.out, rows * width);
    const auto side = [&](int t, int64_t n) {
      return Dot(weight.row(n), x + t * inner, inner) + (bias != nullptr ? bias[n] : 0.0f);
    };
    for (int t = 0; t < rows; ++t) {
      for (int64_t f = 0; f < width; ++f) {
        const double gate = side(t, f), up = side(t, width + f);
        out[t * width + f] = ActivateGate(args.activation, args.terms, gate, up);
      }
    }
    return {};
  }

  Error Mixture(Workspace& workspace, const MixtureArgs& args) override {
    const auto& gate_up = static_cast<const ReferenceWeight&>(*args.gate_up);
    const auto& down = static_cast<const ReferenceWeight&>(*args.down);
    const int rows = Cast(workspace).flat.row_count(), experts = args.expert_count;
    const int64_t width = gate_up.columns(), inner = down.columns();
    VF_CHECK(gate_up.rows() == (args.gated ? 2 : 1) * inner * experts && down.rows() == width * experts,
             "the weights are of E experts");
    const float* x = HostData<float>(args.x, rows * width);
    const float* router = HostData<float>(args.router, experts * width);
    const float* router_bias = OptionalHostData<float>(args.router_bias, experts);
    const float* gate_up_bias = OptionalHostData<float>(args.gate_up_bias, experts * 2 * inner);
    const float* down_bias = OptionalHostData<float>(args.down_bias, experts * width);
    const float* shared_gate = OptionalHostData<float>(args.shared_gate, width);
    const float* router_x = OptionalHostData<float>(args.router_x, rows * width);
    const float* expert_scales = OptionalHostData<float>(args.expert_scales, experts);
    VF_CHECK(shared_gate == nullptr || args.shared_gate_up != nullptr, "a gate is of a shared expert");
    float* residual = HostData<float>(args.residual, rows * width);
    std::vector<float> logits(experts), weights(args.per_token);
    std::vector<int32_t> chosen(args.per_token);
    std::vector<double> sums(width), hidden;
    // sums += factor * expert `e` of a stack (x)
    const auto add = [&](const ReferenceWeight& gates, const float* gates_bias, const ReferenceWeight& downs,
                         const float* downs_bias, int e, double factor) {
      const int64_t f = downs.columns();
      const auto biased = [&](int64_t row) {
        return Dot(gates.row(row), x, width) + (gates_bias == nullptr ? 0.0 : gates_bias[row]);
      };
      hidden.resize(f);
      for (int64_t i = 0; i < f; ++i) {
        hidden[i] = args.gated
                        ? ActivateGate(args.activation, args.terms, biased(e * 2 * f + i), biased((e * 2 + 1) * f + i))
                        : Activate(args.activation, args.terms, biased(e * f + i));
      }
      for (int64_t n = 0; n < width; ++n) {
        double sum = downs_bias == nullptr ? 0 : downs_bias[e * width + n];
        for (int64_t i = 0; i < f; ++i) sum += downs.row(e * width + n)[i] * hidden[i];
        sums[n] += factor * sum;
      }
    };
    for (int t = 0; t < rows; ++t, x += width, residual += width) {
      const float* routed = router_x == nullptr ? x : router_x + t * width;
      for (int e = 0; e < experts; ++e) {
        logits[e] = Dot(router + e * width, routed, width) + (router_bias == nullptr ? 0.0 : router_bias[e]);
      }
      ChooseExperts({.logits = logits.data(),
                     .expert_count = experts,
                     .per_token = args.per_token,
                     .renormalised = args.renormalised,
                     .chosen = chosen.data(),
                     .weights = weights.data(),
                     .routing = args.routing,
                     .choice_bias = OptionalHostData<float>(args.choice_bias, experts),
                     .scales = expert_scales});
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int i = 0; i < args.per_token; ++i) add(gate_up, gate_up_bias, down, down_bias, chosen[i], weights[i]);
      if (args.shared_gate_up != nullptr) {
        add(static_cast<const ReferenceWeight&>(*args.shared_gate_up), nullptr,
            static_cast<const ReferenceWeight&>(*args.shared_down), nullptr, 0,
            shared_gate == nullptr ? 1.0 : 1.0 / (1.0 + std::exp(-Dot(shared_gate, x, width))));
      }
      for (int64_t n = 0; n < width; ++n) residual[n] = residual[n] + args.multiplier * sums[n];
    }
    return NextNorm(workspace, args.next_norm, {});
  }

  Error LmHead(Workspace& workspace, const LmHeadArgs& args) override {
    const auto& weight = static_cast<const ReferenceWeight&>(*args.weight);
    const int64_t width = weight.columns(), vocab = weight.rows();
    const float* residual = HostData<float>(args.residual, Cast(workspace).flat.row_count() * width);
    const float* norm = HostData<float>(args.norm_weight, width);
    const float* norm_bias = OptionalHostData<float>(args.norm_bias, width);
    const float* bias = OptionalHostData<float>(args.bias, vocab);
    VF_CHECK(args.results.size() == args.rows.size(), "one result per head row");
    std::vector<double> normed(width), logits(vocab);
    for (size_t r = 0; r < args.rows.size(); ++r) {
      const HeadRow& row = args.rows[r];
      Normalize(args.norm_kind, residual + row.row * width, norm, norm_bias, width, args.norm_epsilon, normed.data());
      for (int64_t v = 0; v < vocab; ++v) {
        double sum = 0;
        for (int64_t i = 0; i < width; ++i) sum += weight.row(v)[i] * normed[i];
        if (bias != nullptr) sum += bias[v];
        sum *= args.logit_multiplier;
        if (args.logit_soft_cap > 0) sum = args.logit_soft_cap * std::tanh(sum / args.logit_soft_cap);
        logits[v] = sum;
      }
      HeadResult& result = args.results[r];
      result = {};
      int64_t best = 0;
      double runner_up = -std::numeric_limits<double>::infinity();
      for (int64_t v = 0; v < vocab; ++v) {
        result.finite = result.finite && std::isfinite(logits[v]);
        if (v > 0 && logits[v] > logits[best]) {
          runner_up = logits[best];
          best = v;
        } else if (v > 0) {
          runner_up = std::max(runner_up, logits[v]);
        }
      }
      double total = 0;
      for (const double logit : logits) total += std::exp(logit - logits[best]);
      const double lse = logits[best] + std::log(total);
      result.log_sum_exp = lse;
      result.argmax = best;
      result.argmax_logit = logits[best];
      result.runner_up_logit = runner_up;
      if (row.target >= 0) result.target_log_probability = logits[row.target] - lse;
      if (row.logits_slot >= 0) {
        for (int64_t v = 0; v < vocab; ++v) args.logits[row.logits_slot * vocab + v] = logits[v];
      }
      if (row.draw.temperature > 0) result.drawn = DrawFromSlot(args, row, vocab);
    }
    return {};
  }

  Error InspectAttention(Workspace& workspace, const InspectAttentionArgs& args) override {
    ReferenceInspectAttention(Cast(workspace).flat, args);
    return {};
  }

 private:
  template <typename Store>
  Error Project(Workspace& workspace, Slice x_slice, const Weight* w, Slice bias_slice, Slice out_slice,
                const Store& store) {
    const auto& weight = static_cast<const ReferenceWeight&>(*w);
    const int rows = Cast(workspace).flat.row_count();
    const float* x = HostData<float>(x_slice, rows * weight.columns());
    const float* bias = OptionalHostData<float>(bias_slice, weight.rows());
    float* out = HostData<float>(out_slice, rows * weight.rows());
    for (int t = 0; t < rows; ++t) {
      for (int64_t n = 0; n < weight.rows(); ++n) {
        const double y =
            Dot(weight.row(n), x + t * weight.columns(), weight.columns()) + (bias != nullptr ? bias[n] : 0.0f);
        store(out + t * weight.rows() + n, y);
      }
    }
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Backend>> CreateReferenceBackend(const BackendOptions& options) {
  if (options.dtype == DType::kF16) {
    return Error{ErrorCode::kUnsupported, "the reference backend computes over f32 or bf16 weights, not f16"};
  }
  return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend>(options.dtype));
}

}  // namespace varifocal::kernels
