// Decode steps of a few rows, layer after layer as in kernels/backend.h: by fused kernels and by separate ones the same bits,
// whatever the order of threads and blocks; how many kernels a layer takes; counters that are zero afterwards; which weights are
// asked for ahead of which kernel.

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>
#include <tuple>

#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/checks/decode_model.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"
#include "kernels/cuda/emulator/primitives.h"

namespace varifocal::kernels::cuda {
namespace {

size_t Different(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  size_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) different += std::memcmp(&a[i], &b[i], sizeof a[i]) != 0;
  return different;
}
std::string Compare(const StepResult& want, const StepResult& got, const std::string& what) {
  for (const auto& [name, a, b] : {std::tuple{"of the residual", &want.residual, &got.residual},
                                   std::tuple{"of attention", &want.attended, &got.attended},
                                   std::tuple{"of keys and values", &want.keys_values, &got.keys_values}}) {
    if (const size_t count = Different(*a, *b); count != 0)
      return what + ": " + std::to_string(count) + " numbers " + name + " have other bits";
  }
  for (const float number : want.residual) {
    if (!std::isfinite(number)) return what + ": a number is not finite";
  }
  return "";
}

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
      {.name = "odd_width", .width = 270, .contexts = {200, 3}, .kernels_per_layer = 7},
      {.name = "rows_9", .contexts = {1, 2, 3, 4, 5, 6, 7, 8, 9}, .layers = 1, .kernels_per_layer = 10},
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
  for (int step = 0; step < 3; ++step) {
    if (std::string verdict = Compare(want, other.Decode(0, count), "step " + std::to_string(step)); !verdict.empty())
      return verdict;
  }
  const StepResult alone = other.Decode(count - 1, 1);
  const size_t width = c.width;
  if (std::memcmp(alone.residual.data(), &want.residual[(count - 1) * width], width * sizeof(float)) != 0)
    return "a row alone has other bits";
  return "";
}

// On the emulator: the number of kernels, counters, and orders of threads and blocks.
std::string CheckOnEmulator(const DecodeCase& c) {
  if (std::string verdict = CheckBits(c, "emulated"); !verdict.empty()) return verdict;
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
    if (std::string verdict = Compare(want, got, "seed " + std::to_string(seed)); !verdict.empty()) return verdict;
    if (!zero()) return "a counter is not zero after a step";
    const auto text = [&](int64_t launches) {
      return std::to_string(launches) + " kernels for " + std::to_string(c.layers) + " layers";
    };
    // One norm more, before the first layer, unless the first product computes it.
    const int fused_norms = c.kernels_per_layer == 5 ? 0 : 1;
    if (got.launches > int64_t{c.kernels_per_layer} * c.layers + fused_norms) return text(got.launches);
    if (c.kernels_per_layer == 5 && got.launches != 5 * c.layers) return text(got.launches);
    if (c.width % 4 == 0 && want.launches != 10 * c.layers + 1) return "separate: " + text(want.launches);
  }
  return "";
}

// Sums over splits in index order, computed a second time: of a product's parts, and of attention's as a step left them.
std::string CheckOrderOfSplits() {
  constexpr int kSplits = 9, kWidth = 64;
  const std::vector<float> parts = UniformVector(5, kSplits * kWidth, 3.0f);
  std::vector<float> residual(kWidth);
  ResidualParams p;
  p.product = {.data = parts.data(), .split_count = kSplits, .split_stride = kWidth, .columns = kWidth};
  p.row_count = 1;
  p.residual = residual.data();
  const auto runtime = MakeEmulatedRuntime(std::make_shared<EmulatedMachine>());
  if (runtime->kernels().residual(p, {}) != 0) return "the kernel does not start";
  for (int i = 0; i < kWidth; ++i) {
    float sum = parts[i];
    for (int split = 1; split < kSplits; ++split) sum += parts[split * kWidth + i];
    if (residual[i] != sum) return "a product's parts are added in another order";
  }
  const DecodeCase c{.name = "", .contexts = {2900}, .layers = 1};
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
    if (std::string verdict = Compare(want, one.Decode(0, 2), "after an abandoned step"); !verdict.empty())
      return verdict;
  }
  if (one.workspace().arrived() == other.workspace().arrived()) return "two workspaces share their counters";
  StepResult beside;
  std::thread thread([&] {
    for (int i = 0; i < 3; ++i) beside = other.Decode(0, 2);
  });
  StepResult got;
  for (int i = 0; i < 3; ++i) got = one.Decode(0, 2);
  thread.join();
  if (std::string verdict = Compare(want, got, "beside another workspace"); !verdict.empty()) return verdict;
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
    if (std::string verdict = Compare(want, other.Decode(0, 3, true), "step " + std::to_string(i)); !verdict.empty())
      return verdict;
  }
  if (machine->calls["QueueGraph"] != 4 || machine->calls["MakeGraph"] != 1) return "steps are not one graph";
  if (machine->calls["ReplaceLaunch"] != replaced) return "equal steps replace launches";
  return "";
}

// ---- weights asked for ahead ----

struct AheadRun {
  std::shared_ptr<EmulatedMachine> machine = std::make_shared<EmulatedMachine>();
  std::unique_ptr<Backend> backend;
  std::unique_ptr<DecodeModel> model;

  AheadRun(const DecodeCase& c, const char* kernels, size_t l2_bytes, int capability = 90) {
    machine->l2_bytes = l2_bytes;
    machine->capability = capability;
    backend =
        Take(CreateBackendOn(MakeEmulatedRuntime(machine), 0, {.dtype = DType::kBF16, .decode_kernels = kernels}));
    model = std::make_unique<DecodeModel>(*backend, c);
  }
  // Of one step: bytes by kernel of the step, from 1 on, and weight in the order of reading.
  using Asked = std::map<std::pair<int64_t, size_t>, size_t>;
  Asked Step(int rows = 1) {
    machine->prefetches.clear();
    const StepResult result = model->Decode(0, rows);
    const std::vector<const CudaWeight*> weights = model->weights();
    Asked asked;
    for (const EmulatedMachine::Prefetch& one : machine->prefetches) {
      size_t weight = 0;
      const auto inside = [&](const CudaWeight& w) {
        const auto* begin = reinterpret_cast<const unsigned char*>(w.data());
        return one.at >= begin && one.at + one.bytes <= begin + w.bytes();
      };
      while (weight < weights.size() && !inside(*weights[weight])) ++weight;
      asked[{one.launch - result.first_launch + 1, weight}] += one.bytes;
    }
    return asked;
  }
};

std::string Text(const AheadRun::Asked& asked) {
  std::string text;
  for (const auto& [at, bytes] : asked)
    text +=
        " kernel " + std::to_string(at.first) + " weight " + std::to_string(at.second) + ": " + std::to_string(bytes);
  return text.empty() ? " nothing" : text;
}

// With room for all: a kernel asks for three weights at most, each once and whole, before the kernel that reads it.
std::string CheckAhead() {
  const DecodeCase c{.name = ""};
  AheadRun run(c, "fused", 50 << 20);
  if (const auto first = run.Step(); !first.empty()) return "the first step asks for" + Text(first);
  const std::vector<const CudaWeight*> weights = run.model->weights();
  AheadRun::Asked want;
  const std::pair<int64_t, size_t> at[] = {{1, 1}, {1, 2}, {1, 3}, {2, 4}, {2, 5}, {2, 6}, {3, 7}, {3, 8}};
  for (const auto& one : at) want[one] = weights[one.second]->bytes();
  for (int step = 0; step < 2; ++step) {
    if (const auto got = run.Step(); got != want) return "asked for" + Text(got) + " instead of" + Text(want);
  }
  AheadRun separate(c, "separate", 50 << 20);
  separate.Step();
  // Kernels 3, of q, k and v, and 4, attention, after the norm and the product.
  const std::pair<int64_t, size_t> apart[] = {{3, 1}, {3, 2}, {3, 3}, {4, 4}, {4, 5}, {4, 6}, {7, 7}, {7, 8}};
  want.clear();
  for (const auto& one : apart) want[one] = weights[one.second]->bytes();
  if (const auto got = separate.Step(); got != want) return "separate kernels asked for" + Text(got);
  for (const auto& [kernels, capability] :
       {std::pair{"fused:prefetch=off", 90}, {"separate:prefetch=off", 90}, {"fused", 80}}) {
    AheadRun none(c, kernels, 50 << 20, capability);
    none.Step();
    if (const auto got = none.Step(); !got.empty()) return std::string(kernels) + " asks for" + Text(got);
  }
  return "";
}

// In a small cache: never more than its share is asked for and not yet read.
std::string CheckAheadBound() {
  const DecodeCase c{.name = "", .layers = 3};
  constexpr size_t kCache = 200 << 10;
  const size_t bound = AheadBytes(kCache, 90);
  AheadRun run(c, "fused", kCache);
  run.Step();
  const auto asked = run.Step();
  const auto read_by = [&](size_t weight) {
    return static_cast<int64_t>(weight / 4 * 5 + std::array{1, 3, 4, 5}[weight % 4]);
  };
  size_t most = 0, all = 0;
  for (int64_t kernel = 1; kernel <= 15; ++kernel) {
    size_t unread = 0, of_kernel = 0;
    for (const auto& [at, bytes] : asked) {
      if (at.first >= read_by(at.second))
        return "weight " + std::to_string(at.second) + " is asked for when it is read";
      if (at.first <= kernel && read_by(at.second) > kernel) unread += bytes;
      if (at.first == kernel) of_kernel += bytes;
    }
    if (kernel % 5 != 2 && of_kernel > bound / kProductShare) return "a product asks for " + std::to_string(of_kernel);
    most = std::max(most, unread);
    all += of_kernel;
  }
  if (most > bound) return std::to_string(most) + " bytes are asked for and not read, of " + std::to_string(bound);
  if (most < bound / 2 || all < 3 * bound) return "only " + std::to_string(all) + " bytes are asked for";
  return "";
}

// A weight that is replaced between steps: what was freed is never asked for (the emulator refuses it), the new order is learned.
std::string CheckAheadOfReplacedWeights() {
  const DecodeCase c{.name = ""};
  AheadRun run(c, "fused", 50 << 20);
  run.Step();
  const auto before = run.Step();
  run.model->ReplaceDown(0);
  run.Step();
  const auto after = run.Step();
  if (after.size() != before.size()) return "after a replacement:" + Text(after);
  // Other layers than the last step's: nothing but bytes of living weights, and the same bits.
  const DecodeCase one_row{.name = "", .contexts = {200, 90}};
  AheadRun other(one_row, "fused", 50 << 20);
  const StepResult want = other.model->Decode(0, 2);
  other.model->Abandon();
  other.model->Decode(1, 1);
  return Compare(want, other.model->Decode(0, 2), "after other steps");
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
  checks.push_back({"decode_ahead", CheckAhead});
  checks.push_back({"decode_ahead_bound", CheckAheadBound});
  checks.push_back({"decode_ahead_of_replaced_weights", CheckAheadOfReplacedWeights});
  return checks;
}

}  // namespace varifocal::kernels::cuda
