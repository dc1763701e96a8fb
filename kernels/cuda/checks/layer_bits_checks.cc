// Products of a layer's real shapes keep a row's bits whatever the number of rows of the step and wherever its operands
// are in memory: a library selects among algorithms by both, unless one is fixed (cublaslt_products.h). On the
// emulator the shapes are small.

#include <algorithm>
#include <cstring>
#include <span>

#include "base/wide_product.h"
#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/checks/checks.h"

namespace varifocal::kernels::cuda {
namespace {

// Outputs and inner dimension: q, k and v; the attention's output; gate and up; down; a slice of the LM head.
constexpr std::pair<int, int> kLayers[] = {{7680, 2560}, {2560, 2560}, {13824, 2560}, {2560, 6912}, {8192, 2560}};
constexpr int kRows[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129, 255, 257, 1000, 4096, 8192};
constexpr int kEmulatedRowCounts = 17;     // the first ones
constexpr int kOffsets[] = {0, 1, 8, 77};  // rows
// Ways out of a product: bf16; added to f32; f32 for a following norm; gate times up.
enum class Way { kBf16, kResidual, kNormed, kGated };
constexpr const char* kWayNames[] = {"bf16", "residual", "f32", "gated"};
// Elements before the first row of x: aligned to 256 bytes, and to 16 alone.
constexpr int kPaddings[] = {0, 8};

class LayerProduct {
 public:
  LayerProduct(Backend& backend, int outputs, int inner, int row_count)
      : backend_(backend), outputs_(outputs), inner_(inner), row_count_(row_count) {
    const std::vector<float> numbers = UniformVector(1, WideProduct(outputs, inner));
    weight_ = MakeWeight(backend, numbers, outputs, inner, WeightUse::kPlain);
    gate_up_ = MakeWeight(backend, numbers, outputs, inner, WeightUse::kGateUp);
    norm_ = Upload(backend, UniformVector(3, outputs));
    std::vector<float> x = ProductInput(backend, UniformVector(2, WideProduct(row_count, inner)));
    x_[0] = UploadOperands(backend, x);
    x.insert(x.begin(), kPaddings[1], 0.0f);
    x_[1] = UploadOperands(backend, x);
    out_ = Empty(backend, WideProduct(row_count, outputs) + kPaddings[1]);
    workspace_ = SmallWorkspace(
        backend, {.row_count_max = row_count, .context_length_max = row_count, .model_dim = inner, .ffn_dim = outputs});
  }

  // The outputs of rows [first, first + count), computed in one step; f32 ones are added to zeros.
  Error Rows(int padding, int first, int count, Way way, std::vector<char>* rows) {
    const SequenceRows sequence{.row_count = count};
    const Slice x{x_[padding].get(), (WideProduct(first, inner_) + kPaddings[padding]) * sizeof(uint16_t)};
    const Slice out{out_.get(), kPaddings[padding] * Width(way)};
    rows->resize(count * RowBytes(way));
    if (Error error = backend_.Zero(out, rows->size()); !error.ok()) return error;
    if (Error error = backend_.BeginStep(*workspace_, {.sequences = {&sequence, 1}}); !error.ok()) return error;
    const Error done = Multiply(way, x, out);
    return done.ok() ? backend_.Read(rows->data(), out, rows->size()) : done;
  }

  std::string Check(std::span<const int> row_counts) {
    for (const Way way : {Way::kBf16, Way::kResidual, Way::kNormed, Way::kGated}) {
      std::vector<char> all, some;
      if (Error error = Rows(0, 0, row_count_, way, &all); !error.ok()) return error.message;
      if (std::all_of(all.begin(), all.end(), [](char byte) { return byte == 0; })) return "all outputs are zero";
      const size_t row_bytes = RowBytes(way);
      for (const int count : row_counts) {
        for (const int first : kOffsets) {
          for (const int padding : {0, 1}) {
            if (first + count > row_count_) continue;
            if (Error error = Rows(padding, first, count, way, &some); !error.ok()) return error.message;
            for (int row = 0; row < count; ++row) {
              if (std::memcmp(&some[row * row_bytes], &all[(first + row) * row_bytes], row_bytes) == 0) continue;
              return std::string(kWayNames[static_cast<int>(way)]) + " row " + std::to_string(first + row) +
                     " has other bits in a step of " + std::to_string(count) + " rows from " + std::to_string(first) +
                     ", " + std::to_string(kPaddings[padding]) + " elements further, than in one of " +
                     std::to_string(row_count_);
            }
          }
        }
      }
    }
    return "";
  }

 private:
  static size_t Width(Way way) { return way == Way::kBf16 || way == Way::kGated ? sizeof(uint16_t) : sizeof(float); }
  size_t RowBytes(Way way) const { return (way == Way::kGated ? outputs_ / 2 : outputs_) * Width(way); }
  Error Multiply(Way way, const Slice& x, const Slice& out) {
    switch (way) {
      case Way::kBf16:
        return backend_.Linear(*workspace_, {.x = x, .weight = weight_.get(), .out = out});
      case Way::kResidual:
        return backend_.LinearResidual(*workspace_, {.x = x, .weight = weight_.get(), .residual = out});
      case Way::kNormed:
        return backend_.LinearNormResidual(
            *workspace_,
            {.x = x, .weight = weight_.get(), .norm_weight = {norm_.get()}, .norm_epsilon = 1e-6f, .residual = out});
      case Way::kGated:
        return backend_.LinearGated(*workspace_, {.x = x, .weight = gate_up_.get(), .out = out});
    }
    return {};
  }

  Backend& backend_;
  const int outputs_, inner_, row_count_;
  std::unique_ptr<Weight> weight_, gate_up_;
  std::unique_ptr<Buffer> norm_, x_[2], out_;
  std::unique_ptr<Workspace> workspace_;
};

ConformanceCase LayerCase(const std::string& name, int outputs, int inner, std::span<const int> row_counts) {
  return {.name = "layer_bits_" + name, .check = [=](Backend& tested, Backend&) {
            return LayerProduct(tested, outputs, inner, row_counts.back()).Check(row_counts);
          }};
}

}  // namespace

std::vector<ConformanceCase> LayerBitsCases(bool emulated) {
  constexpr std::span<const int> row_counts = kRows;
  if (emulated) return {LayerCase("emulated", 96, 64, row_counts.first(kEmulatedRowCounts))};
  std::vector<ConformanceCase> cases;
  for (const auto& [outputs, inner] : kLayers)
    cases.push_back(LayerCase(std::to_string(outputs) + "x" + std::to_string(inner), outputs, inner, row_counts));
  return cases;
}

}  // namespace varifocal::kernels::cuda
