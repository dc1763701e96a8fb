// The sm90 product kernel on the emulated device: against float64, the same bits over steps of any size and over its tiles, its
// epilogues against the same numbers stored apart, boxes of tensor maps, and the table of its mutants.
#define VF_EMULATE 1

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/wide_product.h"
#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/checks/mutants.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"
#include "kernels/cuda/page_layout.h"
#include "kernels/cuda/product_choice.h"
#include "kernels/cuda/sm90.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr int kManyMultiprocessors = 1000;  // then tiles are narrow

std::unique_ptr<Backend> MakeProducts(int multiprocessors = 1, const std::string& kernel = "sm90") {
  auto machine = std::make_shared<EmulatedMachine>();
  machine->multiprocessor_count = multiprocessors;
  return Take(CreateBackendOn(MakeEmulatedRuntime(machine), 0, {.dtype = DType::kBF16, .product_kernel = kernel}));
}

enum class Kind { kBf16, kResidual, kGated, kGeluGated };
bool IsGated(Kind kind) { return kind == Kind::kGated || kind == Kind::kGeluGated; }
struct Shape {
  int rows, outputs, inner;
};

std::vector<float> BiasOf(int outputs) { return UniformVector(4, outputs); }

// The first `rows` rows of fixed numbers, in one step.
std::vector<char> Run(Backend& backend, const Shape& shape, Kind kind, bool bias = false) {
  const auto [rows, outputs, inner] = shape;
  const std::vector<float> numbers = UniformVector(1, WideProduct(outputs, inner));
  auto weight = MakeWeight(backend, numbers, outputs, inner, WeightUse::kPlain);
  if (IsGated(kind)) {
    const int half = outputs / 2;
    const HostMatrix halves[] = {MatrixOf(numbers, half, inner),
                                 {DType::kF32, numbers.data() + WideProduct(half, inner), half, inner}};
    weight = Take(backend.CreateWeight(halves, WeightUse::kGateUp));
  }
  auto x = UploadOperands(backend, ProductInput(backend, UniformVector(2, WideProduct(rows, inner))));
  const size_t bytes = WideProduct(rows, outputs) * (kind == Kind::kResidual ? 4 : kind == Kind::kBf16 ? 2 : 1);
  auto out = Take(backend.Allocate(bytes));
  auto biases = Upload(backend, BiasOf(outputs));
  const std::vector<float> before = UniformVector(3, bytes / 4 + 1);
  CheckOk(backend.Write({out.get(), 0}, before.data(), bytes));
  auto workspace = SmallWorkspace(
      backend, {.row_count_max = rows, .context_length_max = rows, .model_dim = inner, .ffn_dim = outputs});
  const SequenceRows sequence{.row_count = rows};
  CheckOk(backend.BeginStep(*workspace, {.sequences = {&sequence, 1}}));
  const Slice from{x.get(), 0}, to{out.get(), 0}, added = bias ? Slice{biases.get(), 0} : Slice{};
  if (kind == Kind::kBf16) {
    CheckOk(backend.Linear(*workspace, {.x = from, .weight = weight.get(), .bias = added, .out = to}));
  } else if (kind == Kind::kResidual) {
    CheckOk(backend.LinearResidual(
        *workspace, {.x = from, .weight = weight.get(), .bias = added, .multiplier = 0.7f, .residual = to}));
  } else {
    const Activation activation = kind == Kind::kGated ? Activation::kSilu : Activation::kGeluTanh;
    CheckOk(backend.LinearGated(
        *workspace, {.x = from, .weight = weight.get(), .bias = added, .activation = activation, .out = to}));
  }
  std::vector<char> result(bytes);
  CheckOk(backend.Read(result.data(), to, bytes));
  return result;
}

// An element's bits, whatever the step: 1 row, parts of tiles, several tiles; wide tiles and narrow ones.
std::string CheckSameBits(int outputs, int inner) {
  constexpr int kRows = 300;
  auto wide = MakeProducts(), narrow = MakeProducts(kManyMultiprocessors);
  for (const Kind kind : {Kind::kBf16, Kind::kResidual, Kind::kGated, Kind::kGeluGated}) {
    const bool bias = kind == Kind::kGeluGated;
    const std::vector<char> all = Run(*wide, {kRows, outputs, inner}, kind, bias);
    const int64_t before = emulator::GetHopperCounters().products;
    if (Run(*narrow, {kRows, outputs, inner}, kind, bias) != all) return "narrow tiles have other bits";
    if (emulator::GetHopperCounters().products == before) return "another kernel computed it";
    const size_t row_bytes = all.size() / kRows;
    for (const int rows : {1, 2, 63, 64, 65, 127, 128, 129, 200}) {
      const std::vector<char> some = Run(rows % 2 == 0 ? *wide : *narrow, {rows, outputs, inner}, kind, bias);
      if (!std::equal(some.begin(), some.end(), all.begin()))
        return "rows of a step of " + std::to_string(rows) + " have other bits than those of 300";
      if (some.size() != rows * row_bytes) return "a step's size";
    }
  }
  return "";
}

// Each epilogue against float64, of parts of tiles: what is left is the rounding of outputs below 16, and of gated ones below 128.
std::string CheckAgainstFloat64() {
  constexpr Shape kShape{130, 264, 88};
  const auto [rows, outputs, inner] = kShape;
  auto backend = MakeProducts();
  const std::vector<float> weights = ProductInput(*backend, UniformVector(1, WideProduct(outputs, inner))),
                           x = ProductInput(*backend, UniformVector(2, WideProduct(rows, inner)));
  const auto product = [&](int row, int output) {
    double sum = 0;
    for (int k = 0; k < kShape.inner; ++k)
      sum += static_cast<double>(x[row * kShape.inner + k]) * weights[output * kShape.inner + k];
    return sum;
  };
  const std::vector<float> biases = BiasOf(outputs);
  for (const auto& [kind, bias, tolerance] : {std::tuple{Kind::kBf16, false, 0.04},
                                              {Kind::kResidual, false, 1e-4},
                                              {Kind::kResidual, true, 1e-4},
                                              {Kind::kGated, false, 0.27},
                                              {Kind::kGated, true, 0.27},
                                              {Kind::kGeluGated, true, 0.27}}) {
    const std::vector<char> out = Run(*backend, kShape, kind, bias);
    const std::vector<float> before = UniformVector(3, out.size() / 4 + 1);
    const int columns = IsGated(kind) ? outputs / 2 : outputs;
    std::vector<float> want, got;
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        const size_t at = WideProduct(row, columns) + column;
        double value = product(row, column) + (bias ? biases[column] : 0);
        if (IsGated(kind)) {
          const double up = product(row, columns + column) + (bias ? biases[columns + column] : 0);
          value *= kind == Kind::kGated
                       ? up / (1 + std::exp(-value))
                       : 0.5 * up * (1 + std::tanh(std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value)));
        }
        if (kind == Kind::kResidual) value = before[at] + 0.7 * value;
        want.push_back(value);
        uint16_t half;
        float whole;
        std::memcpy(&half, out.data() + (kind == Kind::kResidual ? 0 : at * sizeof half), sizeof half);
        std::memcpy(&whole, out.data() + (kind == Kind::kResidual ? at * sizeof whole : 0), sizeof whole);
        got.push_back(kind == Kind::kResidual ? whole : WidenBF16(half));
      }
    }
    RETURN_COMPLAINT(CompareWithin(got, want, tolerance, "an epilogue"));
  }
  return "";
}

// An epilogue has the bits of a kernel of its own, which is one launch more.
std::string CheckEpilogues() {
  auto fused = MakeProducts(), apart = MakeProducts(1, "sm90:epilogues=apart");
  const Shape shape{130, 264, 88};
  for (const Kind kind : {Kind::kBf16, Kind::kResidual, Kind::kGated, Kind::kGeluGated}) {
    std::vector<char> plain;
    for (const bool bias : {false, true}) {
      const std::string what = "epilogue " + std::to_string(static_cast<int>(kind)) + (bias ? " with a bias" : "");
      const auto count = [&](Backend& backend, std::vector<char>* out) {
        const int64_t before = emulator::LaunchCount();
        *out = Run(backend, shape, kind, bias);
        return emulator::LaunchCount() - before;
      };
      std::vector<char> want, got;
      const int64_t two = count(*apart, &want), one = count(*fused, &got);
      if (got != want) return what + " has other bits than a kernel of its own";
      if (kind != Kind::kBf16 && (one != 1 || two != 2))
        return what + ": " + std::to_string(one) + " and " + std::to_string(two) + " launches";
      if (bias && got == plain) return what + ", the control: the bias changes nothing";
      plain = got;
    }
  }
  return "";
}

// What the kernel does not support another one computes, with that one's bits.
std::string CheckFallbackOfProducts() {
  auto own = MakeProducts(), other = MakeProducts(1, "library");
  for (const Shape& shape : {Shape{70, 100, 64}, Shape{70, 96, 36}}) {
    const int64_t before = emulator::GetHopperCounters().products;
    if (Run(*own, shape, Kind::kResidual) != Run(*other, shape, Kind::kResidual)) return "a fallback has other bits";
    if (emulator::GetHopperCounters().products != before) return "the kernel sm90 computed what it does not support";
  }
  if (own->info().name != "cuda-mma-bf16-sm90" || other->info().name != "cuda-mma-bf16")
    return "the names " + own->info().name + " and " + other->info().name;
  const auto choose = [](const std::string& text, int capability) {
    auto choice = ChooseProducts(text, capability);
    return choice.ok() ? "sm90: " + std::to_string(choice->sm90) + (choice->epilogues ? "" : " apart")
                       : choice.error().message;
  };
  const std::tuple<const char*, int, const char*> rows[] = {
      {"auto", 90, "sm90: 0"},
      {"library", 90, "sm90: 0"},
      {"sm90", 90, "sm90: 1"},
      {"sm90", 80, "product kernel sm90 needs compute capability 9.0, and the device has 8.0"},
      {"sm90:epilogues=apart", 90, "sm90: 1 apart"},
      {"own", 90, "product kernel \"own\" is none of auto, library, sm90, sm90:epilogues=apart"}};
  for (const auto& [text, capability, want] : rows) {
    if (choose(text, capability) != want) return std::string(text) + " gives \"" + choose(text, capability) + "\"";
  }
  return "";
}

// Every tile once, whatever the grid.
std::string CheckOrder() {
  for (const Shape& shape : {Shape{1, 8, 8}, Shape{129, 257, 8}, Shape{2049, 1000, 8}, Shape{8192, 7680, 8}}) {
    for (const int multiprocessors : {1, 132}) {
      for (const int dim : {16, 96, 128, 256}) {
        if (PlanSm90Product(shape.rows, shape.outputs, multiprocessors, dim).tile_outputs % dim != 0)
          return "a part of a head in a tile";
      }
      const Sm90ProductGrid grid = PlanSm90Product(shape.rows, shape.outputs, multiprocessors);
      std::vector<int> seen(grid.tiles());
      for (int tile = 0; tile < grid.tiles(); ++tile) {
        const auto [row, output] = Sm90ProductPlaceOf(grid, tile);
        if (row < 0 || row >= grid.row_tiles || output < 0 || output >= grid.output_tiles) return "a tile outside";
        ++seen[row * grid.output_tiles + output];
      }
      if (std::any_of(seen.begin(), seen.end(), [](int count) { return count != 1; })) return "a tile twice or never";
      if (grid.block_count < 1 || grid.block_count > std::min(multiprocessors, grid.tiles())) return "blocks";
    }
  }
  return "";
}

// A box is stored in the swizzle of a page's panels; elements outside of the matrix are zero.
std::string CheckBoxes() {
  constexpr int kRows = 40, kColumns = 72, kBoxRows = 16;
  alignas(16) static uint16_t matrix[kRows * kColumns];
  for (int i = 0; i < kRows * kColumns; ++i) matrix[i] = 1 + i;
  TensorMap map;
  if (!emulator::EncodeTensorMap({matrix, kRows, kColumns - 4, kColumns * 2, kBoxRows}, &map)) return "no map";
  for (const TensorMapSpec& wrong : {TensorMapSpec{matrix + 1, 8, 8, 16, 8}, TensorMapSpec{matrix, 8, 8, 24, 8},
                                     TensorMapSpec{matrix, 8, 8, 16, 257}, TensorMapSpec{nullptr, 8, 8, 16, 8}}) {
    TensorMap ignored;
    if (emulator::EncodeTensorMap(wrong, &ignored)) return "a wrong matrix has a map";
  }
  for (const std::pair<int, int>& place : {std::pair{0, 0}, {32, 64}}) {
    const int row = place.first, column = place.second;
    std::string fault;
    std::vector<uint16_t> got(kBoxRows * 64);
    emulator::CatchFaults(&fault);
    emulator::Run({{1, 1, 1}, 32, 8192}, [&] {
      constexpr Sm90Step kStep = Sm90Step::kCopyRows;
      if (ThreadX() != 0) return;
      InitBarrier(kStep, 4096, 1);
      ArriveExpecting(kStep, 4096, kBoxRows * 128);
      CopyTensor(kStep, 1024, map, column, row, 4096);
      AwaitPhase(kStep, 4096, 0);
      for (int i = 0; i < kBoxRows * 64; ++i) {
        const int at = TileOffset(64, kBoxRows, i / 64, i % 64 / 8) + i % 8 * 2;
        std::memcpy(&got[i], SharedMemory() + 1024 + at, 2);
      }
    });
    emulator::CatchFaults(nullptr);
    if (!fault.empty()) return fault;
    for (int i = 0; i < kBoxRows * 64; ++i) {
      const int from_row = row + i / 64, from_column = column + i % 64;
      const bool inside = from_row < kRows && from_column < kColumns - 4;
      if (got[i] != (inside ? matrix[from_row * kColumns + from_column] : 0)) return "a number of a box is wrong";
    }
  }
  return "";
}

// Several tiles in one block, whose stages go through the ring several times; one step of K, and few.
std::string CheckProductMutants() {
  auto backend = MakeProducts();
  constexpr std::pair<Shape, Kind> kCases[] = {{{200, 264, 64 * 5 + 24}, Kind::kResidual},
                                               {{130, 40, 64}, Kind::kBf16}};
  std::vector<std::vector<char>> bases;
  for (const auto& [shape, kind] : kCases) bases.push_back(Run(*backend, shape, kind));
  const auto differs = [&](size_t index, Sm90Step) {
    return Run(*backend, kCases[index].first, kCases[index].second) != bases[index];
  };
  // It is not modelled when the copies' side sees an initialised barrier.
  const auto is_invisible = [](Sm90Step step) { return step == Sm90Step::kPublishStages; };
  return CheckMutantsOf(kFirstProductStep, std::size(kSm90Steps), std::size(kCases), differs, is_invisible);
}

}  // namespace

std::vector<NamedCheck> Sm90ProductChecks() {
  std::vector<NamedCheck> checks = {{"sm90_product_boxes", CheckBoxes},
                                    {"sm90_product_order", CheckOrder},
                                    {"sm90_product_bits", [] { return CheckSameBits(264, 88); }},
                                    {"sm90_product_bits_of_one_step", [] { return CheckSameBits(48, 40); }},
                                    {"sm90_product_epilogues", CheckEpilogues},
                                    {"sm90_product_float64", CheckAgainstFloat64},
                                    {"sm90_product_fallback", CheckFallbackOfProducts},
                                    {"sm90_product_mutants", CheckProductMutants}};
  const auto add = [&](const ConformanceCase& c) {
    checks.push_back({"sm90_product_" + c.name,
                      [c] {
                        auto oracle = MakeOracle(DType::kBF16);
                        return c.check(*MakeProducts(), *oracle);
                      },
                      c.is_slow});
  };
  for (const ConformanceCase& c : ProductCases()) add(c);
  for (const ConformanceCase& c : LayerBitsCases(true)) add(c);
  return checks;
}

}  // namespace varifocal::kernels::cuda
