// Focus routing on the host: the groups of a token from its scores, and Sinkhorn's bias (docs/focus.md).
//
// Shapes:  scores S [n, K], row-major; S / temperature are logits.
// Threads: pure functions of their arguments.
// Source:  arXiv 2604.03260, section 3; what the paper leaves open is in docs/decisions/0035.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/host_memory.h"

namespace varifocal::kernels {

// The top_k groups with the largest scores[g] / temperature + bias[g], a bit each; ties to the lower group.
uint32_t TopGroups(std::span<const float> scores, float temperature, std::span<const float> bias, int top_k);

// b of the rows 0..n-1, less its mean: ten rounds over exp(S / temperature), columns first, in logarithms.
// `row(i)` gives the K scores of row i. False when `cancelled` was seen.
bool SinkhornBias(int64_t n, int group_count, float temperature, const std::function<const float*(int64_t)>& row,
                  const std::atomic<bool>* cancelled, float* bias);

// Offsets of the data of RouteGroups in the annotations of one page, in bytes.
struct GroupAnnotationOffsets {
  size_t groups = 0, bias = 0, scores = 0;
};
GroupAnnotationOffsets GroupAnnotationOffsetsOf(int annotation_offset);

// The same in host memory.
struct GroupAnnotation {
  uint32_t* groups = nullptr;  // [128]
  float* bias = nullptr;       // [32] of the page; null for kStored
  float* scores = nullptr;     // [128][K]; null unless kPaged
};
GroupAnnotation GroupAnnotationAt(char* page, const RouteGroupsArgs& args);

// ReadGroups of a backend that keeps annotations as GroupAnnotationAt defines; `annotations(page)` are those of a page.
void CopyGroups(std::span<const int32_t> pages, int annotation_offset,
                const std::function<const char*(int32_t page)>& annotations, std::span<uint32_t> groups);

// kInvalidArgument when b needs a whole prompt and a sequence has a part of it. Counts out of range are bugs.
Error CheckRoute(const Batch& batch, const RouteGroupsArgs& args);

// Writes b where `bias` is a computed one, and the groups of every row. `page(sequence, position)` returns the
// annotations of the page that contains a position; `scores` is [T, K]. Errors as RouteGroups'.
// `each(count, item)` runs item(0..count-1), in parallel where possible; false when cancelled.
Error AssignGroups(const FlatBatch& flat, const RouteGroupsArgs& args, const float* scores, const float* group_bias,
                   const std::function<char*(const SequenceRows&, int32_t position)>& page,
                   const std::function<bool(int count, const std::function<void(int)>& item)>& each);

}  // namespace varifocal::kernels
