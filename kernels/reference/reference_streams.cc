#include "kernels/reference/reference_streams.h"

#include "base/wide_product.h"

namespace varifocal::kernels {
namespace {

double ReferenceMeanSquare(const float* x, int64_t width) { return Dot(x, x, width) / width; }

// coefficients [rows, S] times the router's numbers of x.
std::vector<double> ReferenceStreamCoefficients(const StreamRouter& router, int streams, const Slice& coefficients,
                                                int rows, const float* x, int64_t width) {
  const float* norm = HostData<float>(router.norm_weight, width);
  const float* weights = HostData<float>(router.router, streams * width);
  const float* matrix = HostData<float>(coefficients, WideProduct(rows, streams));
  std::vector<double> normed(width), numbers(streams), out(rows);
  Normalize(NormKind::kRms, x, norm, nullptr, width, router.norm_epsilon, normed.data());
  for (int s = 0; s < streams; ++s) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += weights[s * width + i] * normed[i];
    numbers[s] = std::tanh(sum);
  }
  for (int r = 0; r < rows; ++r) {
    for (int s = 0; s < streams; ++s) out[r] += matrix[r * streams + s] * numbers[s];
  }
  return out;
}

}  // namespace

void ReferenceMatchStreams(const FlatBatch& flat, const StepShape& shape, const MatchStreamsArgs& args) {
  const int rows = flat.row_count(), count = args.stream_count;
  const int64_t width = shape.model_dim, all = rows * width;
  float* streams = HostData<float>(args.streams, count * all);
  const float* first = OptionalHostData<float>(args.first, all);
  float* mean = OptionalHostData<float>(args.mean, all);
  if (first != nullptr) std::copy(first, first + all, streams);
  for (int t = 0; t < rows; ++t) {
    const double target = ReferenceMeanSquare(streams + t * width, width);
    for (int s = 1; s < count; ++s) {
      float* y = streams + s * all + t * width;
      const double factor = std::sqrt(target / std::max<double>(ReferenceMeanSquare(y, width), args.floor));
      for (int64_t i = 0; i < width; ++i) y[i] = y[i] * factor;
    }
    for (int64_t i = 0; mean != nullptr && i < width; ++i) {
      double sum = 0;
      for (int s = 0; s < count; ++s) sum += streams[s * all + t * width + i];
      mean[t * width + i] = sum / count;
    }
  }
}

void ReferencePredictStreams(const FlatBatch& flat, const StepShape& shape, const PredictStreamsArgs& args) {
  const int rows = flat.row_count(), count = args.stream_count;
  const int64_t width = shape.model_dim, all = rows * width;
  float* streams = HostData<float>(args.streams, count * all);
  float* residual = HostData<float>(args.residual, all);
  std::vector<double> before(count);
  for (int t = 0; t < rows; ++t) {
    const std::vector<double> c = ReferenceStreamCoefficients(args.router, count, args.coefficients, count * count,
                                                              streams + args.active * all + t * width, width);
    for (int64_t i = 0; i < width; ++i) {
      float* at = streams + t * width + i;
      for (int s = 0; s < count; ++s) before[s] = at[s * all];
      for (int s = 0; s < count; ++s) {
        double sum = before[s];
        for (int j = 0; j < count; ++j) sum += c[s * count + j] * before[j];
        at[s * all] = sum;
      }
      residual[t * width + i] = at[args.active * all];
    }
  }
}

void ReferenceCorrectStreams(const FlatBatch& flat, const StepShape& shape, const CorrectStreamsArgs& args) {
  const int rows = flat.row_count(), count = args.stream_count;
  const int64_t width = shape.model_dim, all = rows * width;
  float* streams = HostData<float>(args.streams, count * all);
  const float* made = HostData<float>(args.made, all);
  const float* scale = OptionalHostData<float>(args.scale, width);
  float* out = HostData<float>(args.out, all);
  for (int t = 0; t < rows; ++t) {
    const std::vector<double> c =
        ReferenceStreamCoefficients(args.router, count, args.coefficients, count, made + t * width, width);
    for (int64_t i = 0; i < width; ++i) {
      float* at = streams + t * width + i;
      const double difference = static_cast<double>(made[t * width + i]) - at[args.active * all];
      for (int s = 0; s < count; ++s) at[s * all] = at[s * all] + (1 + c[s]) * difference;
      out[t * width + i] = at[args.active * all] * (scale == nullptr ? 1.0 : static_cast<double>(scale[i]));
    }
  }
}

void ReferenceAddToStreams(const FlatBatch& flat, const StepShape& shape, const AddToStreamsArgs& args) {
  const int64_t all = flat.row_count() * int64_t{shape.model_dim};
  const float* x = HostData<float>(args.x, all);
  float* streams = HostData<float>(args.streams, args.stream_count * all);
  for (int s = 1; s < args.stream_count; ++s) {
    for (int64_t i = 0; i < all; ++i) streams[s * all + i] += x[i];
  }
}

void ReferenceCutGated(const FlatBatch& flat, const CutGatedArgs& args) {
  const int rows = flat.row_count();
  const int64_t width = args.width;
  const float* gates = HostData<float>(args.x, rows * 2 * width);
  float* out = HostData<float>(args.out, rows * width);
  for (int t = 0; t < rows; ++t, gates += 2 * width, out += width) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < width; ++i) mean += static_cast<double>(gates[i]) / width;
    for (int64_t i = 0; i < width; ++i) squares += (gates[i] - mean) * (gates[i] - mean);
    const double cut = mean + args.deviations * std::sqrt(squares / width);
    for (int64_t i = 0; i < width; ++i) {
      out[i] = Activate(args.activation, args.terms, std::max(gates[i] - cut, 0.0)) * gates[width + i];
    }
  }
}

}  // namespace varifocal::kernels
