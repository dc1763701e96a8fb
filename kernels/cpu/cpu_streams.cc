#include "kernels/cpu/cpu_streams.h"

#include <algorithm>
#include <cmath>

#include "base/wide_product.h"
#include "kernels/cpu/layer_rows.h"
#include "kernels/scalar_activation.h"

namespace varifocal::kernels::cpu {
namespace {

constexpr int64_t kStreamBlock = 64;  // numbers of each stream that are read before any is written

// The streams of one row; `all` numbers are between two of them.
struct RowStreams {
  float* first = nullptr;
  int64_t all = 0;
  float* operator[](int stream) const { return first + stream * all; }
};

// out[rows] = coefficients [rows, S] times the router's numbers of x; `normed` has room for a row.
void StreamCoefficients(const KernelTable& kernels, const StreamRouter& router, int streams, const Slice& coefficients,
                        int rows, const float* x, int64_t width, float* normed, float* out) {
  const float* weights = HostData<float>(router.router, streams * width);
  const float* matrix = HostData<float>(coefficients, WideProduct(rows, streams));
  kernels.norm_row({.x = x,
                    .weight = HostData<float>(router.norm_weight, width),
                    .width = width,
                    .epsilon = router.norm_epsilon,
                    .out = normed});
  float numbers[kStreamsMax];
  for (int s = 0; s < streams; ++s) numbers[s] = std::tanh(kernels.dot(weights + s * width, normed, width));
  for (int r = 0; r < rows; ++r) {
    out[r] = 0;
    for (int s = 0; s < streams; ++s) out[r] += matrix[r * streams + s] * numbers[s];
  }
}

}  // namespace

bool RunMatchStreams(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                     const MatchStreamsArgs& args) {
  const int count = args.stream_count;
  const int64_t width = workspace.shape.model_dim, all = workspace.flat.row_count() * width;
  float* streams = HostData<float>(args.streams, count * all);
  const float* first = OptionalHostData<float>(args.first, all);
  float* mean = OptionalHostData<float>(args.mean, all);
  return EachLayerRow(pool, workspace.flat, [&](int row, int) {
    const RowStreams of_row{streams + row * width, all};
    if (first != nullptr) std::copy(first + row * width, first + (row + 1) * width, of_row[0]);
    const float target = kernels.dot(of_row[0], of_row[0], width) / width;
    for (int s = 1; s < count; ++s) {
      float* y = of_row[s];
      const float factor = std::sqrt(target / std::max(kernels.dot(y, y, width) / width, args.floor));
      for (int64_t i = 0; i < width; ++i) y[i] *= factor;
    }
    if (mean == nullptr) return;
    float* to = mean + row * width;
    std::copy(of_row[0], of_row[0] + width, to);
    for (int s = 1; s < count; ++s) {
      for (int64_t i = 0; i < width; ++i) to[i] += of_row[s][i];
    }
    for (int64_t i = 0; i < width; ++i) to[i] /= static_cast<float>(count);
  });
}

bool RunPredictStreams(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                       const PredictStreamsArgs& args) {
  const int count = args.stream_count;
  const int64_t width = workspace.shape.model_dim, all = workspace.flat.row_count() * width;
  VF_CHECK(count <= kStreamsMax, "a row has at most 16 streams");
  float* streams = HostData<float>(args.streams, count * all);
  float* residual = HostData<float>(args.residual, all);
  return EachLayerRow(pool, workspace.flat, [&](int row, int) {
    const RowStreams of_row{streams + row * width, all};
    float c[kStreamsMax * kStreamsMax];
    StreamCoefficients(kernels, args.router, count, args.coefficients, count * count, of_row[args.active], width,
                       workspace.projected.get() + row * width, c);
    for (int64_t begin = 0; begin < width; begin += kStreamBlock) {
      const int64_t size = std::min(kStreamBlock, width - begin);
      float before[kStreamsMax][kStreamBlock];
      for (int s = 0; s < count; ++s) std::copy(of_row[s] + begin, of_row[s] + begin + size, before[s]);
      for (int s = 0; s < count; ++s) {
        float* to = of_row[s] + begin;
        for (int j = 0; j < count; ++j) {
          const float factor = c[s * count + j];
          for (int64_t i = 0; i < size; ++i) to[i] += factor * before[j][i];
        }
      }
    }
    std::copy(of_row[args.active], of_row[args.active] + width, residual + row * width);
  });
}

bool RunCorrectStreams(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                       const CorrectStreamsArgs& args) {
  const int count = args.stream_count;
  const int64_t width = workspace.shape.model_dim, all = workspace.flat.row_count() * width;
  VF_CHECK(count <= kStreamsMax, "a row has at most 16 streams");
  float* streams = HostData<float>(args.streams, count * all);
  const float* made = HostData<float>(args.made, all);
  const float* scale = OptionalHostData<float>(args.scale, width);
  float* out = HostData<float>(args.out, all);
  return EachLayerRow(pool, workspace.flat, [&](int row, int) {
    const RowStreams of_row{streams + row * width, all};
    float* difference = workspace.projected.get() + row * width;
    float c[kStreamsMax];
    StreamCoefficients(kernels, args.router, count, args.coefficients, count, made + row * width, width, difference, c);
    const float* active = of_row[args.active];
    for (int64_t i = 0; i < width; ++i) difference[i] = made[row * width + i] - active[i];
    for (int s = 0; s < count; ++s) {
      const float factor = 1 + c[s];
      float* to = of_row[s];
      for (int64_t i = 0; i < width; ++i) to[i] += factor * difference[i];
    }
    float* to = out + row * width;
    for (int64_t i = 0; i < width; ++i) to[i] = active[i] * (scale == nullptr ? 1.0f : scale[i]);
  });
}

bool RunAddToStreams(ThreadPool& pool, CpuWorkspace& workspace, const AddToStreamsArgs& args) {
  const int64_t width = workspace.shape.model_dim, all = workspace.flat.row_count() * width;
  const float* x = HostData<float>(args.x, all);
  float* streams = HostData<float>(args.streams, args.stream_count * all);
  return EachLayerRow(pool, workspace.flat, [&](int row, int) {
    for (int s = 1; s < args.stream_count; ++s) {
      float* to = streams + s * all + row * width;
      for (int64_t i = 0; i < width; ++i) to[i] += x[row * width + i];
    }
  });
}

bool RunCutGated(ThreadPool& pool, CpuWorkspace& workspace, const CutGatedArgs& args) {
  const int rows = workspace.flat.row_count();
  const int64_t width = args.width;
  const float* x = HostData<float>(args.x, rows * 2 * width);
  float* out = HostData<float>(args.out, rows * width);
  return EachLayerRow(pool, workspace.flat, [&](int row, int) {
    const float *gates = x + row * 2 * width, *ups = gates + width;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < width; ++i) sum += gates[i];
    const double mean = sum / width;
    for (int64_t i = 0; i < width; ++i) squares += (gates[i] - mean) * (gates[i] - mean);
    const double cut = mean + args.deviations * std::sqrt(squares / width);
    float* to = out + row * width;
    // Most gates are below.
    for (int64_t i = 0; i < width; ++i) {
      to[i] = gates[i] > cut ? static_cast<float>(Activate(args.activation, args.terms, gates[i] - cut) * ups[i]) : 0;
    }
  });
}

}  // namespace varifocal::kernels::cpu
