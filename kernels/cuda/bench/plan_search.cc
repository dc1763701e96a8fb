#include "kernels/cuda/bench/plan_search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/wide_product.h"
#include "kernels/cuda/bench/bench.h"

namespace varifocal::kernels::cuda {
namespace {

// Rows of a digest, from the step's first and last tiles. Two orders of a sum differ in most f32 numbers, and in one of
// some ten thousand after rounding to bf16.
constexpr int kDigestRowsF32 = 16, kDigestRowsBf16 = 128;
// What an output is before a product that adds to it: no round number, and its bytes are alike.
constexpr int kAddedByte = 0x3E;

// The step's rows that are digested: the first ones and the last ones, which may overlap.
struct RowBlock {
  int first = 0, count = 0;
};
std::pair<RowBlock, RowBlock> DigestRows(int rows, ProductType type) {
  const int count = std::min(rows, (type == ProductType::kF32 ? kDigestRowsF32 : kDigestRowsBf16) / 2);
  return {{0, count}, {rows - count, count}};
}

uint64_t AddTo(uint64_t digest, const std::vector<char>& bytes) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<size_t>(8, bytes.size() - at));
    digest = (digest ^ word) * 0x9E3779B97F4A7C15u;
    digest ^= digest >> 29;
  }
  return digest;
}

void Answered(int code) {
  if (code != 0) throw CellRefused{"the device answers " + std::to_string(code)};
}

// The library does not multiply in this size of step.
struct ProductRefused {
  int code = 0;
};
void Multiplied(int code) {
  if (code < 0) throw ProductRefused{code};
  Answered(code);
}

class Memory {
 public:
  Memory(Runtime& runtime, size_t bytes) : runtime_(runtime) { Answered(runtime.Allocate(&data_, bytes)); }
  ~Memory() {
    runtime_.Synchronize();
    runtime_.Free(data_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }

 private:
  Runtime& runtime_;
  void* data_ = nullptr;
};

class Search {
 public:
  Search(Runtime& runtime, const ProductPlan& shape, std::span<const int> row_counts, const PlanClock& clock)
      : runtime_(runtime),
        shape_(shape),
        row_counts_(row_counts),
        clock_(clock),
        row_bytes_(WideProduct(shape.outputs, shape.type == ProductType::kF32 ? 4 : 2)),
        weight_(runtime, WideProduct(shape.outputs, shape.weight_stride) * 2),
        x_(runtime, WideProduct(row_counts.back(), shape.inner) * 2),
        out_(runtime, WideProduct(row_counts.back(), row_bytes_)) {
    Fill(weight_, WideProduct(shape.outputs, shape.weight_stride), 11);
    Fill(x_, WideProduct(row_counts.back(), shape.inner), 12);
  }

  PlanCandidate Run(int plan) {
    PlanCandidate candidate{.plan = plan};
    // The largest step's rows, for every size; then each size's own.
    for (const int beta : Betas()) {
      Multiply(plan, row_counts_.back(), beta);
      for (size_t i = 0; i < row_counts_.size(); ++i) Digest(row_counts_[i], beta == 0, i, candidate.same_rows);
    }
    for (size_t i = 0; i < row_counts_.size(); ++i) {
      for (const int beta : Betas()) {
        Multiply(plan, row_counts_[i], beta);
        Digest(row_counts_[i], beta == 0, i, candidate.digests);
      }
      candidate.seconds.push_back(clock_([&] { return Start(plan, row_counts_[i], 0); }));
    }
    return candidate;
  }

 private:
  // An f32 product also adds to the residual.
  std::span<const int> Betas() const {
    static constexpr int kBetas[] = {0, 1};
    return {kBetas, shape_.type == ProductType::kF32 ? 2u : 1u};
  }
  // Whole numbers and parts of them, as bf16, of many magnitudes so that the order of sums shows.
  void Fill(const Memory& memory, size_t count, uint64_t seed) {
    std::vector<uint16_t> numbers(count);
    for (size_t i = 0; i < count; i += 4) {
      const uint64_t bits = Mix(seed, i);
      for (size_t k = 0; k < 4 && i + k < count; ++k) {
        // Sign, an exponent of 2^-8 to 2^-1, seven bits of mantissa.
        const auto word = static_cast<uint16_t>(bits >> (16 * k));
        numbers[i + k] = (word & 0x807Fu) | static_cast<uint16_t>((119 + (word >> 7 & 7)) << 7);
      }
    }
    Answered(runtime_.CopyToDevice(memory.data(), numbers.data(), count * 2));
    Answered(runtime_.Synchronize());
  }
  int Start(int plan, int rows, int beta) {
    return runtime_.products()->Multiply(plan, rows, x_.data(), weight_.data(), 1.0f, static_cast<float>(beta),
                                         out_.data());
  }
  void Multiply(int plan, int rows, int beta) {
    Answered(runtime_.Fill(out_.data(), kAddedByte, rows * row_bytes_));
    Multiplied(Start(plan, rows, beta));
  }
  void Digest(int rows, bool is_first, size_t index, std::vector<uint64_t>& digests) {
    if (is_first) digests.push_back(0);
    const auto [head, tail] = DigestRows(rows, shape_.type);
    for (const RowBlock& block : {head, tail}) {
      std::vector<char> bytes(block.count * row_bytes_);
      const char* from = static_cast<const char*>(out_.data()) + block.first * row_bytes_;
      Answered(runtime_.CopyToHost(bytes.data(), from, bytes.size()));
      Answered(runtime_.Synchronize());
      digests[index] = AddTo(digests[index], bytes);
    }
  }

  Runtime& runtime_;
  const ProductPlan shape_;
  const std::span<const int> row_counts_;
  const PlanClock& clock_;
  const size_t row_bytes_;
  const Memory weight_, x_, out_;
};

// Of a class, the fastest in a step of this size, and its seconds.
size_t FastestOf(std::span<const PlanCandidate> candidates, const std::vector<size_t>& members, size_t size) {
  return *std::min_element(members.begin(), members.end(), [&](size_t a, size_t b) {
    return candidates[a].seconds[size] < candidates[b].seconds[size];
  });
}

}  // namespace

std::vector<std::vector<size_t>> PlanClasses(std::span<const PlanCandidate> candidates) {
  std::vector<std::vector<size_t>> classes;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].digests != candidates[i].same_rows) continue;
    const auto same = std::find_if(classes.begin(), classes.end(), [&](const std::vector<size_t>& members) {
      return candidates[members[0]].digests == candidates[i].digests;
    });
    if (same == classes.end()) {
      classes.push_back({i});
    } else {
      same->push_back(i);
    }
  }
  return classes;
}

PlanChoice ChoosePlans(std::span<const int> row_counts, std::span<const PlanCandidate> candidates) {
  const std::vector<std::vector<size_t>> classes = PlanClasses(candidates);
  if (classes.empty()) return {};
  const size_t largest = row_counts.size() - 1;
  const auto seconds = [&](const std::vector<size_t>& members, size_t size) {
    return candidates[FastestOf(candidates, members, size)].seconds[size];
  };
  double least = INFINITY;
  for (const auto& members : classes) least = std::min(least, seconds(members, largest));
  const std::vector<size_t>* best = nullptr;
  double best_sum = INFINITY;
  for (const auto& members : classes) {
    if (seconds(members, largest) > least * kPlanTolerance) continue;
    double sum = 0;
    for (size_t size = 0; size <= largest; ++size) sum += std::log(seconds(members, size));
    if (sum < best_sum) {
      best = &members;
      best_sum = sum;
    }
  }
  PlanChoice choice{.class_count = classes.size(), .class_size = best->size()};
  size_t now = FastestOf(candidates, *best, largest);
  for (size_t size = largest;; --size) {
    const size_t fastest = FastestOf(candidates, *best, size);
    if (candidates[now].seconds[size] > candidates[fastest].seconds[size] * kPlanTolerance) {
      choice.ranges.push_back({row_counts[size] + 1, now});
      now = fastest;
    }
    if (size == 0) break;
  }
  choice.ranges.push_back({1, now});
  std::reverse(choice.ranges.begin(), choice.ranges.end());
  return choice;
}

std::string SearchPlans(Runtime& runtime, const ProductPlan& shape, std::span<const int> row_counts,
                        const PlanClock& clock) {
  ProductLibrary& library = *runtime.products();
  const std::string name = std::to_string(shape.outputs) + "x" + std::to_string(shape.inner) +
                           (shape.type == ProductType::kF32 ? " f32" : " bf16");
  Search search(runtime, shape, row_counts, clock);
  std::vector<PlanCandidate> candidates;
  std::string refused;
  for (const int plan : library.Candidates(shape)) {
    try {
      candidates.push_back(search.Run(plan));
    } catch (const ProductRefused& status) {  // in a size that was not asked for before
      refused += "// " + name + ": a candidate is left out: " + library.StatusText(-status.code) + "\n";
    }
  }
  const PlanChoice choice = ChoosePlans(row_counts, candidates);
  std::string text = refused + "// " + name + ": " + std::to_string(candidates.size()) + " candidates";
  if (choice.ranges.empty()) return text + ", none of which keeps bits\n";
  std::string sizes;
  for (const auto& members : PlanClasses(candidates))
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(members.size());
  text += ", classes of " + sizes + "; one of " + std::to_string(choice.class_size) + ":";
  // Microseconds in each size of step, and what the fastest for the largest one takes.
  const PlanCandidate& alone = candidates[choice.ranges.back().candidate];
  for (size_t size = 0; size < row_counts.size(); ++size) {
    size_t range = choice.ranges.size() - 1;
    while (choice.ranges[range].rows_from > row_counts[size]) --range;
    char part[80];
    std::snprintf(part, sizeof part, "%s%d rows %.4g (%.4g)", size == 0 ? " " : ", ", row_counts[size],
                  candidates[choice.ranges[range].candidate].seconds[size] * 1e6, alone.seconds[size] * 1e6);
    text += part;
  }
  text += " us\n";
  for (const PlanRange& range : choice.ranges)
    text += library.PlanRow(candidates[range.candidate].plan, range.rows_from) + "\n";
  return text;
}

std::vector<ProductPlan> PlanShapes() {
  constexpr int kHeadSliceOutputs = 8192;
  // Width, query heads times head dim, KV heads times head dim, hidden units.
  constexpr int kModels[][4] = {
      {2560, 2560, 2560, 6912}, {4096, 4096, 1024, 14336}, {2048, 2048, 512, 8192}, {768, 768, 768, 2048}};
  std::vector<ProductPlan> shapes;
  for (const auto& [width, attended, kv, ffn] : kModels) {
    const std::pair<int, int> products[] = {
        {attended + 2 * kv, width}, {width, attended}, {2 * ffn, width}, {width, ffn}, {kHeadSliceOutputs, width}};
    for (const auto& [outputs, inner] : products) {
      for (const ProductType type : {ProductType::kBf16, ProductType::kF32})
        shapes.push_back({.outputs = outputs, .inner = inner, .weight_stride = inner, .type = type});
    }
  }
  return shapes;
}

}  // namespace varifocal::kernels::cuda
