// The search for plans (bench/plan_search.h): classes and ranges of numbers that are given, and a whole search with a product
// library in host memory whose algorithms add in one order or another.

#include <cmath>

#include "kernels/cuda/bench/plan_search.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/emulator/emulated_runtime.h"
#include "kernels/tensor.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr int kRows[] = {1, 64, 8192};

PlanCandidate Candidate(std::vector<uint64_t> digests, std::vector<double> seconds) {
  return {.digests = digests, .same_rows = std::move(digests), .seconds = std::move(seconds)};
}

std::string Text(const PlanChoice& choice) {
  std::string text = std::to_string(choice.class_count) + " classes, of " + std::to_string(choice.class_size) + ":";
  for (const PlanRange& range : choice.ranges)
    text += " " + std::to_string(range.candidate) + " from " + std::to_string(range.rows_from);
  return text;
}

std::string CheckChoices() {
  const std::vector<uint64_t> a = {1, 2, 3}, b = {1, 2, 4};
  PlanCandidate wavering = Candidate(a, {0.1, 0.1, 0.1});
  wavering.digests[1] = 9;  // a row has other bits in a step of 64
  const struct {
    const char* what;
    std::vector<PlanCandidate> candidates;
    const char* want;
  } rows[] = {
      {"none", {}, "0 classes, of 0:"},
      {"one", {Candidate(a, {1, 2, 3})}, "1 classes, of 1: 0 from 1"},
      {"a range each",
       {Candidate(a, {3, 3, 5}), Candidate(a, {2, 2, 6}), Candidate(a, {1, 4, 7})},
       "1 classes, of 3: 2 from 1 1 from 2 0 from 65"},
      {"ranges that merge", {Candidate(a, {3, 3, 5}), Candidate(a, {2, 2, 6})}, "1 classes, of 2: 1 from 1 0 from 65"},
      {"faster for few rows, with other bits",
       {Candidate(a, {3, 3, 5}), Candidate(b, {1, 1, 9})},
       "2 classes, of 1: 0 from 1"},
      {"other bits at one number of rows",
       {Candidate(a, {3, 3, 5}), Candidate(b, {1, 1, 5}), Candidate(b, {4, 4, 4.99})},
       "2 classes, of 2: 1 from 1 2 from 65"},
      {"bits that depend on the step", {wavering, Candidate(b, {1, 1, 1})}, "1 classes, of 1: 1 from 1"},
      {"no bits that are kept", {wavering}, "0 classes, of 0:"},
      {"a tie is the first's",
       {Candidate(a, {1, 1, 1}), Candidate(b, {1, 1, 1}), Candidate(a, {1, 1, 1})},
       "2 classes, of 2: 0 from 1"},
      {"a gain below the tolerance",
       {Candidate(a, {1, 1, 1}), Candidate(a, {0.99, 0.99, 1.5})},
       "1 classes, of 2: 0 from 1"},
      {"the largest step decides, beyond the tolerance",
       {Candidate(a, {1, 1, 1}), Candidate(b, {0.1, 0.1, 1.03})},
       "2 classes, of 1: 0 from 1"},
      {"all sizes decide, within it",
       {Candidate(a, {1, 1, 1}), Candidate(b, {0.1, 0.1, 1.01})},
       "2 classes, of 1: 1 from 1"},
      {"there and back",
       {Candidate(a, {1, 3, 1}), Candidate(a, {2, 2, 2})},
       "1 classes, of 2: 0 from 1 1 from 2 0 from 65"}};
  for (const auto& row : rows) {
    const std::string got = Text(ChoosePlans(kRows, row.candidates));
    if (got != row.want) return std::string(row.what) + ": " + got;
  }
  return "";
}

// Multiplies in host memory. Algorithms 0 and 1 add in the order of K, 2 in two halves, 3 in halves in steps of 200 rows and more.
class HostProducts final : public ProductLibrary {
 public:
  std::string name() const override { return "host"; }
  int MakePlan(const ProductPlan& plan) override {
    shape_ = plan;
    return 0;
  }
  std::vector<int> Candidates(const ProductPlan& plan) override {
    MakePlan(plan);
    return {0, 1, 2, 3};
  }
  std::string PlanRow(int plan, int rows_from) const override {
    return std::to_string(plan) + " from " + std::to_string(rows_from);
  }
  int Multiply(int plan, int rows, const void* x, const void* weight, float alpha, float beta, void* out) override {
    last_plan = plan;
    last_rows = rows;
    const auto* left = static_cast<const uint16_t*>(x);
    const auto* right = static_cast<const uint16_t*>(weight);
    const bool halves = plan == 2 || (plan == 3 && rows >= 200);
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < shape_.outputs; ++column) {
        float sums[2] = {};
        for (int k = 0; k < shape_.inner; ++k) {
          sums[halves && k >= shape_.inner / 2] +=
              WidenBF16(left[row * shape_.inner + k]) * WidenBF16(right[column * shape_.weight_stride + k]);
        }
        Store(static_cast<char*>(out), row * shape_.outputs + column, alpha * (sums[0] + sums[1]), beta);
      }
    }
    return 0;
  }
  std::string PlanText(int) const override { return ""; }
  std::string StatusText(int) const override { return ""; }

  int last_plan = 0, last_rows = 0;

 private:
  void Store(char* out, int at, float value, float beta) const {
    if (shape_.type == ProductType::kF32) {
      float& to = reinterpret_cast<float*>(out)[at];
      to = beta == 0 ? value : value + beta * to;
    } else {
      reinterpret_cast<uint16_t*>(out)[at] = RoundToBF16(value);
    }
  }
  ProductPlan shape_;
};

std::string CheckSearch() {
  HostProducts library;
  auto machine = std::make_shared<EmulatedMachine>();
  machine->products = &library;
  auto runtime = MakeEmulatedRuntime(machine);
  DeviceProperties properties;
  if (runtime->Open(0, &properties) != 0) return "the emulated device does not open";
  constexpr int kCounts[] = {1, 7, 33, 200, 256};
  // Halves are fastest everywhere, were it not for the largest step; algorithm 1 is faster than 0 up to 33 rows.
  const PlanClock clock = [&](const std::function<int()>& operation) {
    operation();
    const bool few = library.last_rows <= 33;
    return library.last_plan == 0 ? (few ? 2.0 : 1.0) : library.last_plan == 1 ? (few ? 1.0 : 2.0) : few ? 0.5 : 1.5;
  };
  // Rounded to bf16, so few numbers do not show in which order they were added.
  for (const ProductType type : {ProductType::kF32, ProductType::kBf16}) {
    const bool f32 = type == ProductType::kF32;
    const std::string got =
        SearchPlans(*runtime, {.outputs = 24, .inner = 64, .weight_stride = 72, .type = type}, kCounts, clock);
    const std::string want =
        f32 ? "// 24x64 f32: 4 candidates, classes of 2, 1; one of 2: 1 rows 1e+06 (2e+06), 7 rows 1e+06 (2e+06), 33 rows "
              "1e+06 (2e+06), 200 rows 1e+06 (1e+06), 256 rows 1e+06 (1e+06) us\n1 from 1\n0 from 34\n"
            : "// 24x64 bf16: 4 candidates, classes of 4; one of 4: 1 rows 5e+05 (2e+06), 7 rows 5e+05 (2e+06), 33 rows "
              "5e+05 (2e+06), 200 rows 1e+06 (1e+06), 256 rows 1e+06 (1e+06) us\n2 from 1\n0 from 34\n";
    if (got != want) return got;
  }
  if (machine->used_bytes != 0) return "memory is left";
  if (PlanShapes().size() != 40) return "40 shapes were expected";
  return "";
}

}  // namespace

std::vector<NamedCheck> PlanChecks() { return {{"plans_choices", CheckChoices}, {"plans_search", CheckSearch}}; }

}  // namespace varifocal::kernels::cuda
