#include "kernels/cpu/cpu_mixture.h"

#include <algorithm>
#include <cmath>

#include "base/wide_product.h"
#include "kernels/cpu/cpu_matmul.h"
#include "kernels/expert_choice.h"

namespace varifocal::kernels::cpu {
namespace {

constexpr int kRoutedRows = 16;     // of one item
constexpr int kRoutedExperts = 32;  // of one item of few rows
// Rows of the batch and panels of one item of the second product: an expert's rows among them fill its tiles.
constexpr int kSummedRows = 512;
// Bytes of panels of one item of the first product.
constexpr size_t kRunBytes = 128 << 10;

// One step's mixture: the sizes and pointers that its phases share.
class MixtureRun {
 public:
  MixtureRun(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const MixtureArgs& args)
      : kernels_(kernels),
        pool_(pool),
        own_(workspace),
        args_(args),
        gate_up_(static_cast<const PackedExperts&>(*args.gate_up)),
        down_(static_cast<const PackedExperts&>(*args.down)),
        width_(workspace.shape.model_dim) {
    VF_CHECK(gate_up_.count() == args.expert_count && down_.count() == args.expert_count &&
                 args.expert_count == workspace.shape.expert_count &&
                 args.per_token <= workspace.shape.experts_per_token &&
                 down_.columns() <= workspace.shape.expert_ffn_dim,
             "the workspace was planned for these experts");
    VF_CHECK(args.shared_gate.buffer == nullptr || args.shared_gate_up != nullptr, "a gate is of a shared expert");
    VF_CHECK(gate_up_[0].gated() == args.gated && (args.gated || args.gate_up_bias.buffer == nullptr),
             "experts have gates or are plain, without biases");
  }

  bool Run() {
    const int rows = own_.flat.row_count();
    const float* x = HostData<float>(args_.x, WideProduct(rows, width_));
    const float* router_x = OptionalHostData<float>(args_.router_x, WideProduct(rows, width_));
    float* residual = HostData<float>(args_.residual, WideProduct(rows, width_));
    for (int first = 0; first < rows; first += kMixtureRows) {
      rows_ = std::min(kMixtureRows, rows - first);
      x_ = x + WideProduct(first, width_);
      routed_ = router_x == nullptr ? x_ : router_x + WideProduct(first, width_);
      residual_ = residual + WideProduct(first, width_);
      if (!Route()) return false;
      Collect();
      if (!MultiplyFirst() || !PackHidden() || !AddExperts() || !Shared() || !AddToResidual()) return false;
    }
    return true;
  }

 private:
  template <typename Item>
  bool Each(PoolWork work, int count, const Item& item) {
    return pool_.Run(work, count, own_.flat.batch.cancelled, item);
  }
  template <typename Item>
  bool EachOf(int count, int at_once, const Item& item) {
    return Each(PoolWork::kRows, (count + at_once - 1) / at_once, [&](int index, int) {
      const int end = std::min(count, (index + 1) * at_once);
      for (int i = index * at_once; i < end; ++i) item(i);
    });
  }
  int place_count() const { return rows_ * args_.per_token; }
  Epilogue first_epilogue() const { return args_.gated ? Epilogue::kGated : Epilogue::kStore; }

  bool Route() {
    const int experts = args_.expert_count;
    const float* router = HostData<float>(args_.router, WideProduct(experts, width_));
    const float* bias = OptionalHostData<float>(args_.router_bias, experts);
    const float* scales = OptionalHostData<float>(args_.expert_scales, experts);
    const float* choice_bias = OptionalHostData<float>(args_.choice_bias, experts);
    const float* shared_gate = OptionalHostData<float>(args_.shared_gate, width_);
    // Few rows, as in decode, are divided by experts.
    const int blocks = (rows_ + kRoutedRows - 1) / kRoutedRows, at_once = blocks > 1 ? experts : kRoutedExperts;
    const int runs = (experts + at_once - 1) / at_once;
    const bool done = Each(PoolWork::kRows, blocks * runs, [&](int index, int) {
      const int first = index / runs * kRoutedRows, expert = index % runs * at_once;
      kernels_.row_products({.a = routed_ + WideProduct(first, width_),
                             .a_rows = std::min(kRoutedRows, rows_ - first),
                             .b = router + WideProduct(expert, width_),
                             .b_rows = std::min(at_once, experts - expert),
                             .count = width_,
                             .out = scratch_.logits.get() + WideProduct(first, experts) + expert,
                             .out_stride = experts});
    });
    return done && EachOf(rows_, kRoutedRows, [&](int row) {
             float* logits = scratch_.logits.get() + WideProduct(row, experts);
             for (int e = 0; bias != nullptr && e < experts; ++e) logits[e] += bias[e];
             ChooseExperts({.logits = logits,
                            .expert_count = experts,
                            .per_token = args_.per_token,
                            .renormalised = args_.renormalised,
                            .chosen = scratch_.chosen.get() + WideProduct(row, args_.per_token),
                            .weights = scratch_.weights.get() + WideProduct(row, args_.per_token),
                            .routing = args_.routing,
                            .choice_bias = choice_bias,
                            .scales = scales});
             scratch_.shares[row] = 1.0f;
             if (shared_gate == nullptr) return;
             const float gate = kernels_.dot(x_ + WideProduct(row, width_), shared_gate, width_);
             scratch_.shares[row] = 1.0f / (1.0f + std::exp(-gate));
           });
  }

  // Places by expert, then by row.
  void Collect() {
    const int experts = args_.expert_count;
    int32_t* starts = scratch_.starts.get();
    std::fill_n(starts, experts + 1, 0);
    for (int i = 0; i < place_count(); ++i) ++starts[scratch_.chosen[i] + 1];
    for (int e = 0; e < experts; ++e) starts[e + 1] += starts[e];
    for (int i = 0; i < place_count(); ++i) {
      const int32_t place = starts[scratch_.chosen[i]]++;
      scratch_.place_rows[place] = i / args_.per_token;
      scratch_.place_weights[place] = scratch_.weights[i];
    }
    // Each start has become its expert's end.
    std::copy_backward(starts, starts + experts, starts + experts + 1);
    starts[0] = 0;
    scratch_.blocks.clear();
    for (int e = 0; e < experts; ++e) {
      for (int32_t first = starts[e]; first < starts[e + 1]; first += kExpertBlockRows) {
        scratch_.blocks.push_back({e, first, std::min(kExpertBlockRows, starts[e + 1] - first)});
      }
    }
  }

  // hidden = activation(gate x) * up x, or activation(up x), of every place.
  bool MultiplyFirst() {
    const int64_t words = gate_up_[0].words(), inner = down_.columns();
    const float* bias = OptionalHostData<float>(args_.gate_up_bias, WideProduct(args_.expert_count, 2, inner));
    float* inputs = scratch_.inputs.get();
    if (!EachOf(place_count(), kRoutedRows, [&](int place) {
          kernels_.pack_row(x_ + WideProduct(scratch_.place_rows[place], width_), width_, inputs + place * words);
        })) {
      return false;
    }
    const int panels = gate_up_[0].panel_count();
    const int per_item = static_cast<int>(std::max<size_t>(1, kRunBytes / (words * kPanel * sizeof(float))));
    const int runs = (panels + per_item - 1) / per_item;
    return Each(PoolWork::kProducts, static_cast<int>(scratch_.blocks.size()) * runs, [&](int index, int) {
      const ExpertBlock& block = scratch_.blocks[index / runs];
      const PackedWeight& weight = gate_up_[block.expert];
      const int first = index % runs * per_item;
      for (int p = first; p < std::min(panels, first + per_item); ++p) {
        const int64_t output = static_cast<int64_t>(p) * weight.panel_outputs();
        const float* gates = bias == nullptr ? nullptr : bias + WideProduct(block.expert, 2, inner) + output;
        kernels_.gemm_panel({.x = inputs + block.first_place * words,
                             .x_stride = static_cast<size_t>(words),
                             .row_count = block.place_count,
                             .panel = weight.panel(p),
                             .inner = words,
                             .epilogue = first_epilogue(),
                             .activation = args_.activation,
                             .terms = args_.terms,
                             .bias = gates,
                             .up_bias = gates == nullptr ? nullptr : gates + inner,
                             .out = scratch_.hidden.get() + block.first_place * inner + output,
                             .out_stride = static_cast<size_t>(inner),
                             .columns = weight.columns_of_panel(p)});
      }
    });
  }

  bool PackHidden() {
    if (kernels_.elements_per_word == 1) return true;
    const int64_t inner = down_.columns(), words = down_[0].words();
    return EachOf(place_count(), kRoutedRows, [&](int place) {
      kernels_.pack_row(scratch_.hidden.get() + place * inner, inner, scratch_.packed_hidden.get() + place * words);
    });
  }

  // sums [T, M] = the experts of each row in rising order, times their weights.
  bool AddExperts() {
    const int panels = down_[0].panel_count(), ranges = (rows_ + kSummedRows - 1) / kSummedRows;
    return Each(PoolWork::kProducts, ranges * panels, [&](int index, int thread) {
      const int first_row = index / panels * kSummedRows, last_row = std::min(rows_, first_row + kSummedRows);
      const int p = index % panels, columns = down_[0].columns_of_panel(p);
      float* sums = own_.projected.get() + p * kPanel;
      for (int row = first_row; row < last_row; ++row) std::fill_n(sums + WideProduct(row, width_), columns, 0.0f);
      const int32_t* places = scratch_.place_rows.get();
      for (int e = 0; e < args_.expert_count; ++e) {
        const int32_t *begin = places + scratch_.starts[e], *end = places + scratch_.starts[e + 1];
        const auto first = std::lower_bound(begin, end, first_row), last = std::lower_bound(first, end, last_row);
        AddExpert(e, p, first - places, last - first, sums, own_.scratch(thread));
      }
    });
  }
  void AddExpert(int expert, int panel, int64_t first_place, int64_t count, float* sums, float* tile) {
    const PackedWeight& weight = down_[expert];
    const int64_t words = weight.words();
    const float* hidden = kernels_.elements_per_word == 1 ? scratch_.hidden.get() : scratch_.packed_hidden.get();
    const int columns = weight.columns_of_panel(panel);
    const float* bias = OptionalHostData<float>(args_.down_bias, WideProduct(args_.expert_count, width_));
    if (bias != nullptr) bias += WideProduct(expert, width_) + static_cast<int64_t>(panel) * kPanel;
    for (int64_t done = 0; done < count; done += kExpertBlockRows) {
      const int64_t place = first_place + done;
      const int rows = static_cast<int>(std::min<int64_t>(kExpertBlockRows, count - done));
      kernels_.gemm_panel({.x = hidden + place * words,
                           .x_stride = static_cast<size_t>(words),
                           .row_count = rows,
                           .panel = weight.panel(panel),
                           .inner = words,
                           .epilogue = Epilogue::kStore,
                           .bias = bias,
                           .out = tile,
                           .out_stride = kPanel,
                           .columns = columns});
      for (int r = 0; r < rows; ++r) {
        const float factor = scratch_.place_weights[place + r];
        float* to = sums + WideProduct(scratch_.place_rows[place + r], width_);
        const float* from = tile + WideProduct(r, kPanel);
        for (int i = 0; i < columns; ++i) to[i] += factor * from[i];
      }
    }
  }

  // shared [T, M] = the expert of every row.
  bool Shared() {
    if (args_.shared_gate_up == nullptr) return true;
    VF_CHECK(own_.shape.shared_expert && args_.shared_down->columns() <= own_.shape.ffn_dim,
             "the workspace was planned for a shared expert");
    const auto multiply = [&](const float* x, const Weight& weight, Epilogue epilogue, Activation activation,
                              float* out) {
      const MatmulArgs product{.x = x,
                               .weight = static_cast<const PackedWeight*>(&weight),
                               .row_count = rows_,
                               .epilogue = epilogue,
                               .activation = activation,
                               .terms = args_.terms,
                               .out = out};
      return RunMatmul(kernels_, pool_, product, own_.words.get(), own_.flat.batch.cancelled);
    };
    return multiply(x_, *args_.shared_gate_up, first_epilogue(), args_.activation, scratch_.hidden.get()) &&
           multiply(scratch_.hidden.get(), *args_.shared_down, Epilogue::kStore, Activation::kNone,
                    scratch_.shared.get());
  }

  bool AddToResidual() {
    return EachOf(rows_, kRoutedRows, [&](int row) {
      float* to = residual_ + WideProduct(row, width_);
      const float* sums = own_.projected.get() + WideProduct(row, width_);
      if (args_.shared_gate_up == nullptr) {
        for (int64_t i = 0; i < width_; ++i) to[i] += args_.multiplier * sums[i];
        return;
      }
      const float* shared = scratch_.shared.get() + WideProduct(row, width_);
      for (int64_t i = 0; i < width_; ++i) to[i] += args_.multiplier * (sums[i] + scratch_.shares[row] * shared[i]);
    });
  }

  const KernelTable& kernels_;
  ThreadPool& pool_;
  CpuWorkspace& own_;
  MixtureScratch& scratch_ = own_.mixture;
  const MixtureArgs& args_;
  const PackedExperts& gate_up_;
  const PackedExperts& down_;
  const int64_t width_;
  // Of the rows computed now.
  int rows_ = 0;
  const float* x_ = nullptr;
  const float* routed_ = nullptr;  // what the router reads
  float* residual_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Weight>> PackedExperts::Create(std::span<const HostMatrix> parts, int expert_count,
                                                      WeightUse use, const KernelTable& kernels) {
  auto rows = RowsOfExpert(parts, expert_count, use);
  if (!rows.ok()) return rows.error();
  auto experts = std::make_unique<PackedExperts>();
  for (int e = 0; e < expert_count; ++e) {
    auto weight = PackedWeight::Create(PartsOfRows(parts, e * *rows, *rows), use, kernels);
    if (!weight.ok()) return weight.error();
    experts->experts_.push_back(std::move(*weight));
  }
  return std::unique_ptr<Weight>(std::move(experts));
}

bool RunMixture(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const MixtureArgs& args) {
  return MixtureRun(kernels, pool, workspace, args).Run();
}

}  // namespace varifocal::kernels::cpu
