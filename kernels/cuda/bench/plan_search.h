// Which algorithms of the product library a shape should run, by the step's rows: what `gpu_bench --plans` records in
// product_plans.h.
//
// Every candidate multiplies the same numbers in steps of several sizes. Candidates whose outputs are equal in all of them are a
// class: they add in the same order, so a step may run any of them. (Rounding to bf16 hides an order in some ten thousand
// numbers; a shape of a model has 500,000 and more in its digests.) Before rows are recorded `layer_bits_*` must pass with
// them. One class is chosen for a shape, and within it the fastest for each range of rows.
//
// Threads: one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/runtime.h"

namespace varifocal::kernels::cuda {

// Sizes of steps; the edges of ranges. Those that are no multiple of a tile are here to compare bits.
inline constexpr int kPlanRowCounts[] = {1, 7, 16, 33, 64, 128, 200, 256, 512, 1000, 2048, 4096, 8192};

// What one algorithm did in each size of step.
struct PlanCandidate {
  int plan = -1;                    // of the library
  std::vector<uint64_t> digests;    // of the step's outputs
  std::vector<uint64_t> same_rows;  // of the same rows within the largest step
  std::vector<double> seconds;      // least of the repetitions
};

// Indices of candidates by class, each in the library's order, the first candidate's class first. One whose rows have other bits in
// steps of other sizes is in none.
std::vector<std::vector<size_t>> PlanClasses(std::span<const PlanCandidate> candidates);

struct PlanRange {
  int rows_from = 1;
  size_t candidate = 0;
  bool operator==(const PlanRange&) const = default;
};
struct PlanChoice {
  std::vector<PlanRange> ranges;  // by rising rows_from; none: no class
  size_t class_count = 0, class_size = 0;
};

// Among the classes that are within `kPlanTolerance` of the fastest in the largest step, the one with the least product of times
// over all sizes. A range ends at a size that was measured: tiles make steps of 65 to 128 rows alike. A change of algorithm must
// gain more than the tolerance.
inline constexpr double kPlanTolerance = 1.02;
PlanChoice ChoosePlans(std::span<const int> row_counts, std::span<const PlanCandidate> candidates);

// Seconds of one call of an operation that is queued.
using PlanClock = std::function<double(const std::function<int()>& operation)>;

// Rows of product_plans.h for a shape, with a comment on its classes; or why there are none, as a comment. Throws
// CellRefused where the device fails.
std::string SearchPlans(Runtime& runtime, const ProductPlan& shape, std::span<const int> row_counts,
                        const PlanClock& clock);

// Layer products and a slice of the LM head, of models of 2.7B, 8B, 1B and 0.1B, in both output formats.
std::vector<ProductPlan> PlanShapes();

}  // namespace varifocal::kernels::cuda
