// Decode steps of a few rows, layer after layer as in kernels/backend.h: by fused kernels and by separate ones the same bits,
// whatever the order of threads and blocks; how many kernels a layer takes; counters that are zero afterwards.

#include <cmath>
#include <cstring>
#include <thread>
#include <tuple>

#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/checks/decode_model.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"
#include "kernels/cuda/emulator/primitives.h"

namespace varifocal::kernels::cuda {
namespace {

std::vector<DecodeCase> DecodeCases() {
  return {
      {.name = "one_row"},
      {.name = "one_head_of_128", .head_dim = 128, .query_heads = 1, .kv_heads = 1, .width = 128},
      {.name = "rows_8", .contexts = {0, 1, 127, 128, 511, 512, 700, 1100}},
      {.name = "rows_3_biases",
       .head_dim = 128,
       .query_heads = 2,
       .kv_heads = 1,
       .contexts = {5, 600, 130},
       .biases = true},
      {.name = "window", .contexts = {1100, 40}, .window = 300},
      {.name = "head_norms",
       .head_dim = 128,
       .query_heads = 2,
       .kv_heads = 2,
       .contexts = {30, 140},
       .head_norms = true},
      {.name = "all_norms_after_rotation",
       .head_dim = 32,
       .contexts = {70, 3},
       .biases = true,
       .head_norms = true,
       .value_norms = true,
       .norm_after_rotation = true},
      {.name = "heads_of_80", .head_dim = 80, .query_heads = 3, .kv_heads = 1, .width = 240, .contexts = {200, 20}},
      {.name = "heads_of_96_clipped", .head_dim = 96, .query_heads = 3, .kv_heads = 1, .width = 192, .clip = 0.5f},
      {.name = "heads_of_16", .head_dim = 16, .query_heads = 18, .kv_heads = 1, .width = 160, .contexts = {530, 1030}},
      {.name = "heads_of_256", .head_dim = 256, .query_heads = 2, .kv_heads = 1, .layers = 1},
      {.name = "heads_of_512", .head_dim = 512, .query_heads = 1, .kv_heads = 1, .contexts = {600}, .layers = 1},
      {.name = "partial_rotation", .head_dim = 64, .rotary_dim = 32},
      {.name = "no_rotation", .rotates = false},
      {.name = "plain_mlp", .contexts = {20, 30}, .gated = false},
      {.name = "wide_inner", .width = 1024, .ffn = 1600, .contexts = {9, 10, 11, 12, 13}, .layers = 1},
      {.name = "norms_of_several_readers", .kernels_per_layer = 7, .read_once = false},
      {.name = "layer_norms", .kernels_per_layer = 7, .biases = true, .layer_norm = true},
      {.name = "norm_over_width", .kernels_per_layer = 7, .head_norms = true, .norm_over_width = true},
      {.name = "rotation_of_12", .kernels_per_layer = 7, .rotary_dim = 12},
      // 270 columns are no multiple of 4: norms and residuals are read one by one.
      {.name = "odd_width", .width = 270, .contexts = {200, 3}, .kernels_per_layer = 7, .norm_first = true},
      {.name = "rows_9",
       .contexts = {1, 2, 3, 4, 5, 6, 7, 8, 9},
       .layers = 1,
       .kernels_per_layer = 10,
       .norm_first = true},
  };
}

// Fused and separate kernels, all sequences in a step and one of them alone.
std::string CheckBits(const DecodeCase& c, const std::string& device) {
  auto separate = OpenDevice(device, {.decode_kernels = "separate:prefetch=off"});
  auto fused = OpenDevice(device, {.decode_kernels = "fused"});
  if (!separate.ok()) return separate.error().message;
  if (!fused.ok()) return fused.error().message;
  DecodeModel one(**separate, c), other(**fused, c);
  const int count = static_cast<int>(c.contexts.size());
  const StepResult want = one.Decode(0, count);
  for (int step = 0; step < 3; ++step)
    RETURN_COMPLAINT(Compare(want, other.Decode(0, count), "step " + std::to_string(step)));
  const StepResult alone = other.Decode(count - 1, 1);
  const size_t width = c.width;
  if (std::memcmp(alone.residual.data(), &want.residual[(count - 1) * width], width * sizeof(float)) != 0)
    return "a row alone has other bits";
  return "";
}

// On the emulator: the number of kernels, counters, and orders of threads and blocks.
std::string CheckOnEmulator(const DecodeCase& c) {
  RETURN_COMPLAINT(CheckBits(c, "emulated"));
  const auto open = [](const char* kernels) { return Take(OpenDevice("emulated", {.decode_kernels = kernels})); };
  const auto separate = open("separate"), fused = open("fused");
  DecodeModel one(*separate, c), other(*fused, c);
  const int count = static_cast<int>(c.contexts.size());
  const StepResult want = one.Decode(0, count);
  const auto zero = [&] {
    const uint32_t* arrived = other.workspace().arrived();
    return std::all_of(arrived, arrived + kCounterCount, [](uint32_t number) { return number == 0; });
  };
  for (const uint64_t seed : {0, 1, 2, 3}) {
    emulator::SetScheduleSeed(seed);
    const StepResult got = other.Decode(0, count);
    emulator::SetScheduleSeed(0);
    RETURN_COMPLAINT(Compare(want, got, "seed " + std::to_string(seed)));
    if (!zero()) return "a counter is not zero after a step";
    const auto text = [&](int64_t launches) {
      return std::to_string(launches) + " kernels for " + std::to_string(c.layers) + " layers";
    };
    if (got.launches != int64_t{c.kernels_per_layer} * c.layers + c.norm_first) return text(got.launches);
    if (c.width % 4 == 0 && want.launches != 10 * c.layers + 1) return "separate: " + text(want.launches);
  }
  return "";
}

// Sums over splits in index order, computed a second time: of a product's parts, and of attention's as a step left them.
std::string CheckOrderOfSplits() {
  constexpr int kSplits = 9;
  const auto runtime = MakeEmulatedRuntime(std::make_shared<EmulatedMachine>());
  for (const int width : {64, 63}) {  // four numbers at a time, or one
    const std::vector<float> parts = UniformVector(5, kSplits * width, 3.0f);
    std::vector<float> residual(width);
    ResidualParams p;
    p.product = {
        .data = parts.data(), .split_count = kSplits, .split_stride = static_cast<size_t>(width), .columns = width};
    p.row_count = 1;
    p.residual = residual.data();
    if (runtime->kernels().residual(p, {}) != 0) return "the kernel does not start";
    for (int i = 0; i < width; ++i) {
      float sum = parts[i];
      for (int split = 1; split < kSplits; ++split) sum += parts[split * width + i];
      if (residual[i] != sum) return "a product's parts are added in another order";
    }
  }
  // Weights are all 1. In another order the large values leave nothing of the small ones' bits.
  const DecodeCase c{.name = "", .contexts = {2900}, .layers = 1, .scale = 1e-30f, .cancel_keys = kSplitKeys};
  const auto backend = Take(OpenDevice("emulated", {.decode_kernels = "fused"}));
  DecodeModel model(*backend, c);
  const StepResult result = model.Decode(0, 1);
  const int splits = c.contexts[0] / kSplitKeys + 1, stride = model.workspace().split_count_max() * (c.head_dim + 2);
  const float exponent = c.scale * 1.4426950408889634f;
  for (int head = 0; head < c.query_heads; ++head) {
    const float* first = model.workspace().partials.as<float>() + head * stride;
    const auto part = [&](int split) { return first + split * (c.head_dim + 2); };
    float largest = part(0)[c.head_dim], sum = 0;
    for (int split = 1; split < splits; ++split) largest = std::max(largest, part(split)[c.head_dim]);
    std::vector<float> values(c.head_dim);
    for (int split = 0; split < splits; ++split) {
      const float factor = emulator::Exp2(part(split)[c.head_dim] * exponent - largest * exponent);
      sum += part(split)[c.head_dim + 1] * factor;
      for (int i = 0; i < c.head_dim; ++i) values[i] += part(split)[i] * factor;
    }
    for (int i = 0; i < c.head_dim; ++i) {
      const float want = WidenBF16(RoundToBF16(values[i] * (1.0f / sum)));
      if (result.attended[head * c.head_dim + i] != want) return "attention's splits are merged in another order";
    }
  }
  return "";
}

// A step that ends early leaves its counters and the step after it as they were; two workspaces have counters of their own.
std::string CheckAbandonedAndConcurrent() {
  const DecodeCase c{.name = "", .contexts = {600, 30}};
  const auto backend = Take(OpenDevice("emulated", {.decode_kernels = "fused"}));
  DecodeModel one(*backend, c), other(*backend, c);
  const StepResult want = one.Decode(0, 2);
  for (int i = 0; i < 2; ++i) {
    one.Abandon();
    RETURN_COMPLAINT(Compare(want, one.Decode(0, 2), "after an abandoned step"));
  }
  if (one.workspace().arrived() == other.workspace().arrived()) return "two workspaces share their counters";
  StepResult beside;
  std::thread thread([&] {
    for (int i = 0; i < 3; ++i) beside = other.Decode(0, 2);
  });
  StepResult got;
  for (int i = 0; i < 3; ++i) got = one.Decode(0, 2);
  thread.join();
  RETURN_COMPLAINT(Compare(want, got, "beside another workspace"));
  return Compare(want, beside, "the other workspace");
}

// As graphs: the same bits, and from the third step on nothing is replaced, so what is asked for ahead is the same too.
std::string CheckGraphs() {
  const DecodeCase c{.name = "", .contexts = {600, 30, 7}};
  auto machine = std::make_shared<EmulatedMachine>();
  const auto graphs =
      Take(CreateBackendOn(MakeEmulatedRuntime(machine), 0, {.dtype = DType::kBF16, .cuda_graphs = true}));
  const auto plain = Take(OpenDevice("emulated", {.decode_kernels = "separate:prefetch=off"}));
  DecodeModel one(*plain, c), other(*graphs, c);
  const StepResult want = one.Decode(0, 3);
  int replaced = 0;
  for (int i = 0; i < 4; ++i) {
    replaced = machine->calls["ReplaceLaunch"];
    RETURN_COMPLAINT(Compare(want, other.Decode(0, 3, true), "step " + std::to_string(i)));
  }
  if (machine->calls["QueueGraph"] != 4 || machine->calls["MakeGraph"] != 1) return "steps are not one graph";
  if (machine->calls["ReplaceLaunch"] != replaced) return "equal steps replace launches";
  return "";
}

std::string CheckChoice() {
  const struct {
    const char* text;
    bool valid, fused, prefetch;
  } rows[] = {{"auto", true, kFusedIsDefault, kFusedIsDefault},
              {"fused", true, true, true},
              {"separate", true, false, true},
              {"auto:prefetch=off", true, kFusedIsDefault, false},
              {"separate:prefetch=off", true, false, false},
              {"", false, false, false},
              {"both", false, false, false},
              {"fused:", false, false, false},
              {"fused:prefetch=on", false, false, false},
              {"fused:prefetch=off:prefetch=off", false, false, false}};
  for (const auto& row : rows) {
    auto choice = ChooseDecode(row.text);
    const std::string text = row.text;
    if (choice.ok() != row.valid) return "\"" + text + "\" is " + (choice.ok() ? "taken" : "refused");
    if (choice.ok() && (choice->fused != row.fused || choice->prefetch != row.prefetch)) return "\"" + text + "\"";
    if (choice.ok()) continue;
    if (choice.error().code != ErrorCode::kInvalidArgument ||
        choice.error().message.find("\"" + text + "\"") == std::string::npos)
      return "a refusal without its text: " + choice.error().message;
    if (OpenDevice("emulated", {.decode_kernels = text}).ok()) return "a backend takes \"" + text + "\"";
  }
  return "";
}

}  // namespace

std::vector<NamedCheck> DecodeBitsChecks(const std::string& device) {
  std::vector<NamedCheck> checks;
  for (const DecodeCase& c : DecodeCases())
    checks.push_back({"decode_bits_" + c.name, [c, device] { return CheckBits(c, device); }});
  return checks;
}

std::vector<NamedCheck> DecodeChecks() {
  std::vector<NamedCheck> checks;
  for (const DecodeCase& c : DecodeCases()) checks.push_back({"decode_" + c.name, [c] { return CheckOnEmulator(c); }});
  checks.push_back({"decode_abandoned_and_concurrent", CheckAbandonedAndConcurrent});
  checks.push_back({"decode_choice", CheckChoice});
  checks.push_back({"decode_order_of_splits", CheckOrderOfSplits});
  checks.push_back({"decode_graphs", CheckGraphs});
  return checks;
}

}  // namespace varifocal::kernels::cuda
