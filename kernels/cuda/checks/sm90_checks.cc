// The sm90 attention kernel on the emulated device: against float64, the same bits over everything that must not change them, and
// the table of its mutants.

#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/attention_choice.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/checks/gathered_scene.h"
#include "kernels/cuda/checks/mutants.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr int kDims[] = {64, 80, 96, 112, 128, 192, 256};

std::unique_ptr<Backend> MakeSm90(int multiprocessors = 1, const std::string& kernel = "sm90") {
  auto machine = std::make_shared<EmulatedMachine>();
  machine->multiprocessor_count = multiprocessors;
  return Take(CreateBackendOn(MakeEmulatedRuntime(machine), 0, {.dtype = DType::kBF16, .attention_kernel = kernel}));
}

// Whether the case ran its products by wgmma, as `expected`.
std::string CheckUses(const AttentionCase& c, bool expected) {
  const int64_t before = emulator::GetHopperCounters().products;
  RunAttentionCase(*MakeSm90(), c, {});
  const bool uses = emulator::GetHopperCounters().products > before;
  return uses == expected
             ? ""
             : std::string(uses ? "the sm90" : "another") + " kernel computed head dim " + std::to_string(c.head_dim);
}

AttentionCase Small(int dim) {
  return {.name = "sm90",
          .head_dim = dim,
          .query_heads = 3,
          .kv_heads = 1,
          .sequences = {{150, 1}, {1, 1}, {70, 1}},
          .row_scales = true,
          .amplitude = 3.0f};
}

std::string CheckDim(int dim) {
  auto tested = MakeSm90();
  auto oracle = MakeOracle(DType::kBF16);
  std::vector<AttentionCase> cases(4, Small(dim));
  cases[1].window = 100;
  cases[1].head_sinks = true;
  cases[2].blind_rows = 20;
  cases[2].head_scales = true;
  cases[2].query_heads = cases[2].kv_heads = 2;
  cases[3].row_scales = false;
  cases[3].scale = 0.1 / 1e-7;  // sharp: one key has all the weight
  cases[3].amplitude = 1.0f;
  if (dim < 256) {
    cases.push_back(Small(dim));
    cases.back().groups = {.group_count = 8, .top_k = 2, .window = 20};
  }
  for (const AttentionCase& c : cases) {
    RETURN_COMPLAINT(CheckUses(c, true));
    if (&c == &cases[3]) {
      // Against float64 only the best key's value would be sure: both kernels of this backend must agree on it.
      auto other = MakeSm90(1, "mma");
      const AttentionRun got = RunAttentionCase(*tested, c, {}), want = RunAttentionCase(*other, c, {});
      for (size_t s = 0; s < want.outs.size(); ++s)
        RETURN_COMPLAINT(CompareWithin(got.outs[s], want.outs[s], 0.02, "a sharp row"));
      continue;
    }
    RETURN_COMPLAINT(CheckAgainstOracle(c, *tested, *oracle));
  }
  return "";
}

// What the kernel does not support, another computes.
std::string CheckFallback() {
  AttentionCase capped = Small(64), narrow = Small(48), groups = Small(256);
  capped.soft_cap = 4;
  groups.groups = {.group_count = 8, .top_k = 2, .window = 20};
  for (const AttentionCase& c : {capped, narrow, groups}) {
    RETURN_COMPLAINT(CheckUses(c, false));
    const AttentionRun mma = RunAttentionCase(*MakeSm90(1, "mma"), c, {});
    if (CountDifferentBits(mma, RunAttentionCase(*MakeSm90(), c, {})) != 0) return "a fallback has other bits than mma";
  }
  auto partial = MakeSm90(1, "sm90:dims=128");
  if (partial->info().name.find("sm90.128") == std::string::npos)
    return "the name lacks the head dims: " + partial->info().name;
  return "";
}

// Ways to divide the work, which no answer may depend on.
std::string CheckTunings(int dim, bool windowed, bool groups) {
  const AttentionCase c = WideBitsCase(dim, windowed, groups);
  const AttentionRun base = RunAttentionCase(*MakeSm90(), c, {});
  const auto differs = [&](Backend& backend, const std::string& what) {
    return SameBitsVerdict(CountDifferentBits(base, RunAttentionCase(backend, c, {})), what);
  };
  if (const AttentionRun again = RunAttentionCase(*MakeSm90(), c, {.attends_twice = true});
      CountDifferentBits(base, again) != 0)
    return "a step's second attention has other bits";
  for (const char* kernel : {"sm90:turns=off", "sm90:items=1", "sm90:items=0:sections=off"})
    RETURN_COMPLAINT(differs(*MakeSm90(1, kernel), kernel));
  RETURN_COMPLAINT(differs(*MakeSm90(1000), "many multiprocessors"));
  for (const uint64_t seed : {1, 2, 3}) {
    emulator::SetScheduleSeed(seed);
    const std::string verdict = differs(*MakeSm90(), "another order of threads");
    emulator::SetScheduleSeed(0);
    if (!verdict.empty()) return verdict;
  }
  // The control: another kernel has other bits.
  return CountDifferentBits(base, RunAttentionCase(*MakeSm90(1, "mma"), c, {})) > 0 ? "" : "mma has the same bits";
}

// Several segments of 8,192 keys: in one item after the other, or apart, with the same bits; and against float64.
std::string CheckSm90Segments(bool groups) {
  AttentionCase c{.name = "segments",
                  .head_dim = 64,
                  .query_heads = 1,
                  .kv_heads = 1,
                  .sequences = {{2 * kSegmentKeys + 40, 0}},
                  .window = kSegmentKeys + 500,
                  .blind_rows = 2 * kSegmentKeys - 20,
                  .amplitude = 4.0f};
  if (groups) c.groups = {.group_count = 4, .top_k = 2, .window = 30};
  const AttentionRun whole = RunAttentionCase(*MakeSm90(), c, {});
  const AttentionRun apart = RunAttentionCase(*MakeSm90(4096), c, {.chunks = {4096}});
  if (const size_t different = CountDifferentBits(whole, apart); different != 0)
    return SameBitsVerdict(different, "segments apart");
  c.sequences = {{kSegmentKeys + 100, 0}};
  c.window = 0;
  c.blind_rows = kSegmentKeys - 10;
  auto oracle = MakeOracle(DType::kBF16);
  return CheckAgainstOracle(c, *MakeSm90(), *oracle);
}

std::string CheckChoice() {
  const auto name = [](const std::string& text, int capability) {
    auto choice = ChooseAttention(text, capability);
    return choice.ok() ? choice->name() : choice.error().message;
  };
  const std::tuple<const char*, int, const char*> rows[] = {
      {"auto", 90, "mma"},
      {"auto", 80, "mma"},
      {"mma", 90, "mma"},
      {"sm90", 90, "sm90"},
      {"sm90:turns=off:items=0:sections=off", 90, "sm90"},
      {"sm90:dims=128+64", 90, "sm90.64.128"},
      {"mma:focus=gathered", 80, "mma-gathered"},
      {"auto:focus=gathered", 90, "mma-gathered"},
      {"mma:focus=masked", 90, "mma"},
      {"sm90:dims=64:focus=gathered", 90, "sm90.64-gathered2"},
      {"sm90", 80, "attention kernel sm90 needs compute capability 9.0, and the device has 8.0"},
      {"sm90", 100, "attention kernel sm90 needs compute capability 9.0, and the device has 10.0"}};
  for (const auto& [text, capability, want] : rows) {
    if (name(text, capability) != want) return std::string(text) + " gives \"" + name(text, capability) + "\"";
  }
  for (const char* text : {"", "mna", "mma:items=1", "mma:focus=", "mma:focus=lists",
                           "auto:", "sm90:", "sm90:items=", "sm90:items=x", "sm90:dims=32"}) {
    auto choice = ChooseAttention(text, 90);
    if (choice.ok() || choice.error().code != ErrorCode::kInvalidArgument) return std::string(text) + " is accepted";
  }
  return "";
}

// ---- mutants ----

// All tiles in one block, whose keys and values go through rings of two slots several times. The first has its tail of values in a
// slot that was not used before; one has three blocks, and groups; at head dim 256 there is one buffer of queries.
std::vector<AttentionCase> MutantCases() {
  std::vector<AttentionCase> cases(3, {.name = "mutants",
                                       .head_dim = 128,
                                       .query_heads = 1,
                                       .kv_heads = 1,
                                       .sequences = {{200, 0}, {190, 0}, {180, 0}},
                                       .row_scales = true,
                                       .amplitude = 4.0f});
  cases[1].sequences = {{300, 0}};
  cases[1].groups = {.group_count = 8, .top_k = 2, .window = 20};
  cases[2].head_dim = 256;
  cases[2].sequences = {{150, 0}, {40, 0}};
  return cases;
}

// What no test on the emulator can see: it does not model when the copies' side sees an initialised barrier.
bool IsInvisible(Sm90Step step) { return step == Sm90Step::kPublishBarriers; }

std::string CheckMutants() {
  auto backend = MakeSm90();
  const std::vector<AttentionCase> cases = MutantCases();
  std::vector<AttentionRun> bases;
  for (const AttentionCase& c : cases) bases.push_back(RunAttentionCase(*backend, c, {}));
  const auto differs = [&](size_t index, Sm90Step step) {
    const AttentionRun run = RunAttentionCase(*backend, cases[index], {.attends_twice = step == Sm90Step::kResetWork});
    return CountDifferentBits(bases[index], run) != 0;
  };
  return CheckMutantsOf(0, kFirstGatheredStep, cases.size(), differs, IsInvisible);
}

}  // namespace

std::vector<NamedCheck> Sm90Checks() {
  std::vector<NamedCheck> checks = {{"sm90_choice", CheckChoice},
                                    {"sm90_fallback", CheckFallback},
                                    {"sm90_segments", [] { return CheckSm90Segments(false); }},
                                    {"sm90_segments_of_groups", [] { return CheckSm90Segments(true); }},
                                    {"sm90_mutants", CheckMutants},
                                    {"sm90_gathered_mutants", CheckGatherSm90Mutants}};
  for (const int dim : kDims) {
    const std::string name = std::to_string(dim);
    checks.push_back({"sm90_attention_" + name, [dim] { return CheckDim(dim); }});
    checks.push_back({"sm90_tunings_" + name, [dim] { return CheckTunings(dim, dim == 128, dim == 96); }, dim != 64});
  }
  const auto add = [&](const ConformanceCase& c, bool is_slow) {
    checks.push_back({"sm90_" + c.name,
                      [c] {
                        auto oracle = MakeOracle(DType::kBF16);
                        return c.check(*MakeSm90(), *oracle);
                      },
                      is_slow});
  };
  for (const ConformanceCase& c : WideBitsCases()) add(c, c.is_slow);
  // The conformance table's attention, of those head dims.
  std::vector<Levels> combinations;
  const size_t first = checks.size();
  auto backend = MakeSm90();
  std::vector<ConformanceCase> cases = AttentionCases();
  for (const ConformanceCase& c : GroupCases()) cases.push_back(c);
  for (const ConformanceCase& c : cases) {
    if (c.head_dim < 64 || c.gathers || !IsSupportedBy(c, *backend)) continue;
    add(c, true);
    combinations.push_back(c.is_slow ? Levels{} : c.levels.empty() ? Levels{"case=" + c.name} : c.levels);
  }
  for (const size_t chosen : CoveringDesign(combinations)) checks[first + chosen].is_slow = false;
  return checks;
}

}  // namespace varifocal::kernels::cuda
