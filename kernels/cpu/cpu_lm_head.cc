#include "kernels/cpu/cpu_lm_head.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/wide_product.h"

namespace varifocal::kernels::cpu {
namespace {

// Logits of rows [first_row, last_row) over one slice, in `logits` [rows][kSliceColumns].
void SliceLogits(const KernelTable& kernels, const CpuWorkspace& workspace, const LmHeadArgs& args, int first_row,
                 int last_row, int slice, float* logits) {
  const auto& weight = static_cast<const PackedWeight&>(*args.weight);
  const int64_t inner = weight.words();
  const float* x = kernels.elements_per_word == 1 ? workspace.head_rows.get() : workspace.words.get();
  const float* bias = OptionalHostData<float>(args.bias, weight.rows());
  constexpr int kPanels = kSliceColumns / kPanel;
  for (int p = slice * kPanels; p < std::min(weight.panel_count(), (slice + 1) * kPanels); ++p) {
    kernels.gemm_panel({.x = x + first_row * inner,
                        .x_stride = static_cast<size_t>(inner),
                        .row_count = last_row - first_row,
                        .panel = weight.panel(p),
                        .inner = inner,
                        .bias = bias == nullptr ? nullptr : bias + static_cast<int64_t>(p) * kPanel,
                        .out = logits + (p - slice * kPanels) * kPanel,
                        .out_stride = kSliceColumns,
                        .columns = weight.columns_of_panel(p)});
  }
}

void AdjustLogits(const LmHeadArgs& args, float* logits, int count) {
  if (args.logit_multiplier != 1.0f) {
    for (int i = 0; i < count; ++i) logits[i] *= args.logit_multiplier;
  }
  if (args.logit_soft_cap > 0) {
    for (int i = 0; i < count; ++i) logits[i] = args.logit_soft_cap * std::tanh(logits[i] / args.logit_soft_cap);
  }
}

// `log_sum_exp` in float64, so that a log-probability rounds once.
HeadResult MergeSlices(const SliceStats* stats, int slices, double& log_sum_exp) {
  HeadResult result;
  double top = stats[0].top, runner_up = stats[0].runner_up;
  result.argmax = stats[0].argmax;
  result.finite = stats[0].finite;
  for (int s = 1; s < slices; ++s) {
    const SliceStats& slice = stats[s];
    result.finite = result.finite && slice.finite;
    if (slice.top > top) {
      runner_up = std::max<double>(top, slice.runner_up);
      top = slice.top;
      result.argmax = s * kSliceColumns + slice.argmax;
    } else {
      runner_up = std::max<double>(runner_up, slice.top);
    }
  }
  double sum = 0;
  for (int s = 0; s < slices; ++s) sum += stats[s].sum * std::exp(stats[s].top - top);
  result.argmax_logit = top;
  result.runner_up_logit = runner_up;
  log_sum_exp = top + std::log(sum);
  result.log_sum_exp = log_sum_exp;
  return result;
}

}  // namespace

bool RunLmHead(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const LmHeadArgs& args) {
  const auto& weight = static_cast<const PackedWeight&>(*args.weight);
  const int64_t width = weight.columns(), vocab = weight.rows();
  const int rows = args.rows.size(), slices = CpuWorkspace::SliceCount(vocab);
  VF_CHECK(args.results.size() == args.rows.size(), "one result per head row");
  VF_CHECK(width <= workspace.shape.model_dim && vocab <= workspace.shape.vocab_size,
           "the workspace was planned for this model");
  float* residual = HostData<float>(args.residual, workspace.flat.row_count() * width);
  const float* norm = HostData<float>(args.norm_weight, width);
  const float* norm_bias = OptionalHostData<float>(args.norm_bias, width);
  const std::atomic<bool>* cancelled = workspace.flat.batch.cancelled;
  const bool normed = pool.Run(rows, cancelled, [&](int r, int) {
    float* row = workspace.head_rows.get() + r * width;
    kernels.norm_row({.kind = args.norm_kind,
                      .x = residual + args.rows[r].row * width,
                      .weight = norm,
                      .bias = norm_bias,
                      .width = width,
                      .epsilon = args.norm_epsilon,
                      .out = row});
    if (kernels.elements_per_word != 1) kernels.pack_row(row, width, workspace.words.get() + r * weight.words());
  });
  if (!normed) return false;

  const int blocks = (rows + kSliceRows - 1) / kSliceRows;
  const bool sliced = pool.Run(PoolWork::kProducts, blocks * slices, cancelled, [&](int index, int thread) {
    const int slice = index % slices, first_token = slice * kSliceColumns;
    const int first_row = index / slices * kSliceRows, last_row = std::min(rows, first_row + kSliceRows);
    const int count = std::min<int64_t>(kSliceColumns, vocab - first_token);
    float* scratch = workspace.scratch(thread);
    SliceLogits(kernels, workspace, args, first_row, last_row, slice, scratch);
    for (int r = first_row; r < last_row; ++r) {
      float* logits = scratch + (r - first_row) * kSliceColumns;
      AdjustLogits(args, logits, count);
      workspace.slice_stats[WideProduct(r, slices) + slice] = kernels.slice_stats(logits, count);
      const HeadRow& row = args.rows[r];
      // The log-sum-exp is subtracted once it is known.
      if (row.target >= first_token && row.target < first_token + count) {
        workspace.target_logits[r] = logits[row.target - first_token];
      }
      if (row.logits_slot >= 0) {
        std::memcpy(args.logits + row.logits_slot * vocab + first_token, logits, count * sizeof(float));
      }
    }
  });
  if (!sliced) return false;
  for (int r = 0; r < rows; ++r) {
    double log_sum_exp = 0;
    HeadResult result = MergeSlices(workspace.slice_stats.get() + WideProduct(r, slices), slices, log_sum_exp);
    VF_CHECK(args.rows[r].target < vocab, "target outside the vocabulary");
    if (args.rows[r].target >= 0) {
      result.target_log_probability = workspace.target_logits[r] - log_sum_exp;
    }
    args.results[r] = result;
  }
  const auto is_drawn = [](const HeadRow& row) { return row.draw.temperature > 0; };
  if (std::none_of(args.rows.begin(), args.rows.end(), is_drawn)) return true;
  return pool.Run(rows, cancelled, [&](int r, int) {
    if (is_drawn(args.rows[r])) args.results[r].drawn = DrawFromSlot(args, args.rows[r], vocab);
  });
}

}  // namespace varifocal::kernels::cpu
