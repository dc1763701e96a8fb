// Strictness of the emulator, and attention's tile loop on it against float64.
//
// Small kernels with one error each must be detected: a missing barrier, a copy that is not waited for. The tile loop
// then runs with every head dim, and its error is compared with the bound from its roundings.
#define VF_EMULATE 1

#include <cmath>
#include <cstdio>

#include "kernels/conformance/cases.h"
#include "kernels/cuda/attention_math.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"
#include "kernels/cuda/fragments.h"

namespace varifocal::kernels::cuda {
namespace {

// One warp multiplies small whole numbers, exact in every format: [16, 16] by [16, 8] twice, operands by ldmatrix.
std::string CheckProduct() {
  float a[16][16], b[16][16], got[16][16];
  for (int i = 0; i < 256; ++i) {
    a[i / 16][i % 16] = static_cast<int>(Mix(1, i) % 17) - 8;
    b[i / 16][i % 16] = static_cast<int>(Mix(2, i) % 17) - 8;
  }
  for (const bool transposed : {false, true}) {
    emulator::Run({{1, 1, 1}, 32, 1024}, [&] {
      const int lane = LaneIndex();
      for (int i = lane; i < 256; i += 32) {
        const int row = i / 16, column = i % 16;
        // A row-major; B as [n, k], or as [k, n] for the transposing load.
        const uint16_t left = RoundBf16(a[row][column]),
                       right = RoundBf16(transposed ? b[row][column] : b[column][row]);
        std::memcpy(SharedMemory() + i * 2, &left, 2);
        std::memcpy(SharedMemory() + 512 + i * 2, &right, 2);
      }
      SyncThreads();
      uint32_t left[4], right[4];
      LoadMatrices(LoadAsA(lane).row * 32 + LoadAsA(lane).column * 16, left);
      if (transposed) {
        LoadMatricesTransposed(512 + LoadAsBTransposed(lane).row * 32 + LoadAsBTransposed(lane).column * 16, right);
      } else {
        LoadMatrices(512 + LoadAsB(lane).row * 32 + LoadAsB(lane).column * 16, right);
      }
      float c[2][4] = {};
      MultiplyAccumulate(c[0], left, right[0], right[1]);
      MultiplyAccumulate(c[1], left, right[2], right[3]);
      for (int n = 0; n < 2; ++n) {
        for (int word = 0; word < 4; ++word) {
          const FragmentIndex at = FragmentC(lane, word);
          got[at.row][n * 8 + at.column] = c[n][word];
        }
      }
    });
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        float want = 0;
        for (int k = 0; k < 16; ++k) want += a[i][k] * b[k][j];
        if (got[i][j] != want)
          return "element " + std::to_string(i) + "," + std::to_string(j) + " of a product is wrong";
      }
    }
  }
  return "";
}

// Threads pass a number to the thread 32 further on: with a barrier all orders agree, without one some do not.
std::string CheckBarrierIsNeeded() {
  const auto wrong = [](bool barrier, uint64_t seed) {
    int count = 0;
    emulator::SetScheduleSeed(seed);
    emulator::Run({{1, 1, 1}, 128, 512}, [&] {
      float* numbers = reinterpret_cast<float*>(SharedMemory());
      numbers[ThreadX()] = ThreadX();
      if (barrier) SyncThreads();
      const int from = (ThreadX() + 32) % 128;
      count += numbers[from] != from;
    });
    emulator::SetScheduleSeed(0);
    return count;
  };
  for (const uint64_t seed : {0, 1, 2, 3}) {
    if (wrong(true, seed) != 0) return "a barrier does not hold";
    if (wrong(false, seed) == 0) return "a missing barrier was not seen";
  }
  return "";
}

std::string CheckCopyMustBeWaitedFor() {
  alignas(16) float from[4] = {1, 2, 3, 4};
  int early = 0, late = 0, zeros = 0;
  emulator::Run({{1, 1, 1}, 32, 1024}, [&] {
    float* to = reinterpret_cast<float*>(SharedMemory()) + ThreadX() * 8;
    CopyAsync(ThreadX() * 32, from, true);
    CopyAsync(ThreadX() * 32 + 16, from, false);
    CommitCopies();
    early += to[0] == 1;
    WaitCopies<0>();
    late += to[0] == 1 && to[3] == 4;
    zeros += to[4] == 0 && to[7] == 0;
  });
  if (early != 0) return "a copy was there before it was waited for";
  return late == 32 && zeros == 32 ? "" : "a copy did not arrive";
}

// Rescaling is exact when the maximum is unchanged, so blocks can be skipped without changing bits.
std::string CheckRescale() {
  for (const float c : {1e-38f, 1e-10f, 0.18f, 1.0f, 4000.0f, 5000.0f, 1e30f}) {
    for (const float m : {0.0f, 1.0f, -3.7f, 1234.5f, -2e5f}) {
      if (Rescale(m, m, c) != 1.0f) return "an unchanged reference rescales";
      if (Rescale(-INFINITY, m, c) != 0.0f) return "what was never summed keeps a weight";
      const Reference reference = ReferenceOf(m, c);
      const float top = Exp2(FusedMultiplyAdd(m - reference.before, c, -reference.after));
      if (!(top > 0.0f) || !std::isfinite(top)) return "the largest score has no weight";
      if (Exp2(FusedMultiplyAdd(-INFINITY, c, -reference.after)) != 0.0f) return "a masked score has a weight";
    }
    if (Rescale(-INFINITY, -INFINITY, c) != 1.0f) return "nothing rescales to something else";
  }
  return "";
}

// Relative error of the whole output, ||got - want|| / ||want||. A weight and an output round to bf16 once each: an
// error uniform within 2^-8 of a mantissa m in [1, 2), with log m uniform, is 2^-8 / sqrt(3) sqrt(E[1 / m^2]) = 1.66e-3
// of the number (E[1 / m^2] = 3 / (8 ln 2)). Values of random sign weigh both alike: sqrt(2) 1.66e-3 = 2.35e-3. What
// f32 adds is below 1e-5.
constexpr double kRelativeErrorMax = 2.4e-3;

std::string CheckAttention(int head_dim) {
  auto tested = CreateBackendOn(MakeEmulatedRuntime(std::make_shared<EmulatedMachine>()), 0, {.dtype = DType::kBF16});
  auto oracle = MakeOracle(DType::kBF16);
  const emulator::Counters before = emulator::GetCounters();
  for (const double temperature : {0.25, 1.0, 3.0}) {
    const AttentionCase c{.name = "tile",
                          .head_dim = head_dim,
                          .query_heads = 3,
                          .kv_heads = 1,
                          .sequences = {{193, 3}},
                          .scale = 1.0 / std::sqrt(head_dim) / temperature,
                          .amplitude = 2.0f};
    const AttentionRun got = RunAttentionCase(**tested, c, {}), want = RunAttentionCase(*oracle, c, {});
    double error = 0, size = 0;
    for (size_t i = 0; i < want.outs[0].size(); ++i) {
      error += std::pow(static_cast<double>(got.outs[0][i]) - want.outs[0][i], 2);
      size += std::pow(static_cast<double>(want.outs[0][i]), 2);
    }
    const double relative = std::sqrt(error / size);
    if (!(relative <= kRelativeErrorMax)) {
      char text[160];
      std::snprintf(text, sizeof text, "head dim %d at temperature %g errs by %.3g of the output, above %.3g", head_dim,
                    temperature, relative, kRelativeErrorMax);
      return text;
    }
    // Agreement to f32 would mean that weights were not rounded where the device rounds them.
    if (relative < 1e-4) return "the tile loop does not round its weights to bf16";
  }
  const emulator::Counters& after = emulator::GetCounters();
  if (after.matrices == before.matrices) return "no matrix was read";
  const int64_t conflicts = after.bank_conflicts - before.bank_conflicts;
  return conflicts == 0 ? "" : std::to_string(conflicts) + " rows waited for their banks, where none may";
}

// Products read without a bank twice as well; and rows that lie under each other without a swizzle are seen to wait.
std::string CheckBanks() {
  auto tested = CreateBackendOn(MakeEmulatedRuntime(std::make_shared<EmulatedMachine>()), 0, {.dtype = DType::kBF16});
  auto oracle = MakeOracle(DType::kBF16);
  const emulator::Counters before = emulator::GetCounters();
  for (const ConformanceCase& c : ProductCases()) {
    if (c.name != "linear" && c.name != "gated") continue;
    RETURN_COMPLAINT(c.check(**tested, *oracle));
  }
  const emulator::Counters between = emulator::GetCounters();
  if (between.matrices == before.matrices) return "no matrix was read";
  if (between.bank_conflicts != before.bank_conflicts) return "a product's rows waited for their banks";
  emulator::Run({{1, 1, 1}, 32, 4096}, [] {
    uint32_t words[4];
    LoadMatrices(LaneIndex() * 128, words);
  });
  const int64_t conflicts = emulator::GetCounters().bank_conflicts - between.bank_conflicts;
  return conflicts == 4 * 7
             ? ""
             : "four matrices of one column count " + std::to_string(conflicts) + " waiting rows, not 28";
}

}  // namespace

std::vector<NamedCheck> TileChecks() {
  std::vector<NamedCheck> checks = {{"emulator_product", CheckProduct},
                                    {"emulator_barrier_is_needed", CheckBarrierIsNeeded},
                                    {"emulator_copy_must_be_waited_for", CheckCopyMustBeWaitedFor},
                                    {"tile_rescale", CheckRescale},
                                    {"tile_banks", CheckBanks}};
  for (const int dim : kHeadDims)
    checks.push_back({"tile_attention_" + std::to_string(dim), [dim] { return CheckAttention(dim); }});
  return checks;
}

}  // namespace varifocal::kernels::cuda
