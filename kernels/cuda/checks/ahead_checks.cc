// Which weights a decode step asks for ahead of which kernel (weights_ahead.h), how much of them, and that no other memory is asked
// for.

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/checks/decode_model.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"

namespace varifocal::kernels::cuda {
namespace {

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

// The ranges that a step's blocks ask for are the weights' own: each byte once.
std::string CheckAheadSlices() {
  // Rows of 480 and 400 bytes: no weight divides evenly among the blocks.
  const DecodeCase c{.name = "", .head_dim = 80, .query_heads = 3, .kv_heads = 1, .width = 240, .ffn = 200};
  for (const char* kernels : {"fused", "separate"}) {
    AheadRun run(c, kernels, 50 << 20);
    run.Step();
    run.Step();
    const auto weights = run.model->weights();
    for (size_t i = 1; i < weights.size(); ++i) {
      const auto* begin = reinterpret_cast<const unsigned char*>(weights[i]->data());
      std::map<const unsigned char*, size_t> ranges;
      for (const EmulatedMachine::Prefetch& one : run.machine->prefetches) {
        if (one.at >= begin && one.at < begin + weights[i]->bytes() && !ranges.emplace(one.at, one.bytes).second)
          return std::string(kernels) + ": bytes of weight " + std::to_string(i) + " are asked for twice";
      }
      const unsigned char* reached = begin;
      for (const auto& [at, bytes] : ranges) {
        if (at != reached) return std::string(kernels) + ": weight " + std::to_string(i) + " is asked for with gaps";
        reached += bytes;
      }
      if (reached != begin + weights[i]->bytes())
        return std::string(kernels) + ": the end of weight " + std::to_string(i) + " is not asked for";
    }
  }
  return "";
}

// Separate kernels with little room: each that follows a product asks for as much as that one has read.
std::string CheckAheadOfEveryKernel() {
  AheadRun run({.name = "", .layers = 3}, "separate", 200 << 10);
  run.Step();
  std::set<int64_t> asking;  // of a layer, from its first product on
  for (const auto& [at, bytes] : run.Step()) asking.insert((at.first - 2) % 10);
  for (const int64_t kernel : {1, 5, 7, 9}) {
    if (!asking.contains(kernel)) return "kernel " + std::to_string(kernel) + " of every layer asks for nothing";
  }
  return "";
}

// A prefill step after one that ended early, and so had asked for a part alone.
std::string CheckNothingAheadOfPrefill() {
  const DecodeCase c{.name = "", .layers = 3};
  AheadRun run(c, "fused", 200 << 10);
  run.Step();
  run.Step();
  run.model->Abandon();
  run.machine->prefetches.clear();
  run.model->Prefill(0);
  if (!run.machine->prefetches.empty()) return "a prefill step asks for weights";
  // The step that ended early has changed no order.
  const auto asked = run.Step();
  if (asked.empty() || asked != run.Step()) return "after a step that ended early:" + Text(asked);
  return "";
}

// The order by itself, of weights of 64 bytes in a host's memory.
std::string CheckOrderOfWeights() {
  constexpr size_t kBytes = 64;
  std::array<std::array<unsigned char, kBytes>, 6> memory;
  std::array<std::shared_ptr<const void>, 6> lives;
  for (auto& life : lives) life = std::make_shared<char>();
  const auto read = [&](WeightOrder& order, size_t weight) {
    order.Read(lives[weight], memory[weight].data(), kBytes);
  };
  const auto step = [&](WeightOrder& order, std::initializer_list<size_t> weights) {
    order.BeginDecodeStep();
    for (const size_t weight : weights) read(order, weight);
  };
  const auto asks = [&](WeightOrder& order) {
    std::string text;
    for (const AheadPiece& piece : order.Ahead(false).pieces) {
      for (size_t i = 0; i < memory.size(); ++i) {
        if (piece.at >= memory[i].data() && piece.at < memory[i].data() + kBytes) text += std::to_string(i);
      }
    }
    return text;
  };
  // What a step that has read `now` asks for, after a step that read 0, 1, 2, 3 and what came between.
  const auto expect = [&](const char* what, std::initializer_list<size_t> now, const std::string& want,
                          const std::function<void(WeightOrder&)>& between = nullptr) -> std::string {
    WeightOrder order(1 << 20);
    step(order, {0, 1, 2, 3});
    if (between != nullptr) between(order);
    step(order, now);
    const std::string got = asks(order);
    return got == want ? "" : std::string(what) + ": asks for \"" + got + "\" instead of \"" + want + "\"";
  };
  for (const std::string& verdict :
       {expect("the order", {0}, "123"), expect("in the middle", {0, 1}, "23"), expect("the end", {0, 1, 2, 3}, ""),
        expect("another weight", {0, 4}, ""), expect("the order again", {0, 4, 2}, ""),
        expect("a step that ended early", {0}, "123",
               [&](WeightOrder& order) {
                 step(order, {0, 1});
               }),
        expect("a longer step", {0, 1, 2}, "34",
               [&](WeightOrder& order) {
                 step(order, {0, 1, 2, 3, 4});
               }),
        expect("another order", {4}, "5", [&](WeightOrder& order) {
          step(order, {4, 5});
        })}) {
    if (!verdict.empty()) return verdict;
  }
  // Weights that die: before a step, and between two kernels of one.
  WeightOrder order(1 << 20);
  step(order, {0, 1, 2, 3});
  lives[2] = std::make_shared<char>();
  step(order, {0});
  if (asks(order).find('2') != std::string::npos) return "a weight that is no more is asked for";
  step(order, {0, 1, 2, 3});
  step(order, {0});
  if (asks(order) != "123") return "a weight in another's place is not asked for";
  step(order, {0, 1, 2, 3});
  order.BeginDecodeStep();
  read(order, 0);
  lives[1] = nullptr;
  if (!asks(order).empty()) return "a weight that ended within the step is asked for";
  return "";
}

}  // namespace

std::vector<NamedCheck> AheadChecks() {
  return {{"decode_ahead", CheckAhead},
          {"decode_ahead_bound", CheckAheadBound},
          {"decode_ahead_slices", CheckAheadSlices},
          {"decode_ahead_of_every_kernel", CheckAheadOfEveryKernel},
          {"decode_ahead_of_prefill", CheckNothingAheadOfPrefill},
          {"decode_ahead_order", CheckOrderOfWeights},
          {"decode_ahead_of_replaced_weights", CheckAheadOfReplacedWeights}};
}

}  // namespace varifocal::kernels::cuda
