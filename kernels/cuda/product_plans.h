// Algorithms of cuBLASLt that were recorded on devices: what a product of a shape runs, whatever the library suggests.
//
// `gpu_bench --plans` measures them and prints the rows (bench/plan_search.h). A shape may have several, each for steps of
// `rows_from` rows and more, up to the next row's: their bits are the same, so that a step's size decides time alone. The rows
// below are of one run on an H100 by an earlier program, with one algorithm a shape, the fastest at 8,192 rows.
// A shape without a row runs the first suggestion that keeps bits, which may change with the library: its version and the
// recorded rows are part of the backend's name.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/runtime.h"

namespace varifocal::kernels::cuda {

inline constexpr int kPlanAttributeCount = 7;
inline constexpr const char* kPlanAttributeNames[kPlanAttributeCount] = {"algorithm", "tile",  "stages", "swizzle",
                                                                         "option",    "inner", "cluster"};

struct RecordedPlan {
  int capability = 0;  // major * 10 + minor
  size_t library_version = 0;
  int64_t outputs = 0, inner = 0;  // N, K
  ProductType type = ProductType::kF32;
  int attributes[kPlanAttributeCount] = {};
  int rows_from = 1;
};

inline constexpr std::array kRecordedPlans{
    RecordedPlan{90, 130100, 7680, 2560, ProductType::kBf16, {66, 201, 35, 0, 2, 0, 5}},
    RecordedPlan{90, 130100, 7680, 2560, ProductType::kF32, {66, 201, 35, 0, 2, 0, 5}},
    RecordedPlan{90, 130100, 2560, 2560, ProductType::kBf16, {66, 29, 35, 0, 1, 0, 3}},
    RecordedPlan{90, 130100, 2560, 2560, ProductType::kF32, {66, 29, 35, 0, 1, 0, 3}},
    RecordedPlan{90, 130100, 13824, 2560, ProductType::kBf16, {66, 23, 35, 0, 4, 0, 3}},
    RecordedPlan{90, 130100, 13824, 2560, ProductType::kF32, {66, 23, 35, 0, 4, 0, 3}},
    RecordedPlan{90, 130100, 8192, 2560, ProductType::kBf16, {66, 197, 35, 0, 2, 0, 5}},
    RecordedPlan{90, 130100, 8192, 2560, ProductType::kF32, {66, 197, 35, 0, 2, 0, 5}}};

// Those of a shape, by rising rows_from.
inline std::vector<RecordedPlan> PlansOf(std::span<const RecordedPlan> rows, int capability, size_t library_version,
                                         const ProductPlan& plan) {
  std::vector<RecordedPlan> found;
  for (const RecordedPlan& row : rows) {
    if (row.capability == capability && row.library_version == library_version && row.outputs == plan.outputs &&
        row.inner == plan.inner && row.type == plan.type) {
      found.push_back(row);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const RecordedPlan& a, const RecordedPlan& b) { return a.rows_from < b.rows_from; });
  return found;
}

// A row as this file has it.
inline std::string RowText(const RecordedPlan& row) {
  std::string text = "RecordedPlan{" + std::to_string(row.capability) + ", " + std::to_string(row.library_version) +
                     ", " + std::to_string(row.outputs) + ", " + std::to_string(row.inner) +
                     (row.type == ProductType::kF32 ? ", ProductType::kF32, {" : ", ProductType::kBf16, {");
  for (int i = 0; i < kPlanAttributeCount; ++i) text += (i == 0 ? "" : ", ") + std::to_string(row.attributes[i]);
  return text + "}, " + std::to_string(row.rows_from) + "},";
}

// "" without recorded rows for this device and library, else "/" and a digest of them (FNV-1a), but for rows_from, on
// which no bit depends.
inline std::string PlansTag(std::span<const RecordedPlan> rows, int capability, size_t library_version) {
  uint64_t digest = 14695981039346656037u;
  bool any = false;
  const auto add = [&digest](int64_t number) { digest = (digest ^ number) * 1099511628211u; };
  for (const RecordedPlan& row : rows) {
    if (row.capability != capability || row.library_version != library_version) continue;
    any = true;
    add(row.outputs);
    add(row.inner);
    add(static_cast<int64_t>(row.type));
    for (const int attribute : row.attributes) add(attribute);
  }
  if (!any) return "";
  constexpr char kDigits[] = "0123456789abcdef";
  std::string tag = "/";
  for (int shift = 60; shift >= 0; shift -= 4) tag += kDigits[(digest >> shift) % 16];
  return tag;
}

}  // namespace varifocal::kernels::cuda
