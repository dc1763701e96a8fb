// How matches are treated when a text is split at them: the five behaviours of tokenizer.json.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace varifocal {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

absl::StatusOr<SplitBehavior> GetSplitBehavior(const Json& object);  // object["behavior"]

// Part of a text, in bytes; parts that follow each other cover it.
struct Segment {
  size_t begin, end;
  bool is_match;
};

std::vector<Segment> JoinSegments(std::vector<Segment> segments, SplitBehavior behavior);

}  // namespace varifocal
