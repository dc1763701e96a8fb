// The mutants of the decode kernels (decode_steps.h): fused steps of a few models, each with one synchronisation, clear or order of
// sums left out or turned around. The survivors are those that the table declares.

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>

#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/checks/decode_model.h"
#include "kernels/cuda/checks/mutants.h"
#include "kernels/cuda/decode_steps.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr uint64_t kSeedMax = 3;

std::vector<DecodeCase> MutantCases() {
  return {
      // The last of three groups of columns has two tiles instead of three; rows of one split and of three; K ends within a stage.
      {.name = "groups",
       .head_dim = 96,
       .query_heads = 3,
       .kv_heads = 1,
       .width = 176,
       .contexts = {1100, 40},
       .layers = 1},
      // Products of many parts, in eight rows.
      {.name = "parts", .width = 1024, .ffn = 1600, .contexts = {9, 10, 11, 12, 13, 14, 15, 16}, .layers = 2},
      // Splits whose sums cancel in order.
      {.name = "splits", .contexts = {2900}, .layers = 1, .scale = 1e-30f, .cancel_keys = kSplitKeys},
      // Warps of a block, with 16 keys each of 64.
      {.name = "warps", .contexts = {128}, .layers = 1, .scale = 1e-30f, .cancel_keys = 16, .cancel_parts = 4},
  };
}

// Whether a case has other numbers than without a mutant.
struct Differs {
  std::string name;
  std::function<bool()> run;
  uint64_t last_seed = kSeedMax;
};

std::string CheckDecodeMutants() {
  const auto backend = Take(OpenDevice("emulated", {.decode_kernels = "fused"}));
  std::vector<std::unique_ptr<DecodeModel>> models;
  std::vector<Differs> cases;
  for (const DecodeCase& c : MutantCases()) {
    models.push_back(std::make_unique<DecodeModel>(*backend, c));
    DecodeModel& model = *models.back();
    const int count = static_cast<int>(c.contexts.size());
    model.Decode(0, count);  // teaches the order of weights
    const StepResult base = model.Decode(0, count);
    if (base.launches != int64_t{c.kernels_per_layer} * c.layers) return c.name + " is not fused";
    cases.push_back({c.name, [&model, count, base] {
                       // A counter that is not reset shows in the second step.
                       for (int step = 0; step < 2; ++step) {
                         if (!Compare(base, model.Decode(0, count), "a mutant").empty()) return true;
                       }
                       return false;
                     }});
  }
  // Of a norm's sum few rows show another order; this check searches for them.
  for (const NamedCheck& check : WaitingNormChecks()) {
    if (check.name == "decode_norm_order_of_warps")
      cases.push_back({check.name, [run = check.run] { return !run().empty(); }, 0});
  }
  const auto sees = [&](uint64_t seed, const Differs& c) { return seed > c.last_seed ? "" : SeenApart(seed, c.run); };
  for (uint64_t seed = 0; seed <= kSeedMax; ++seed) {
    for (const Differs& c : cases) {
      if (const std::string how = sees(seed, c); !how.empty())
        return "without a mutant, " + c.name + ", seed " + std::to_string(seed) + ": " + how;
    }
  }
  std::string wrong;
  int survivors = 0;
  for (size_t s = 0; s < std::size(kDecodeSteps); ++s) {
    std::string how;
    emulator::OmitStep(kFirstDecodeStep + static_cast<int>(s));
    for (uint64_t seed = 0; seed <= kSeedMax && how.empty(); ++seed) {
      for (size_t i = 0; i < cases.size() && how.empty(); ++i) {
        how = sees(seed, cases[i]);
        if (!how.empty()) how += " of " + cases[i].name + ", seed " + std::to_string(seed);
      }
    }
    emulator::OmitStep(0);
    const std::string unseen = kDecodeSteps[s].unseen;
    survivors += how.empty();
    if (std::getenv("VARIFOCAL_MUTANTS") != nullptr)
      std::printf("%s: %s\n", kDecodeSteps[s].name, how.empty() ? ("SURVIVES, " + unseen).c_str() : how.c_str());
    if (how.empty() == unseen.empty()) wrong += std::string(" ") + kDecodeSteps[s].name;
  }
  if (std::getenv("VARIFOCAL_MUTANTS") != nullptr)
    std::printf("decode: %zu mutants, %d survive\n", std::size(kDecodeSteps), survivors);
  return wrong.empty() ? "" : "mutants not as declared:" + wrong;
}

}  // namespace

std::vector<NamedCheck> DecodeMutantChecks() { return {{"decode_mutants", CheckDecodeMutants}}; }

}  // namespace varifocal::kernels::cuda
