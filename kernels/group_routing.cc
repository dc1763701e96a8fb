#include "kernels/group_routing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/wide_product.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels {
namespace {

constexpr int kRowsPerItem = 128;

double LogSumExp(const double* x, int count) {
  const double top = *std::max_element(x, x + count);
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

// Whole numbers in the order of x, equal for both zeros: they are compared without branches, which random scores would
// mispredict.
int64_t RankOf(double x) {
  const auto bits = std::bit_cast<int64_t>(x + 0.0);
  return bits ^ (bits >> 63 & INT64_MAX);
}

// The b of a page: of the complete pages before it.
struct PageBias {
  const SequenceRows* sequence;
  int32_t page;
};

}  // namespace

uint32_t TopGroups(std::span<const float> scores, float temperature, std::span<const float> bias, int top_k) {
  const int count = scores.size();
  int64_t ranks[kGroupCountMax];
  for (int g = 0; g < count; ++g) ranks[g] = RankOf(static_cast<double>(scores[g]) / temperature + bias[g]);
  uint32_t groups = 0;
  for (int n = 0; n < top_k; ++n) {
    int best = std::countr_one(groups);
    int64_t most = ranks[best];
    for (int g = best + 1; g < count; ++g) {
      const bool above = ranks[g] > most;
      best = above ? g : best;
      most = above ? ranks[g] : most;
    }
    groups |= 1u << best;
    ranks[best] = INT64_MIN;
  }
  return groups;
}

bool SinkhornBias(int64_t n, int group_count, float temperature, const std::function<const float*(int64_t)>& row,
                  const std::atomic<bool>* cancelled, float* bias) {
  double b[kGroupCountMax] = {};
  double tops[kGroupCountMax], sums[kGroupCountMax];
  std::vector<double> row_terms(n, 0.0);  // logarithm of each row's divisor
  for (int round = 0; round < kSinkhornRounds; ++round) {
    if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) return false;
    // log of each column's sum; a running largest term keeps the sums in range.
    std::fill(tops, tops + group_count, -INFINITY);
    std::fill(sums, sums + group_count, 0.0);
    for (int64_t i = 0; i < n; ++i) {
      const float* s = row(i);
      for (int g = 0; g < group_count; ++g) {
        const double q = static_cast<double>(s[g]) / temperature + b[g] - row_terms[i];
        if (q > tops[g]) {
          sums[g] *= std::exp(tops[g] - q);
          tops[g] = q;
        }
        sums[g] += std::exp(q - tops[g]);
      }
    }
    for (int g = 0; g < group_count; ++g) b[g] -= tops[g] + std::log(sums[g]);
    for (int64_t i = 0; i < n; ++i) {
      const float* s = row(i);
      double q[kGroupCountMax] = {};
      for (int g = 0; g < group_count; ++g) q[g] = static_cast<double>(s[g]) / temperature + b[g];
      row_terms[i] = LogSumExp(q, group_count);
    }
  }
  double mean = 0;
  for (int g = 0; g < group_count; ++g) mean += b[g] / group_count;
  for (int g = 0; g < group_count; ++g) bias[g] = b[g] - mean;
  return true;
}

GroupAnnotationOffsets GroupAnnotationOffsetsOf(int annotation_offset) {
  static_assert(kPageTokens >= kGroupCountMax * sizeof(float), "one byte a token holds the b of a page");
  const size_t groups = WideProduct(annotation_offset, kPageTokens);
  const size_t bias = groups + kPageTokens * sizeof(uint32_t);
  return {groups, bias, bias + kPageTokens};
}

GroupAnnotation GroupAnnotationAt(char* page, const RouteGroupsArgs& args) {
  const GroupAnnotationOffsets at = GroupAnnotationOffsetsOf(args.annotation_offset);
  GroupAnnotation annotation{.groups = reinterpret_cast<uint32_t*>(page + at.groups)};
  if (args.bias != GroupBias::kStored) annotation.bias = reinterpret_cast<float*>(page + at.bias);
  if (args.bias == GroupBias::kPaged) annotation.scores = reinterpret_cast<float*>(page + at.scores);
  return annotation;
}

void CopyGroups(std::span<const int32_t> pages, int annotation_offset,
                const std::function<const char*(int32_t page)>& annotations, std::span<uint32_t> groups) {
  VF_CHECK(groups.size() <= pages.size() * kPageTokens, "the pages hold the tokens");
  for (size_t begin = 0; begin < groups.size(); begin += kPageTokens) {
    const char* from = annotations(pages[begin / kPageTokens]) + GroupAnnotationOffsetsOf(annotation_offset).groups;
    const size_t count = std::min<size_t>(kPageTokens, groups.size() - begin);
    std::memcpy(&groups[begin], from, count * sizeof(uint32_t));
  }
}

Error CheckRoute(const Batch& batch, const RouteGroupsArgs& args) {
  VF_CHECK(
      args.group_count >= 1 && args.group_count <= kGroupCountMax && args.top_k >= 1 && args.top_k <= args.group_count,
      "1 <= top_k <= group_count <= 32");
  if (args.bias != GroupBias::kPrompt) return {};
  return CheckWholePrompts(batch, "a group bias over the prompt");
}

Error AssignGroups(const FlatBatch& flat, const RouteGroupsArgs& args, const float* scores, const float* group_bias,
                   const std::function<char*(const SequenceRows&, int32_t position)>& page,
                   const std::function<bool(int count, const std::function<void(int)>& item)>& each) {
  if (Error error = CheckRoute(flat.batch, args); !error.ok()) return error;
  const int count = args.group_count;
  const auto annotation = [&](const SequenceRows& sequence, int32_t position) {
    return GroupAnnotationAt(page(sequence, position), args);
  };
  std::vector<PageBias> wanted;
  for (size_t s = 0; s < flat.batch.sequences.size() && args.bias != GroupBias::kStored; ++s) {
    const SequenceRows& sequence = flat.batch.sequences[s];
    const int32_t end = sequence.first_position + sequence.row_count;
    if (args.bias == GroupBias::kPrompt) {
      if (sequence.first_position < sequence.prompt_row_count) wanted.push_back({&sequence, 0});
      continue;
    }
    for (int32_t position = sequence.first_position; position < end; ++position) {
      const float* from = scores + WideProduct(flat.first_rows[s] + position - sequence.first_position, count);
      std::copy(from, from + count, annotation(sequence, position).scores + position % kPageTokens * count);
      if (position % kPageTokens == 0) wanted.push_back({&sequence, position / kPageTokens});
    }
  }
  const bool finished = each(wanted.size(), [&](int index) {
    const PageBias& at = wanted[index];
    const auto first_row = static_cast<size_t>(flat.first_rows[at.sequence - flat.batch.sequences.data()]);
    float* bias = annotation(*at.sequence, at.page * kPageTokens).bias;
    if (args.bias == GroupBias::kPrompt) {
      SinkhornBias(
          at.sequence->prompt_row_count, count, args.temperature,
          [&](int64_t i) { return scores + (first_row + i) * count; }, flat.batch.cancelled, bias);
    } else if (at.page == 0) {
      std::fill(bias, bias + count, 0.0f);
    } else {
      SinkhornBias(
          WideProduct(at.page, kPageTokens), count, args.temperature,
          [&](int64_t i) { return annotation(*at.sequence, i).scores + i % kPageTokens * count; }, flat.batch.cancelled,
          bias);
    }
  });
  if (!finished || IsCancelled(flat.batch)) return CancelledError();
  const int rows = flat.row_count();
  const bool assigned = each((rows + kRowsPerItem - 1) / kRowsPerItem, [&](int item) {
    for (int row = item * kRowsPerItem; row < std::min(rows, (item + 1) * kRowsPerItem); ++row) {
      const SequenceRows& sequence = flat.batch.sequences[flat.row_sequences[row]];
      const int32_t position = flat.row_positions[row];
      const GroupAnnotation to = annotation(sequence, position);
      const float* bias = args.bias == GroupBias::kStored   ? group_bias
                          : args.bias == GroupBias::kPrompt ? annotation(sequence, 0).bias
                                                            : to.bias;
      to.groups[position % kPageTokens] = TopGroups({scores + WideProduct(row, count), static_cast<size_t>(count)},
                                                    args.temperature, {bias, static_cast<size_t>(count)}, args.top_k);
    }
  });
  return assigned ? Error{} : CancelledError();
}

}  // namespace varifocal::kernels
