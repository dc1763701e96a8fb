#include <chrono>
#include <cmath>
#include <functional>

#include "kernels/cuda/bench/bench.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr double kSecondsMin = 0.02;

// Doubles the number of calls until `time_of(count)` reaches the least time.
template <typename TimeOf>
double PerCall(bool tiny, const TimeOf& time_of) {
  for (int count = 1;; count *= 2) {
    const double seconds = time_of(count);
    if (tiny || seconds >= kSecondsMin) return seconds / count;
  }
}

}  // namespace

void Must(const Error& error) {
  if (!error.ok()) throw CellRefused{error.message};
}

double TimeOnDevice(const BenchPlace& place, const std::function<void()>& operation) {
  const auto answered = [](int code) {
    if (code != 0) throw CellRefused{"the device's clock answers " + std::to_string(code)};
  };
  operation();
  return PerCall(place.tiny, [&](int count) {
    answered(place.runtime.Stamp(0));
    for (int i = 0; i < count; ++i) operation();
    answered(place.runtime.Stamp(1));
    double seconds = 0;
    answered(place.runtime.SecondsBetweenStamps(&seconds));
    return seconds;
  });
}

double TimeOnHost(const BenchPlace& place, const std::function<void()>& operation) {
  return PerCall(place.tiny, [&](int count) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) operation();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
}

std::vector<float> RandomOperands(Backend& backend, uint64_t seed, size_t count) {
  return ProductInput(backend, UniformVector(seed, count));
}

std::vector<float> ReadOperands(Backend& backend, Slice from, size_t count) {
  VF_CHECK(backend.operand_dtype() == DType::kBF16, "a bf16 backend is timed");
  std::vector<uint16_t> halves(count);
  Must(backend.Read(halves.data(), from, count * sizeof(uint16_t)));
  std::vector<float> numbers;
  for (const uint16_t half : halves) numbers.push_back(WidenBF16(half));
  return numbers;
}

double RelativeError(const std::vector<double>& want, const std::vector<double>& got) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

std::unique_ptr<Bench> MakeBench(const BenchPlace& place, const Cell& cell) {
  static const struct {
    const char* kind;
    std::unique_ptr<Bench> (*make)(const BenchPlace&, const Cell&);
  } kKinds[] = {
      {"product", MakeProductBench},     {"decode_product", MakeProductBench}, {"copy", MakeCopyBench},
      {"attention", MakeAttentionBench}, {"decode", MakeAttentionBench},       {"model_prefill", MakeModelPrefill},
      {"model_decode", MakeModelDecode}, {"continuations", MakeContinuations}, {"determinism", MakeDeterminism},
      {"two_models", MakeTwoModels},     {"layer_ops", MakeLayerOps},          {"load", MakeLoad}};
  for (const auto& row : kKinds) {
    if (cell.kind == row.kind) return row.make(place, cell);
  }
  throw CellRefused{"no such kind of cell: " + cell.kind};
}

}  // namespace varifocal::kernels::cuda
