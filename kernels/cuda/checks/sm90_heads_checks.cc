// q, k and v that the product kernel sm90 rotates and writes to queries and pages: the bits of the product with the kernel that writes
// heads, the same bits in every step and tile, float64, and by rule which heads it takes.
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
#include "kernels/cuda/emulator/fibers.h"

namespace varifocal::kernels::cuda {
namespace {

struct HeadsCase {
  std::string name;
  int dim = 64, query_heads = 4, kv_heads = 2;
  int rotary = 64;  // 0: none
  bool bias = false, norms = false;
  float clip = 0;
  bool fuses = true;  // by rule
};
std::vector<HeadsCase> Cases() {
  return {
      {.name = "16", .dim = 16, .query_heads = 7, .rotary = 16},
      {.name = "32_partial", .dim = 32, .query_heads = 3, .kv_heads = 1, .rotary = 16, .bias = true},
      {.name = "64"},
      {.name = "64_partial", .rotary = 32, .bias = true},
      {.name = "64_quarter", .query_heads = 1, .kv_heads = 1, .rotary = 16},
      {.name = "96", .dim = 96, .query_heads = 3, .kv_heads = 1, .rotary = 96, .bias = true},
      {.name = "96_partial", .dim = 96, .query_heads = 2, .kv_heads = 2, .rotary = 48},
      {.name = "128", .dim = 128, .query_heads = 3, .kv_heads = 1, .rotary = 128, .bias = true},
      {.name = "128_clipped", .dim = 128, .query_heads = 1, .kv_heads = 1, .rotary = 32, .clip = 0.5f},
      {.name = "128_unrotated", .dim = 128, .query_heads = 2, .kv_heads = 2, .rotary = 0},
      {.name = "256", .dim = 256, .query_heads = 1, .kv_heads = 1, .rotary = 256, .bias = true},
      {.name = "256_quarter", .dim = 256, .query_heads = 1, .kv_heads = 1, .rotary = 64},
      {.name = "80", .dim = 80, .rotary = 80, .fuses = false},
      {.name = "64_rotary_of_48", .rotary = 48, .fuses = false},
      {.name = "64_norms", .bias = true, .norms = true, .fuses = false},
  };
}

constexpr int kInner = 72;                // no multiple of a stage
constexpr int kLengths[] = {150, 3, 70};  // of the sequences, each with rotary angles of its own
constexpr int kChunks[] = {150, 1000, 64, 65, 7};

struct HeadsRun {
  std::vector<float> queries, keys, values;  // by sequence and position
  int64_t launches_of_a_step = 0;            // on the emulator
};

// All sequences `chunk` rows at a time, in the same steps or one after the other.
class HeadsScene {
 public:
  HeadsScene(Backend& backend, const HeadsCase& c) : backend_(backend), c_(c) {
    const int outputs = (c.query_heads + 2 * c.kv_heads) * c.dim;
    const std::vector<float> numbers = ProductInput(backend, UniformVector(1, WideProduct(outputs, kInner), 0.3f));
    weight_ = MakeWeight(backend, numbers, outputs, kInner, WeightUse::kPlain);
    bias_ = Upload(backend, UniformVector(2, outputs));
    norm_ = Upload(backend, UniformVector(3, c.dim));
    for (int s = 0; s < 3; ++s) {
      std::vector<float> cosines, sines;
      const int half = c.rotary / 2, positions = kLengths[s];
      for (int i = 0; i < positions * half; ++i) {
        const double angle = (i / half) * std::pow(10.0 + s, -static_cast<double>(i % half) / half);
        cosines.push_back(std::cos(angle));
        sines.push_back(std::sin(angle));
      }
      if (half > 0) ropes_.push_back(Take(backend.CreateRopeTable({cosines, sines, positions, c.rotary})));
      std::vector<int32_t> table;
      for (int page = 0; page < CeilDivide(positions, kPageTokens); ++page) table.push_back(page * 3 + s);
      tables_.push_back(table);
    }
    for (const auto& rope : ropes_) rope_pointers_.push_back(rope.get());
    pool_ = Take(backend.CreateKvPool({.layer_count = 1, .kv_head_count = c.kv_heads, .head_dim = c.dim}, 6));
    const int rows = kLengths[0] + kLengths[1] + kLengths[2];
    workspace_ = SmallWorkspace(backend, {.row_count_max = rows,
                                          .sequence_count_max = 3,
                                          .context_length_max = kLengths[0],
                                          .model_dim = kInner,
                                          .query_head_count = c.query_heads,
                                          .kv_head_count = c.kv_heads,
                                          .head_dim = c.dim});
    x_ = EmptyOperands(backend, WideProduct(rows, kInner));
    queries_ = Empty(backend, WideProduct(rows, c.query_heads, c.dim));
  }

  HeadsRun Run(int chunk, bool alone) {
    HeadsRun run;
    std::vector<std::vector<float>> queries(3);
    for (int first = 0; first < kLengths[0]; first += chunk) {
      if (!alone) Step({0, 1, 2}, first, chunk, queries, &run);
      for (int s = 2; alone && s >= 0; --s) Step({s}, first, chunk, queries, &run);
    }
    for (int s = 0; s < 3; ++s) {
      run.queries.insert(run.queries.end(), queries[s].begin(), queries[s].end());
      for (size_t page = 0; page < tables_[s].size(); ++page) {
        const int rows = std::min<int>(kPageTokens, kLengths[s] - page * kPageTokens);
        std::vector<float> keys(WideProduct(rows, c_.kv_heads, c_.dim)), values(keys);
        CheckOk(backend_.ReadPage(*pool_, 0, tables_[s][page], rows, keys.data(), values.data()));
        run.keys.insert(run.keys.end(), keys.begin(), keys.end());
        run.values.insert(run.values.end(), values.begin(), values.end());
      }
    }
    return run;
  }

 private:
  void Step(const std::vector<int>& sequences, int first, int chunk, std::vector<std::vector<float>>& queries,
            HeadsRun* run) {
    std::vector<SequenceRows> step;
    std::vector<std::span<const int32_t>> tables;
    std::vector<int> of;
    std::vector<float> x;
    tables.reserve(sequences.size());  // spans of it are kept
    for (const int s : sequences) {
      const int rows = std::min(chunk, kLengths[s] - first);
      if (rows <= 0) continue;
      tables.push_back(tables_[s]);
      step.push_back({.row_count = rows,
                      .first_position = first,
                      .page_tables = {&tables.back(), 1},
                      .rope_table = ropes_.empty() ? 0 : s});
      of.push_back(s);
      const std::vector<float> all = UniformVector(10 + s, WideProduct(kLengths[s], kInner));
      x.insert(x.end(), all.begin() + first * kInner, all.begin() + (first + rows) * kInner);
    }
    if (step.empty()) return;
    WriteOperands(backend_, {x_.get(), 0}, ProductInput(backend_, x));
    CheckOk(backend_.BeginStep(*workspace_, {.sequences = step}));
    const auto given = [](bool is, const std::unique_ptr<Buffer>& buffer) {
      return is ? Slice{buffer.get(), 0} : Slice{};
    };
    const int64_t before = emulator::LaunchCount();
    CheckOk(backend_.QkvRopeWrite(*workspace_, {.x = {x_.get(), 0},
                                                .weight = weight_.get(),
                                                .bias = given(c_.bias, bias_),
                                                .query_norm = given(c_.norms, norm_),
                                                .key_norm = given(c_.norms, norm_),
                                                .norm_epsilon = 1e-5f,
                                                .clip = c_.clip,
                                                .query_head_count = c_.query_heads,
                                                .rope_tables = rope_pointers_,
                                                .pool = pool_.get(),
                                                .queries = {queries_.get(), 0}}));
    run->launches_of_a_step = emulator::LaunchCount() - before;
    backend_.EndStep(*workspace_);
    const int width = c_.query_heads * c_.dim;
    const std::vector<float> out = Download(backend_, *queries_, x.size() / kInner * width);
    size_t at = 0;
    for (size_t i = 0; i < step.size(); ++i) {
      queries[of[i]].insert(queries[of[i]].end(), out.begin() + at, out.begin() + at + step[i].row_count * width);
      at += step[i].row_count * width;
    }
  }

  Backend& backend_;
  const HeadsCase c_;
  std::unique_ptr<Weight> weight_;
  std::vector<std::unique_ptr<RopeTable>> ropes_;
  std::vector<const RopeTable*> rope_pointers_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<Buffer> x_, queries_, bias_, norm_;
  std::vector<std::vector<int32_t>> tables_;
};

std::string Compare(const HeadsRun& want, const HeadsRun& got, const std::string& what) {
  for (const auto& [name, a, b] : {std::tuple{"queries", &want.queries, &got.queries},
                                   {"keys", &want.keys, &got.keys},
                                   {"values", &want.values, &got.values}}) {
    if (a->size() != b->size() || std::memcmp(a->data(), b->data(), a->size() * sizeof(float)) != 0)
      return what + ": " + name + " have other bits";
  }
  return "";
}

// The bits do not depend on chunks and neighbours; then float64. What the page or the query is, is rounded once.
std::string CheckSteps(const HeadsCase& c, Backend& tested, Backend& oracle) {
  HeadsScene scene(tested, c);
  const HeadsRun all = scene.Run(kChunks[0], false);
  for (const int chunk : kChunks) {
    for (const bool alone : {false, true}) {
      const std::string what = "chunks of " + std::to_string(chunk) + (alone ? ", a sequence at a time" : "");
      RETURN_COMPLAINT(Compare(all, scene.Run(chunk, alone), what));
    }
  }
  const HeadsRun truth = HeadsScene(oracle, c).Run(1000, false);
  // Numbers below 8: half a unit of bf16 is 2^-6 there. Rounded after rounding errors, a number may get the neighbouring one.
  for (const auto& [name, want, got, tolerance] : {std::tuple{"queries", &truth.queries, &all.queries, 1e-4},
                                                   {"keys", &truth.keys, &all.keys, 0.032},
                                                   {"values", &truth.values, &all.values, 0.032}}) {
    RETURN_COMPLAINT(CompareWithin(*got, *want, tolerance, name));
  }
  return "";
}

constexpr const char* kFused = "sm90";
constexpr const char* kApart = "sm90:epilogues=apart";

std::string CheckApart(const HeadsCase& c, const std::string& device) {
  auto fused = OpenDevice(device, {.product_kernel = kFused}), apart = OpenDevice(device, {.product_kernel = kApart});
  if (!fused.ok()) return kSkipped + fused.error().message;
  if (!apart.ok()) return apart.error().message;
  return Compare(HeadsScene(**apart, c).Run(1000, false), HeadsScene(**fused, c).Run(1000, false), "in one kernel");
}

// Narrow tiles and wide ones, the number of kernels, and orders of threads.
std::string CheckOnEmulator(const HeadsCase& c) {
  HeadsRun want;
  for (const int multiprocessors : {1, 1000}) {
    for (const char* kernel : {kApart, kFused}) {
      auto machine = std::make_shared<EmulatedMachine>();
      machine->multiprocessor_count = multiprocessors;
      auto backend =
          Take(CreateBackendOn(MakeEmulatedRuntime(machine), 0, {.dtype = DType::kBF16, .product_kernel = kernel}));
      HeadsScene scene(*backend, c);
      for (const uint64_t seed : {0, 3}) {
        emulator::SetScheduleSeed(seed);
        const HeadsRun got = scene.Run(1000, false);
        emulator::SetScheduleSeed(0);
        if (want.queries.empty()) want = got;
        const std::string what = std::string(kernel) + ", " + std::to_string(multiprocessors) + " multiprocessors";
        RETURN_COMPLAINT(Compare(want, got, what));
        if (got.launches_of_a_step != (kernel == kFused && c.fuses ? 1 : 2))
          return what + ": " + std::to_string(got.launches_of_a_step) + " kernels";
      }
    }
  }
  if (std::any_of(want.keys.begin(), want.keys.end(), [](float x) { return !std::isfinite(x); }))
    return "a key is not finite";
  return "";
}

// The product kernel's mutants, seen through what it writes of heads: several tiles in one block, two steps of K each.
std::string CheckHeadsMutants() {
  auto machine = std::make_shared<EmulatedMachine>();
  machine->multiprocessor_count = 1;
  auto backend =
      Take(CreateBackendOn(MakeEmulatedRuntime(machine), 0, {.dtype = DType::kBF16, .product_kernel = kFused}));
  HeadsScene scene(*backend, {.dim = 96, .query_heads = 3, .kv_heads = 1, .rotary = 96, .bias = true});
  const HeadsRun base = scene.Run(1000, false);
  const auto differs = [&](size_t, Sm90Step) { return !Compare(base, scene.Run(1000, false), "").empty(); };
  const auto is_invisible = [](Sm90Step step) { return step == Sm90Step::kPublishStages; };
  return CheckMutantsOf(kFirstProductStep, std::size(kSm90Steps), 1, differs, is_invisible);
}

}  // namespace

std::vector<ConformanceCase> HeadsCases() {
  std::vector<ConformanceCase> cases;
  for (const HeadsCase& c : Cases()) {
    cases.push_back({.name = "heads_" + c.name,
                     .check = [c](Backend& tested, Backend& oracle) { return CheckSteps(c, tested, oracle); }});
  }
  return cases;
}

std::vector<NamedCheck> HeadsApartChecks(const std::string& device) {
  std::vector<NamedCheck> checks;
  for (const HeadsCase& c : Cases())
    checks.push_back({"heads_apart_" + c.name, [c, device] { return CheckApart(c, device); }});
  return checks;
}

std::vector<NamedCheck> Sm90HeadsChecks() {
  std::vector<NamedCheck> checks;
  for (const HeadsCase& c : Cases())
    checks.push_back({"sm90_product_heads_" + c.name, [c] { return CheckOnEmulator(c); }});
  checks.push_back({"sm90_product_heads_mutants", CheckHeadsMutants});
  for (const ConformanceCase& c : HeadsCases()) {
    checks.push_back({"sm90_product_" + c.name + "_steps", [c] {
                        auto oracle = MakeOracle(DType::kBF16);
                        return c.check(*Take(OpenDevice("emulated", {.product_kernel = kFused})), *oracle);
                      }});
  }
  return checks;
}

}  // namespace varifocal::kernels::cuda
