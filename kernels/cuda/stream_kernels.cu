// Residual streams, and gates that are cut (kernels/residual_streams.h): a block per row.
//
// Sums have a fixed order, which depends on the width alone: a thread's stride, a warp's butterfly, the warps in order.
// A thread has the same columns throughout a kernel, so of streams it reads only what it has written itself.

#include <math.h>

#include "base/wide_product.h"
#include "kernels/cuda/device_activation.h"
#include "kernels/cuda/row_values.h"
#include "kernels/residual_streams.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

static_assert(kStreamsMax * kStreamsMax <= kThreads, "a thread computes a coefficient");

VF_DEVICE float* StreamRow(const StreamsView& streams, int stream, int row) {
  return streams.first + WideProduct(WideProduct(stream, streams.row_count) + row, streams.width);
}

VF_DEVICE float MeanSquare(const float* x, int width) {
  float sum = 0;
  for (int i = ThreadX(); i < width; i += kThreads) sum += x[i] * x[i];
  return BlockSum(sum) / width;
}

// What a block knows of its row.
struct RowNumbers {
  float parts[kStreamsMax][kWarps];
  float numbers[kStreamsMax];
  float coefficients[kStreamsMax * kStreamsMax];
};

// row.coefficients[count] = coefficients [count, S] times the router's numbers of x.
VF_DEVICE void RouteStreams(const StreamRouterView& router, int streams, int count, const float* x, int width,
                            RowNumbers& row) {
  const float inverse = 1.0f / sqrtf(MeanSquare(x, width) + router.norm_epsilon);
  for (int s = 0; s < streams; ++s) {
    const float* weight = router.weight + WideProduct(s, width);
    float sum = 0;
    for (int i = ThreadX(); i < width; i += kThreads) sum += weight[i] * (x[i] * inverse * router.norm_weight[i]);
    sum = WarpSum(sum);
    if (LaneIndex() == 0) row.parts[s][WarpIndex()] = sum;
  }
  SyncThreads();
  if (const int s = ThreadX(); s < streams) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += row.parts[s][w];
    row.numbers[s] = tanhf(sum);
  }
  SyncThreads();
  if (const int c = ThreadX(); c < count) {
    float sum = 0;
    for (int s = 0; s < streams; ++s) sum += router.coefficients[c * streams + s] * row.numbers[s];
    row.coefficients[c] = sum;
  }
  SyncThreads();
}

VF_KERNEL(kThreads, 1) MatchStreamsKernel(const MatchStreamsParams p) {
  FollowPreviousLaunch();
  const int row = BlockX(), count = p.streams.count, width = p.streams.width;
  float* first = StreamRow(p.streams, 0, row);
  if (p.first != nullptr) {
    for (int i = ThreadX(); i < width; i += kThreads) first[i] = p.first[WideProduct(row, width) + i];
  }
  const float target = MeanSquare(first, width);
  for (int s = 1; s < count; ++s) {
    float* y = StreamRow(p.streams, s, row);
    const float size = MeanSquare(y, width);
    // A comparison in this order keeps what is not a number.
    const float factor = sqrtf(target / (size < p.floor ? p.floor : size));
    for (int i = ThreadX(); i < width; i += kThreads) y[i] *= factor;
  }
  if (p.mean == nullptr) return;
  for (int i = ThreadX(); i < width; i += kThreads) {
    float sum = first[i];
    for (int s = 1; s < count; ++s) sum += StreamRow(p.streams, s, row)[i];
    p.mean[WideProduct(row, width) + i] = sum / static_cast<float>(count);
  }
}

VF_KERNEL(kThreads, 1) PredictStreamsKernel(const PredictStreamsParams p) {
  FollowPreviousLaunch();
  VF_SHARED RowNumbers numbers;
  VF_SHARED float before[kStreamsMax][kThreads];  // of a thread's column
  const int row = BlockX(), thread = ThreadX(), count = p.streams.count, width = p.streams.width;
  RouteStreams(p.router, count, count * count, StreamRow(p.streams, p.active, row), width, numbers);
  for (int i = thread; i < width; i += kThreads) {
    for (int s = 0; s < count; ++s) before[s][thread] = StreamRow(p.streams, s, row)[i];
    for (int s = 0; s < count; ++s) {
      float sum = before[s][thread];
      for (int j = 0; j < count; ++j) sum += numbers.coefficients[s * count + j] * before[j][thread];
      StreamRow(p.streams, s, row)[i] = sum;
      if (s == p.active) p.residual[WideProduct(row, width) + i] = sum;
    }
  }
}

VF_KERNEL(kThreads, 1) CorrectStreamsKernel(const CorrectStreamsParams p) {
  FollowPreviousLaunch();
  VF_SHARED RowNumbers numbers;
  const int row = BlockX(), count = p.streams.count, width = p.streams.width;
  const float* made = p.made + WideProduct(row, width);
  RouteStreams(p.router, count, count, made, width, numbers);
  for (int i = ThreadX(); i < width; i += kThreads) {
    const float difference = made[i] - StreamRow(p.streams, p.active, row)[i];
    for (int s = 0; s < count; ++s) {
      float* to = StreamRow(p.streams, s, row) + i;
      const float sum = *to + (1.0f + numbers.coefficients[s]) * difference;
      *to = sum;
      if (s == p.active) {
        p.out[WideProduct(row, width) + i] = RoundBf16(p.scale == nullptr ? sum : sum * p.scale[i]);
      }
    }
  }
}

// A thread has a column of a row.
VF_KERNEL(kThreads, 1) AddToStreamsKernel(const AddToStreamsParams p) {
  FollowPreviousLaunch();
  const int row = BlockX(), i = BlockY() * kThreads + ThreadX();
  if (i >= p.streams.width) return;
  const float x = p.x[WideProduct(row, p.streams.width) + i];
  for (int s = 1; s < p.streams.count; ++s) StreamRow(p.streams, s, row)[i] += x;
}

VF_KERNEL(kThreads, 1) CutGatedKernel(const CutGatedParams p) {
  FollowPreviousLaunch();
  const int row = BlockX(), width = p.width;
  const uint16_t *gates = p.x + WideProduct(row, 2, width), *ups = gates + width;
  float sum = 0, squares = 0;
  for (int i = ThreadX(); i < width; i += kThreads) sum += WidenLow(gates[i]);
  const float mean = BlockSum(sum) / width;
  for (int i = ThreadX(); i < width; i += kThreads) {
    const float centred = WidenLow(gates[i]) - mean;
    squares += centred * centred;
  }
  const float cut = mean + p.deviations * sqrtf(BlockSum(squares) / width);
  for (int i = ThreadX(); i < width; i += kThreads) {
    const float gate = WidenLow(gates[i]);
    // Most gates are below. Comparisons in this order keep what is not a number.
    const float value = gate <= cut ? 0.0f : Activate(p.activation, p.terms, gate - cut) * WidenLow(ups[i]);
    p.out[WideProduct(row, width) + i] = RoundBf16(value);
  }
}

}  // namespace

int LaunchMatchStreams(const MatchStreamsParams& p, LaunchStream stream) {
  return VF_LAUNCH(MatchStreamsKernel, p.streams.row_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchPredictStreams(const PredictStreamsParams& p, LaunchStream stream) {
  return VF_LAUNCH(PredictStreamsKernel, p.streams.row_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchCorrectStreams(const CorrectStreamsParams& p, LaunchStream stream) {
  return VF_LAUNCH(CorrectStreamsKernel, p.streams.row_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchAddToStreams(const AddToStreamsParams& p, LaunchStream stream) {
  const int blocks = CeilDivide(p.streams.width, kThreads);
  return VF_LAUNCH(AddToStreamsKernel, p.streams.row_count, blocks, 1, kThreads, 0, stream, p);
}
int LaunchCutGated(const CutGatedParams& p, LaunchStream stream) {
  return VF_LAUNCH(CutGatedKernel, p.row_count, 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
