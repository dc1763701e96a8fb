// Learned tau: dot products of the rows, and their running means.

#include "base/wide_product.h"
#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// One warp a row: x . weight + bias in f32.
VF_KERNEL(kThreads, 1) TauDotKernel(const TauParams p) {
  FollowPreviousLaunch();
  const int row = BlockX() * kWarps + WarpIndex(), lane = LaneIndex();
  const bool inside = row < p.step.row_count;
  const uint16_t* x = p.x + WideProduct(inside ? row : 0, p.width);
  float sum = 0;
  for (int i = lane; i < p.width; i += 32) sum = FusedMultiplyAdd(WidenLow(x[i]), p.weight[i], sum);
  sum = WarpSum(sum);
  if (inside && lane == 0) p.raw[row] = sum + p.bias;
}

// A page's sums: within it up to each token, and before it.
struct TauPage {
  double* within;
  double* before;
};
VF_DEVICE TauPage TauPageOf(const TauParams& p, int sequence, int page_index) {
  const int32_t page = p.step.page_tables[p.pool.table_starts[sequence] + page_index];
  unsigned char* at = p.pool.annotations + WideProduct(page, p.pool.annotation_stride);
  return {reinterpret_cast<double*>(at + p.annotation_offset * kPageTokenCount),
          reinterpret_cast<double*>(at + p.pool.annotation_stride - kAnnotationTailBytes)};
}
VF_DEVICE double TauSum(const TauParams& p, int sequence, int position) {
  const TauPage page = TauPageOf(p, sequence, position / kPageTokenCount);
  return *page.before + page.within[position % kPageTokenCount];
}

// One block a sequence. The running sum up to a position is (sum before its page) + (sum within its page), each added
// in position order: pages can be summed in parallel, and no value depends on where a step begins.
VF_KERNEL(kThreads, 1) TauSumKernel(const TauParams p) {
  FollowPreviousLaunch();
  const int sequence = BlockX();
  const int first_row = p.step.first_rows[sequence], rows = p.step.first_rows[sequence + 1] - first_row;
  if (rows == 0) return;
  const int first = p.step.first_positions[sequence], last = first + rows - 1;
  const int first_page = first / kPageTokenCount, last_page = last / kPageTokenCount;
  for (int index = first_page + ThreadX(); index <= last_page; index += kThreads) {
    double* page = TauPageOf(p, sequence, index).within;
    const int begin = index == first_page ? first : index * kPageTokenCount;
    const int page_end = (index + 1) * kPageTokenCount, end = page_end < last + 1 ? page_end : last + 1;
    double sum = begin % kPageTokenCount == 0 ? 0.0 : page[begin % kPageTokenCount - 1];
    for (int position = begin; position < end; ++position) {
      sum += p.raw[first_row + position - first];
      page[position % kPageTokenCount] = sum;
    }
  }
  SyncThreads();
  if (ThreadX() == 0) {
    for (int index = first_page; index <= last_page; ++index) {
      // The sum before the page is stored in a page that was started earlier.
      if (index == first_page && first % kPageTokenCount != 0) continue;
      *TauPageOf(p, sequence, index).before = index == 0 ? 0.0 : TauSum(p, sequence, index * kPageTokenCount - 1);
    }
  }
  SyncThreads();
  const int prompt = p.step.prompt_rows[sequence];
  uint32_t low = 0, high = 0;
  for (int i = ThreadX(); i < rows; i += kThreads) {
    const int position = first + i;
    double mean = p.raw[first_row + i];
    if (p.mean != TauMean::kToken) {
      const int end = p.mean == TauMean::kSequence && position < prompt ? prompt - 1 : position;
      mean = TauSum(p, sequence, end) / (end + 1);
    }
    const float rounded = mean;
    p.scales[first_row + i] = TauScale(ClipTau(mean, p.tau_min, p.tau_max));
    low += rounded <= p.tau_min;
    high += rounded >= p.tau_max;
  }
  if (p.bound_counts != nullptr) {
    if (low != 0) AtomicAdd(p.bound_counts + 2 * sequence, low);
    if (high != 0) AtomicAdd(p.bound_counts + 2 * sequence + 1, high);
  }
}

}  // namespace

int LaunchTau(const TauParams& p, LaunchStream stream) {
  const int dots = VF_LAUNCH(TauDotKernel, CeilDivide(p.step.row_count, kWarps), 1, 1, kThreads, 0, stream, p);
  if (dots != 0) return dots;
  return VF_LAUNCH(TauSumKernel, p.step.sequence_count, 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
